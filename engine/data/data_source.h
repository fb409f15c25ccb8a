#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <torch/types.h>

#include "engine/base/api.h"

namespace dtrain {

/// One batch of samples as named tensors, usually `data` and `target`. The
/// first dimension of each is the sample.
struct DTRAIN_API Batch {
  torch::Tensor data;
  torch::Tensor target;
  std::map<std::string, torch::Tensor> extra;
  /// float [channels, 2], factor and summand: `data` is uint8 and still to be
  /// normalised. Undefined in the batches that a trial receives.
  torch::Tensor scales;

  /// Number of samples.
  std::int64_t size() const { return data.defined() ? data.size(0) : 0; }
  /// Tensor called `name`: "data", "target" or one of `extra`. Throws
  /// Error(kFailed) that lists the names.
  const torch::Tensor& operator[](const std::string& name) const;
  /// Returns the batch on `device`.
  Batch To(torch::Device device) const;
  /// Returns a deep copy.
  Batch Copy() const;
  /// Returns the batch in pinned memory, from which a GPU can copy
  /// asynchronously. REQUIRES: a GPU is open.
  Batch Pinned() const;
  /// Returns the batch with `data` normalised, float and contiguous, and
  /// without `scales`; the batch itself if it has none.
  Batch Normalized() const;
  /// Tensors: data, target, and the extra ones by name. May contain undefined
  /// ones.
  std::vector<torch::Tensor> tensors() const;
};

/// Gathers the batches of a DataSource whose set is on the device, at a
/// position that is on the device, too: a CUDA graph of several steps contains
/// the gathering, and needs nothing of the host. A position is the number of a
/// sample in the order of its pass.
class DTRAIN_API DeviceBatches {
 public:
  virtual ~DeviceBatches() = default;

  /// Number of batches from the next one on that are full and of the same pass;
  /// 0: none can be gathered here.
  virtual std::int64_t FullBatchesLeft() const = 0;
  /// Makes the source pass over the next `batches`, and prepares the device for
  /// gathering them. Returns the position of the first. REQUIRES: 0 < `batches`
  /// <= FullBatchesLeft().
  virtual std::int64_t Skip(std::int64_t batches) = 0;
  /// Returns the full batch that starts at `position`, int64 [1] on the device.
  /// Issues device work only, on addresses that stay valid for all passes.
  /// REQUIRES: Skip was called.
  virtual Batch Gather(const torch::Tensor& position) = 0;
};

/// An infinite, seekable stream of batches for one rank. Batch i depends only
/// on the seed, the rank and i, so that a resumed trial sees the batches it
/// would have seen. Within an epoch no two ranks see the same sample, except
/// for the wrap-around that gives every rank the same number of batches. Called
/// from one thread; implementations may have threads of their own.
class DTRAIN_API DataSource {
 public:
  virtual ~DataSource() = default;

  /// Batches of this rank in one epoch; at least 1.
  virtual std::int64_t BatchesPerEpoch() const = 0;
  /// Samples in one epoch, over all ranks.
  virtual std::int64_t SamplesPerEpoch() const = 0;
  /// Makes batch `index` (from 0, over all epochs) the next one to read.
  virtual void Seek(std::int64_t index) = 0;
  /// Returns the next batch, on the CPU or on the trial's device. Throws Error
  /// for unreadable data.
  virtual Batch Read() = 0;
  /// Source of these batches that gathers on the device; null if it cannot.
  virtual DeviceBatches* on_device() { return nullptr; }
};

}  // namespace dtrain
