#pragma once

#include <optional>
#include <string>

#include <nlohmann/json.hpp>
#include <torch/optim/optimizer.h>
#include <torch/types.h>

namespace dtrain {

/// Compute type of `mixed_precision`: "bf16" or "fp16"; empty for "none".
std::optional<torch::ScalarType> ParsePrecision(
    const std::string& mixed_precision);

/// Runs operations on `device` that allow it (matrix products, convolutions) in
/// `type` for the lifetime of the object, like torch.autocast; without a type,
/// in the type of their inputs. Objects are destroyed in reverse order, on one
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

/// Dynamic loss scaling for float16: multiplies losses, so that small gradients
/// do not underflow, and divides the gradients by the same factor (Micikevicius
/// et al. 2018, arXiv:1710.03740). Unless fixed, the scale starts at 65,536, is
/// halved when a gradient overflows, and doubled after 2,000 steps without
/// overflow, like torch.amp.GradScaler. Not thread-safe.
class LossScaler {
 public:
  /// `fixed`: a constant scale.
  LossScaler(torch::Device device, std::optional<double> fixed);

  /// Returns `gradient`, with which the backward pass starts, times the scale.
  torch::Tensor Scale(const torch::Tensor& gradient) const;
  /// Divides the gradients of `optimizer` by the scale. Returns false if one of
  /// them is not finite; the step must then be skipped. Waits for the device.
  [[nodiscard]] bool Unscale(torch::optim::Optimizer& optimizer);
  /// Unscale without waiting for the device. Returns float [1] on the device: 0
  /// if the step must be taken, 1 if it must be skipped.
  torch::Tensor UnscaleOnDevice(torch::optim::Optimizer& optimizer);
  /// Records that a CUDA graph has replayed UnscaleOnDevice.
  void RecordReplay() { has_stepped_ = true; }
  /// Updates the scale by the overflows since the last call; does nothing if
  /// there were no steps.
  void Update();
  /// Update without waiting for the device. LogOverflows reports the overflows
  /// later.
  void UpdateOnDevice();
  void LogOverflows();

  double scale() const { return scale_.item<double>(); }

  /// State for checkpoints. Load throws nlohmann::json::exception.
  nlohmann::json Save() const;
  void Load(const nlohmann::json& state);

 private:
  const bool is_fixed_;
  bool has_stepped_ = false;
  torch::Tensor scale_;      // float32 [1]
  torch::Tensor growth_;     // int32 [1]: steps without an overflow
  torch::Tensor found_inf_;  // float32 [1]: since the last update
  torch::Tensor overflows_;  // float32 [1]: updates with one, not logged yet
};

}  // namespace dtrain
