#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/base/api.h"
#include "engine/base/rng.h"

namespace dtrain {

/// Which samples a rank's batches hold.
struct SamplerOptions {
  std::int64_t samples = 0;     // in the set
  std::int64_t batch_size = 0;  // of one rank
  bool shuffle = false;         // a new order every pass, by `seed`
  std::uint32_t seed = 0;       // the same on every rank
  // Shuffle as a stream with a buffer of so many samples does: the next one is
  // any of the buffer, the first that is not yet in it takes its place. 0: any
  // of the set.
  std::int64_t shuffle_buffer = 0;
  // A pass leaves out a last batch that is not full, unless it is the only one.
  bool drop_last = false;
  // True, for training: passes follow each other without a seam and are dealt
  // out to the ranks batch by batch, so that all ranks take equal steps.
  // False, for validation: every pass is dealt out by itself, so that no batch
  // is seen twice and the ranks may differ by one batch.
  bool wrap = true;
  int rank = 0;
  int ranks = 1;
};

/// Deals the samples of a set out as batches: an endless sequence of which any
/// position can be sought. A pass is one walk through the set. One thread.
class DTRAIN_API BatchSampler {
 public:
  /// The samples of one batch, valid until the next call.
  struct Indices {
    std::int64_t batch = 0;  // its number in this rank's sequence
    std::int64_t pass = 0;   // over the set
    std::int64_t first = 0;  // where in the order of that pass it begins
    std::span<const std::int64_t> samples;
  };

  /// Throws Error(kFailed) for an empty set or a batch size below 1.
  explicit BatchSampler(const SamplerOptions& options);

  /// The next batch. REQUIRES: BatchesPerEpoch() > 0.
  Indices Next();
  /// Makes batch `index` of this rank the next one.
  void Seek(std::int64_t index) { next_ = index; }

  /// ceil(batches / ranks), which is at least 1; without `wrap`, as many as
  /// fall to this rank, which may be 0.
  std::int64_t BatchesPerEpoch() const;
  /// Samples of one pass, over all ranks.
  std::int64_t SamplesPerEpoch() const;
  /// The whole order of the pass that the last Next() was in.
  std::span<const std::int64_t> order() const { return order_; }

 private:
  void EnterPass(std::int64_t pass);

  SamplerOptions options_;
  std::int64_t batches_ = 0;  // of a pass, over all ranks
  std::int64_t next_ = 0;
  std::int64_t pass_ = -1;  // that `order_` is of
  std::vector<std::int64_t> order_;
  Rng rng_;  // goes on over the passes
};

/// Deals `samples` samples out at random into one subset for each fraction,
/// each in ascending order and no sample in two. A subset has
/// floor(fraction · samples) of them, and one more where that leaves some over,
/// the first subsets before the last. The same split for the same `seed`.
/// Throws Error(kFailed) if there is no fraction, if one is not above 0, if
/// they do not sum to 1 (to 1e-6), or if a subset would be empty.
DTRAIN_API std::vector<std::vector<std::int64_t>> RandomSplit(
    std::int64_t samples, std::span<const double> fractions,
    std::uint32_t seed);

}  // namespace dtrain
