#pragma once

#include <cstdint>

#include <torch/types.h>

#include "engine/train/trial.h"

namespace dtrain {

/// The mean of a batch's metric over each epoch, for trials that report both.
/// It stays on the device. Part of a trial's state: Save() and Load() it.
class EpochMean {
 public:
  /// REQUIRES: batches_per_epoch ≥ 1.
  explicit EpochMean(std::int64_t batches_per_epoch)
      : batches_per_epoch_(batches_per_epoch) {}

  /// Takes in `value` of batch `index`. Gives the epoch's mean at its last
  /// batch, an undefined tensor (which no metric is made of) before it.
  torch::Tensor Add(const torch::Tensor& value, BatchIndex index);

  /// Whether Add gives a mean at this batch, and so does more than at others.
  bool IsLast(BatchIndex index) const {
    return (index.batch + 1) % batches_per_epoch_ == 0;
  }

  /// The sum so far, undefined at the beginning.
  const torch::Tensor& Save() const { return sum_; }
  void Load(const torch::Tensor& sum, torch::Device device);

 private:
  std::int64_t batches_per_epoch_;
  torch::Tensor sum_;  // double, always the same memory
};

}  // namespace dtrain
