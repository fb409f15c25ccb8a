#pragma once

#include <cstdint>

#include "engine/base/api.h"
#include "engine/data/batch.h"

namespace dtrain {

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
