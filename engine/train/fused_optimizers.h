#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/optimizer.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>

#include "engine/base/api.h"

namespace dtrain {

/// State of an optimizer that changes from step to step (learning rates, step
/// counts), kept on the device of its parameters instead of the host. A step
/// then issues the same device work each time, which a CUDA graph can replay.
/// Not thread-safe.
class DTRAIN_API CapturableState {
 public:
  /// Keeps the state on `device` from here on. REQUIRES: all parameters are on
  /// it.
  void Enable(torch::Device device) {
    is_on_ = true;
    device_ = device;
  }
  bool is_on() const { return is_on_; }

  /// Makes steps skip their update if the first element of `found_inf` (float
  /// [1]), read on the device, is not 0.
  void SetFoundInf(torch::Tensor found_inf) {
    found_inf_ = std::move(found_inf);
  }
  const torch::Tensor& found_inf() const { return found_inf_; }

  /// Copies the learning rates of these groups to the device if they have
  /// changed.
  void UploadLearningRates(
      const std::vector<torch::optim::OptimizerParamGroup>& groups);
  /// Learning rate of group `index`: a tensor []. REQUIRES: UploadLearningRates
  /// was called.
  const torch::Tensor& Rate(std::size_t index) const {
    return rates_.at(index).tensor;
  }

  /// Number of steps of `parameter`: float32 [] (exact up to 2^24), always at
  /// the same address. `host`: the count if the host has counted so far.
  const torch::Tensor& Count(const torch::Tensor& parameter, std::int64_t host);
  /// Step counts by parameter, for those that the device counts. Waits for it.
  std::map<void*, std::int64_t> Counts() const;

  /// Records a step that runs on the host, which takes over learning rates and
  /// counts. Returns false if the step must be skipped; waits for the device to
  /// find out.
  [[nodiscard]] bool RecordHostStep();
  std::int64_t host_steps() const { return host_steps_; }

 private:
  struct HeldRate {
    torch::Tensor tensor;
    double value;  // its value
  };

  struct HeldCount {
    torch::Tensor tensor;
    bool is_valid = false;  // false: the host has counted since
  };

  bool is_on_ = false;
  torch::Device device_ = torch::kCPU;
  torch::Tensor found_inf_;  // may be undefined
  std::vector<HeldRate> rates_;
  std::map<void*, HeldCount> counts_;
  std::int64_t host_steps_ = 0;
};

/// LibTorch's optimizers with a step that is one operation for all parameters
/// of a group: several times as fast if there are many small ones. Options,
/// groups and state are those of the base classes, so that checkpoints and
/// schedules see no difference; results are equal up to rounding. Steps with a
/// closure, and steps of parameters or gradients that are not dense float32 or
/// float64 on a CPU or GPU, fall back to the base class.
///
/// A step can be captured in a CUDA graph once capturable_state() is enabled.
class DTRAIN_API FusedOptimizer {
 public:
  virtual ~FusedOptimizer() = default;

  CapturableState& capturable_state() { return capturable_state_; }
  /// Copies the learning rates in the options to the device for the next steps.
  /// Does not wait.
  virtual void UploadLearningRates() = 0;
  /// Copies the step counts from the device to the optimizer's state.
  virtual void DownloadStepCounts() = 0;

 protected:
  CapturableState capturable_state_;
};

class DTRAIN_API FusedSgd final : public torch::optim::SGD,
                                  public FusedOptimizer {
 public:
  using SGD::SGD;
  torch::Tensor step(LossClosure closure = nullptr) override;
  void UploadLearningRates() override {
    capturable_state_.UploadLearningRates(param_groups_);
  }
  void DownloadStepCounts() override {}  // SGD has none
};

class DTRAIN_API FusedAdam final : public torch::optim::Adam,
                                   public FusedOptimizer {
 public:
  using Adam::Adam;
  torch::Tensor step(LossClosure closure = nullptr) override;
  void UploadLearningRates() override {
    capturable_state_.UploadLearningRates(param_groups_);
  }
  void DownloadStepCounts() override;
};

class DTRAIN_API FusedAdamW final : public torch::optim::AdamW,
                                    public FusedOptimizer {
 public:
  using AdamW::AdamW;
  torch::Tensor step(LossClosure closure = nullptr) override;
  void UploadLearningRates() override {
    capturable_state_.UploadLearningRates(param_groups_);
  }
  void DownloadStepCounts() override;
};

// Former names, for stored models.
using FlatOptimizer = FusedOptimizer;
using FlatSgd = FusedSgd;
using FlatAdam = FusedAdam;
using FlatAdamW = FusedAdamW;

}  // namespace dtrain
