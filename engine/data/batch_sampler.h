#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/base/api.h"
#include "engine/base/rng.h"

namespace dtrain {

/// Division of a data set into the batches of one rank.
struct SamplerOptions {
  std::int64_t samples = 0;     // in the set
  std::int64_t batch_size = 0;  // of one rank
  bool shuffle = false;         // a new order in each pass
  std::uint32_t seed = 0;       // the same on every rank
  // Size of the shuffle buffer: each sample is drawn at random from the buffer
  // and replaced there by the next sample of the set. 0: shuffles the whole
  // set.
  std::int64_t shuffle_buffer = 0;
  // Omits the last batch of a pass if it is not full, unless it is the only
  // one.
  bool drop_last = false;
  // True, for training: passes follow each other without a gap and are dealt
  // out to the ranks batch by batch, so that all ranks take the same number of
  // steps. False, for validation: every pass is dealt out by itself, so that no
  // batch is used twice and the ranks may differ by one batch.
  bool wrap = true;
  int rank = 0;
  int ranks = 1;
};

/// Divides the samples of a set into batches: an infinite sequence with random
/// access. A pass is one iteration over the set. Not thread-safe.
class DTRAIN_API BatchSampler {
 public:
  /// Samples of one batch, valid until the next call.
  struct Indices {
    std::int64_t batch = 0;  // its number in this rank's sequence
    std::int64_t pass = 0;   // over the set
    std::int64_t first = 0;  // its first position in that pass
    std::span<const std::int64_t> samples;
  };

  /// Throws Error(kFailed) for an empty set or a batch size below 1.
  explicit BatchSampler(const SamplerOptions& options);

  /// Returns the next batch. REQUIRES: BatchesPerEpoch() > 0.
  Indices Next();
  /// Passes over the next `batches` and returns the first of them. REQUIRES:
  /// 0 < `batches` <= FullBatchesLeft().
  Indices Skip(std::int64_t batches);
  /// Number of full batches from the next one to the end of its pass; 0 with
  /// several ranks.
  std::int64_t FullBatchesLeft() const;
  /// Makes batch `index` of this rank the next one.
  void Seek(std::int64_t index) { next_ = index; }

  std::int64_t batch_size() const { return options_.batch_size; }
  /// ceil(batches / ranks), at least 1. Without `wrap`, the number of batches
  /// of this rank, which may be 0.
  std::int64_t BatchesPerEpoch() const;
  /// Samples of one pass, over all ranks.
  std::int64_t SamplesPerEpoch() const;
  /// Order of the samples in the pass of the last Next().
  std::span<const std::int64_t> order() const { return order_; }

 private:
  void EnterPass(std::int64_t pass);

  SamplerOptions options_;
  std::int64_t batches_ = 0;  // per pass, over all ranks
  std::int64_t next_ = 0;
  std::int64_t pass_ = -1;  // pass of `order_`
  std::vector<std::int64_t> order_;
  Rng rng_;  // continues over all passes
};

/// Splits the sample indices 0 to `samples` − 1 at random into one subset for
/// each fraction, each in ascending order. A subset has floor(fraction ·
/// samples) samples; the first subsets get one more until none are left over.
/// Equal seeds give equal splits. Throws Error(kFailed) if there are no
/// fractions, one is not above 0, they do not sum to 1 (within 1e-6), or a
/// subset would be empty.
DTRAIN_API std::vector<std::vector<std::int64_t>> RandomSplit(
    std::int64_t samples, std::span<const double> fractions,
    std::uint32_t seed);

}  // namespace dtrain
