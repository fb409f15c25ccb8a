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

/// What changes from one step of an optimizer to the next, kept on its
/// parameters' device instead of the host: then a step asks the device for the
/// same work each time, which a CUDA graph can replay. One thread.
class DTRAIN_API CapturableState {
 public:
  /// From here on. REQUIRES: all parameters are on `device`.
  void Enable(torch::Device device) {
    is_on_ = true;
    device_ = device;
  }
  bool is_on() const { return is_on_; }

  /// Steps leave everything as it is where the first number of `found_inf`
  /// (float [1]), which they read on the device, is not 0.
  void SetFoundInf(torch::Tensor found_inf) {
    found_inf_ = std::move(found_inf);
  }
  const torch::Tensor& found_inf() const { return found_inf_; }

  /// Writes the learning rates of these groups where they have changed.
  void UploadLearningRates(
      const std::vector<torch::optim::OptimizerParamGroup>& groups);
  /// That of group `index`: []. REQUIRES: UploadLearningRates was called.
  const torch::Tensor& Rate(std::size_t index) const {
    return rates_.at(index).tensor;
  }

  /// How many steps `parameter` has taken: float32 [] (so to 2^24), always the
  /// same memory; `host` if it was the host that counted until now.
  const torch::Tensor& Count(const torch::Tensor& parameter, std::int64_t host);
  /// The counts by parameter that are the device's; waits for it.
  std::map<void*, std::int64_t> Counts() const;

  /// A step is taken that cannot be taken so: its rates and counts are the
  /// host's, which count from there. False if it is to be left out, for which
  /// this waits for the device.
  [[nodiscard]] bool RecordHostStep();
  std::int64_t host_steps() const { return host_steps_; }

 private:
  struct HeldRate {
    torch::Tensor tensor;
    double value;  // what it holds
  };

  struct HeldCount {
    torch::Tensor tensor;
    bool is_valid = false;  // else the host has counted since
  };

  bool is_on_ = false;
  torch::Device device_ = torch::kCPU;
  torch::Tensor found_inf_;  // may be undefined
  std::vector<HeldRate> rates_;
  std::map<void*, HeldCount> counts_;
  std::int64_t host_steps_ = 0;
};

/// LibTorch's optimizers with a step that is one operation for all parameters
/// of a group, several times as fast where these are many and small. Options,
/// groups and state are theirs, so that checkpoints and schedules cannot tell
/// them apart; what they compute is theirs, too, to rounding. Steps with a
/// closure, and with parameters or gradients that are not dense float32 or
/// float64 in the CPU's or a GPU's memory, are the base class's own.
///
/// Their steps can be captured as a CUDA graph, once capturable_state() are on.
class DTRAIN_API FusedOptimizer {
 public:
  virtual ~FusedOptimizer() = default;

  CapturableState& capturable_state() { return capturable_state_; }
  /// Brings the learning rates that the options name to the device, where the
  /// next steps read them. Does not wait.
  virtual void UploadLearningRates() = 0;
  /// Brings the counts of steps from the device to the state, for who reads it.
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
  void DownloadStepCounts() override {}  // it has none
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
