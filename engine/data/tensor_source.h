#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <utility>

#include <torch/types.h>

#include "engine/base/api.h"
#include "engine/data/batch_sampler.h"
#include "engine/data/data_source.h"

namespace dtrain {

/// The order of a pass on a device, copied there once per pass, always to the
/// same address. A batch's rows are a slice of it, for which neither host nor
/// device waits.
class DTRAIN_API DeviceOrder {
 public:
  explicit DeviceOrder(torch::Device device) : device_(device) {}

  /// Rows of the batch `indices`, int64 [samples]. `order` returns the order of
  /// its pass.
  torch::Tensor Rows(
      const BatchSampler::Indices& indices,
      const std::function<std::span<const std::int64_t>()>& order);
  /// Rows of the `samples` from `position` on, which is int64 [1] on the
  /// device. REQUIRES: Rows was called for a batch of the pass.
  torch::Tensor RowsAt(const torch::Tensor& position,
                       std::int64_t samples) const;
  /// The whole order, int64 [samples]. REQUIRES: likewise.
  const torch::Tensor& order() const { return order_; }

 private:
  const torch::Device device_;
  torch::Tensor order_;
  std::int64_t pass_ = -1;  // of `order_`
};

/// A DataSource of tensors in memory: batches are rows, gathered on the device
/// of the tensors. For sets that fit there and need no decoding.
class DTRAIN_API TensorSource final : public DataSource, public DeviceBatches {
 public:
  /// The first dimension of every tensor of `set` is the sample. Moves the set
  /// to `device`. `samples.samples` is taken from the set. Throws
  /// Error(kFailed) for tensors with different numbers of samples.
  TensorSource(const Batch& set, SamplerOptions samples, torch::Device device);

  std::int64_t BatchesPerEpoch() const override;
  std::int64_t SamplesPerEpoch() const override;
  void Seek(std::int64_t index) override { sampler_.Seek(index); }
  Batch Read() override;

  DeviceBatches* on_device() override { return this; }
  std::int64_t FullBatchesLeft() const override {
    return sampler_.FullBatchesLeft();
  }
  std::int64_t Skip(std::int64_t batches) override;
  Batch Gather(const torch::Tensor& position) override;

 private:
  torch::Tensor GatherRows(const BatchSampler::Indices& indices);
  Batch Select(const torch::Tensor& rows) const;

  Batch set_;
  BatchSampler sampler_;
  DeviceOrder order_;
};

/// A DataSource that returns the same batch every time: synthetic data for
/// measuring a model, or for testing whether it can memorise a batch. An epoch
/// is one batch.
class DTRAIN_API FixedSource final : public DataSource {
 public:
  explicit FixedSource(Batch batch) : batch_(std::move(batch)) {}

  std::int64_t BatchesPerEpoch() const override { return 1; }
  std::int64_t SamplesPerEpoch() const override { return batch_.size(); }
  void Seek(std::int64_t) override {}
  Batch Read() override { return batch_; }

 private:
  Batch batch_;
};

}  // namespace dtrain
