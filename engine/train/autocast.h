#pragma once

#include <optional>
#include <string>

#include <torch/types.h>

namespace dtrain {

/// The type that `mixed_precision` computes in: "bf16", "fp16", or "none",
/// which is none.
std::optional<torch::ScalarType> PrecisionOf(
    const std::string& mixed_precision);

/// As long as it lives, operations on `device` that bear it (matrix products,
/// convolutions) compute in `type`, as under torch.autocast; without a type, in
/// that of their inputs. Ends in the reverse order of beginnings, on one
/// thread.
class Autocast {
 public:
  Autocast(torch::Device device, std::optional<torch::ScalarType> type);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  const torch::DeviceType device_;
  const bool was_enabled_;
  const torch::ScalarType old_type_;
};

}  // namespace dtrain
