#pragma once

#include <optional>
#include <string>

#include <nlohmann/json.hpp>
#include <torch/optim/optimizer.h>
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

/// Multiplies losses, so that small gradients do not vanish in float16, and
/// divides the gradients by it again (Micikevicius et al. 2018,
/// arXiv:1710.03740). A scale that is not fixed begins at 65,536, is halved
/// where a gradient overflows, and doubled after 2,000 steps without that: as
/// torch.amp.GradScaler does it. One thread.
class LossScaler {
 public:
  /// `fixed`: a scale that stays.
  LossScaler(torch::Device device, std::optional<double> fixed);

  /// What `gradient`, the one that backward begins with, is under the scale.
  torch::Tensor Scale(const torch::Tensor& gradient) const;
  /// Divides the gradients of `optimizer`. False if one of them is no finite
  /// number: then the step must not be taken. Waits for the device.
  [[nodiscard]] bool Unscale(torch::optim::Optimizer& optimizer);
  /// The same without waiting: float [1], 0 if the step must be taken.
  torch::Tensor UnscaleOnDevice(torch::optim::Optimizer& optimizer);
  /// What UnscaleOnDevice asked the device for was asked for once more.
  void RecordReplay() { has_stepped_ = true; }
  /// Adapts the scale to what the steps since the last call have met; nothing
  /// if there were none.
  void Update();
  /// The same without waiting; LogOverflows says afterwards what was met.
  void UpdateOnDevice();
  void LogOverflows();

  double scale() const { return scale_.item<double>(); }

  /// For checkpoints. Load throws nlohmann::json::exception.
  nlohmann::json Save() const;
  void Load(const nlohmann::json& state);

 private:
  const bool is_fixed_;
  bool has_stepped_ = false;
  torch::Tensor scale_;      // float32 [1]
  torch::Tensor growth_;     // int32 [1]: steps without an overflow
  torch::Tensor found_inf_;  // float32 [1]: of the steps since the last update
  torch::Tensor overflows_;  // float32 [1]: updates that met one, yet untold
};

}  // namespace dtrain
