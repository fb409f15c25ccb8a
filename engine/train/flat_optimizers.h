#pragma once

#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include "engine/base/api.h"
#include "engine/train/device_steps.h"

namespace dtrain {

/// LibTorch's optimizers with a step that is one operation for all parameters
/// of a group, several times as fast where these are many and small. Options,
/// groups and state are theirs, so that checkpoints and schedules cannot tell
/// them apart; what they compute is theirs, too, to rounding. Steps with a
/// closure, and with parameters or gradients that are not dense float32 or
/// float64 in the CPU's or a GPU's memory, are the base class's own.
///
/// Their steps can be captured as a CUDA graph, once device_steps() are on.
class DTRAIN_API FlatOptimizer {
 public:
  virtual ~FlatOptimizer() = default;

  DeviceSteps& device_steps() { return device_steps_; }
  /// Brings the learning rates that the options name to the device, where the
  /// next steps read them. Does not wait.
  virtual void BringRates() = 0;
  /// Brings the counts of steps from the device to the state, for who reads it.
  virtual void FetchCounts() = 0;

 protected:
  DeviceSteps device_steps_;
};

class DTRAIN_API FlatSgd final : public torch::optim::SGD,
                                 public FlatOptimizer {
 public:
  using SGD::SGD;
  torch::Tensor step(LossClosure closure = nullptr) override;
  void BringRates() override { device_steps_.BringRates(param_groups_); }
  void FetchCounts() override {}  // it has none
};

class DTRAIN_API FlatAdam final : public torch::optim::Adam,
                                  public FlatOptimizer {
 public:
  using Adam::Adam;
  torch::Tensor step(LossClosure closure = nullptr) override;
  void BringRates() override { device_steps_.BringRates(param_groups_); }
  void FetchCounts() override;
};

class DTRAIN_API FlatAdamW final : public torch::optim::AdamW,
                                   public FlatOptimizer {
 public:
  using AdamW::AdamW;
  torch::Tensor step(LossClosure closure = nullptr) override;
  void BringRates() override { device_steps_.BringRates(param_groups_); }
  void FetchCounts() override;
};

}  // namespace dtrain
