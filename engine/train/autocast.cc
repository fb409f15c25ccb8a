#include "engine/train/autocast.h"

#include <ATen/autocast_mode.h>

namespace dtrain {

std::optional<torch::ScalarType> PrecisionOf(
    const std::string& mixed_precision) {
  if (mixed_precision == "bf16") return torch::kBFloat16;
  if (mixed_precision == "fp16") return torch::kHalf;
  return std::nullopt;
}

Autocast::Autocast(torch::Device device, std::optional<torch::ScalarType> type)
    : device_(device.type()),
      was_enabled_(at::autocast::is_autocast_enabled(device_)),
      old_type_(at::autocast::get_autocast_dtype(device_)) {
  at::autocast::increment_nesting();
  at::autocast::set_autocast_enabled(device_, type.has_value());
  if (type) at::autocast::set_autocast_dtype(device_, *type);
}

Autocast::~Autocast() {
  // Weights that were cast are of no use once they have changed.
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(device_, was_enabled_);
  at::autocast::set_autocast_dtype(device_, old_type_);
}

}  // namespace dtrain
