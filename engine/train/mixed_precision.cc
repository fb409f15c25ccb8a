#include "engine/train/mixed_precision.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include <ATen/autocast_mode.h>
#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale.h>
#include <ATen/ops/_amp_update_scale.h>

#include "engine/base/rounding.h"
#include "engine/train/log_line.h"
#include "engine/train/trained_objects.h"

// The backward pass starts with the gradient `scale` instead of 1, so that
// gradients too small for float16 do not become zero. Before the step they are
// divided by the scale. If one of them is infinite or NaN, the scale
// was too large: the step is skipped and the scale halved. After
// kGrowthInterval steps without overflow it is doubled. The scale is a tensor
// on the device: UnscaleOnDevice and UpdateOnDevice never read it on the host,
// and the optimizer skips its step by reading the returned tensor on the
// device.

namespace dtrain {

std::optional<torch::ScalarType> ParsePrecision(
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
  // Cached casts of weights are stale after an optimizer step.
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(device_, was_enabled_);
  at::autocast::set_autocast_dtype(device_, old_type_);
}

namespace {

constexpr double kFirstScale = 65536;
constexpr double kGrowth = 2;
constexpr double kBackoff = 0.5;
constexpr std::int64_t kGrowthInterval = 2000;  // steps

}  // namespace

LossScaler::LossScaler(torch::Device device, std::optional<double> fixed)
    : is_fixed_(fixed.has_value()),
      scale_(torch::full(
          {1}, fixed.value_or(kFirstScale),
          torch::TensorOptions().dtype(torch::kFloat).device(device))),
      growth_(torch::zeros(
          {1}, torch::TensorOptions().dtype(torch::kInt).device(device))),
      found_inf_(torch::zeros_like(scale_)),
      overflows_(torch::zeros_like(scale_)) {}

torch::Tensor LossScaler::Scale(const torch::Tensor& gradient) const {
  return gradient * scale_.to(gradient.scalar_type()).squeeze();
}

bool LossScaler::Unscale(torch::optim::Optimizer& optimizer) {
  return UnscaleOnDevice(optimizer).item<float>() == 0;
}

torch::Tensor LossScaler::UnscaleOnDevice(torch::optim::Optimizer& optimizer) {
  const torch::NoGradGuard no_grad;
  has_stepped_ = true;
  torch::Tensor found = torch::zeros_like(scale_);
  const torch::Tensor inverse =
      scale_.to(torch::kDouble).reciprocal().to(torch::kFloat);
  // The kernel takes tensors of one type.
  std::map<torch::ScalarType, std::vector<torch::Tensor>> gradients;
  for (const torch::Tensor& parameter : ParametersWithGradient(optimizer)) {
    gradients[parameter.scalar_type()].push_back(parameter.grad());
  }
  for (const auto& [type, tensors] : gradients) {
    at::_amp_foreach_non_finite_check_and_unscale_(tensors, found, inverse);
  }
  // In place: a captured graph refers to its address.
  torch::maximum_out(found_inf_, found_inf_, found);
  return found;
}

void LossScaler::Update() {
  if (!std::exchange(has_stepped_, false)) return;
  if (!is_fixed_) {
    const bool overflowed = found_inf_.item<float>() != 0;
    const double before = overflowed ? scale() : 0;
    at::_amp_update_scale_(scale_, growth_, found_inf_, kGrowth, kBackoff,
                           kGrowthInterval);
    if (overflowed) {
      LogLine(LogLevel::kInfo,
              "a gradient overflowed float16: its step was "
              "skipped, and the loss scale is " +
                  std::to_string(scale()) + " instead of " +
                  std::to_string(before));
    }
  }
  found_inf_.zero_();
}

void LossScaler::UpdateOnDevice() {
  if (!std::exchange(has_stepped_, false)) return;
  const torch::NoGradGuard no_grad;
  overflows_.add_(found_inf_);
  if (!is_fixed_) {
    at::_amp_update_scale_(scale_, growth_, found_inf_, kGrowth, kBackoff,
                           kGrowthInterval);
  }
  found_inf_.zero_();
}

void LossScaler::LogOverflows() {
  const auto overflows = static_cast<std::int64_t>(overflows_.item<float>());
  if (overflows == 0) return;
  overflows_.zero_();
  LogLine(LogLevel::kInfo, "gradients overflowed float16: " +
                               CountText(overflows, "step was", "steps were") +
                               " skipped, and the loss scale is " +
                               std::to_string(scale()));
}

nlohmann::json LossScaler::Save() const {
  return {{"scale", scale()}, {"growth", growth_.item<int>()}};
}

void LossScaler::Load(const nlohmann::json& state) {
  if (!is_fixed_) scale_.fill_(state.at("scale").get<double>());
  growth_.fill_(state.at("growth").get<int>());
}

}  // namespace dtrain
