#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <torch/types.h>

#include "engine/base/api.h"

namespace dtrain {

/// One batch of samples as named tensors; `data` and `target` are the usual
/// two. The first dimension of each is the sample.
struct DTRAIN_API Batch {
  torch::Tensor data;
  torch::Tensor target;
  std::map<std::string, torch::Tensor> extra;

  /// How many samples there are.
  std::int64_t size() const { return data.defined() ? data.size(0) : 0; }
  /// The tensor called `name`: "data", "target" or one of `extra`. Throws
  /// Error(kFailed) that lists the names.
  const torch::Tensor& operator[](const std::string& name) const;
  /// The same batch on `device`.
  Batch To(torch::Device device) const;
  /// The same in memory of its own.
  Batch Copy() const;
  /// The same batch in pinned memory, from which a GPU copies while the host
  /// goes on. REQUIRES: a GPU is open.
  Batch Pinned() const;
  /// Its tensors: data, target, and the extra ones by name. Undefined ones are
  /// among them.
  std::vector<torch::Tensor> tensors() const;
};

/// An endless, seekable stream of batches for one rank. Batch i depends only on
/// the seed, the rank and i, so that a trial goes on from a checkpoint with the
/// batches it would have seen. Within an epoch no two ranks see one sample, but
/// for the wrap-around that gives every rank the same number of batches. One
/// thread calls it; it may have threads of its own.
class DTRAIN_API DataSource {
 public:
  virtual ~DataSource() = default;

  /// Batches of this rank in one epoch; at least 1.
  virtual std::int64_t BatchesPerEpoch() const = 0;
  /// Samples in one epoch, over all ranks.
  virtual std::int64_t SamplesPerEpoch() const = 0;
  /// Makes batch `index` (from 0, over all epochs) the next one to be read.
  virtual void Seek(std::int64_t index) = 0;
  /// The next batch, on the CPU or on the trial's device. Throws Error for data
  /// that cannot be read.
  virtual Batch Read() = 0;
};

}  // namespace dtrain
