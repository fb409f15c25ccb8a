#include "engine/data/batch_sampler.h"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <numeric>
#include <string>
#include <utility>

#include "engine/base/error.h"
#include "engine/data/seeds.h"
#include "engine/data/shuffled_range.h"

namespace dtrain {
namespace {

std::int64_t CeilDivide(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

}  // namespace

BatchSampler::BatchSampler(const SamplerOptions& options)
    : options_(options), rng_(options.seed) {
  assert(options.ranks >= 1 && options.rank >= 0 &&
         options.rank < options.ranks);
  if (options.samples < 1) {
    throw Error(ErrorKind::kFailed,
                "the data set has no samples; give it at least one");
  }
  if (options.batch_size < 1) {
    throw Error(ErrorKind::kFailed,
                "batch size " + std::to_string(options.batch_size) +
                    " makes no batches; set global_batch_size to 1 or more");
  }
  const std::int64_t full = options.samples / options.batch_size;
  batches_ = options.drop_last && full > 0
                 ? full
                 : CeilDivide(options.samples, options.batch_size);
  order_.resize(static_cast<std::size_t>(options.samples));
  std::iota(order_.begin(), order_.end(), 0);
}

BatchSampler::Indices BatchSampler::Next() {
  const std::int64_t per_pass = BatchesPerEpoch();
  assert(per_pass > 0);
  // Where this rank's batch is in the sequence of all ranks' batches.
  const std::int64_t dealt =
      options_.wrap ? next_ * options_.ranks + options_.rank
                    : next_ / per_pass * batches_ +
                          next_ % per_pass * options_.ranks + options_.rank;
  EnterPass(dealt / batches_);
  const std::int64_t first = dealt % batches_ * options_.batch_size;
  const std::int64_t count =
      std::min(options_.batch_size, options_.samples - first);
  return {
      .batch = next_++,
      .pass = pass_,
      .first = first,
      .samples = std::span(order_).subspan(static_cast<std::size_t>(first),
                                           static_cast<std::size_t>(count))};
}

std::int64_t BatchSampler::BatchesPerEpoch() const {
  if (options_.wrap) return CeilDivide(batches_, options_.ranks);
  return CeilDivide(batches_ - options_.rank, options_.ranks);
}

std::int64_t BatchSampler::SamplesPerEpoch() const {
  return std::min(options_.samples, batches_ * options_.batch_size);
}

// One generator goes on over the passes, so a pass that is skipped must draw
// its numbers all the same, and going back starts from the seed.
void BatchSampler::EnterPass(std::int64_t pass) {
  if (pass == pass_) return;
  if (options_.shuffle && options_.shuffle_buffer > 0) {
    // A generator for each pass: none has to be replayed.
    Rng rng(static_cast<std::uint32_t>(PassSeed(options_.seed, pass)));
    BufferShuffledRange(order_, options_.shuffle_buffer, rng);
  } else if (options_.shuffle) {
    if (pass < pass_) {
      rng_ = Rng(options_.seed);
      pass_ = -1;
    }
    for (; pass_ + 1 < pass; ++pass_) {
      for (std::uint64_t n = order_.size(); n > 1; --n) rng_.Below(n);
    }
    ShuffledRange(order_, rng_);
  }
  pass_ = pass;
}

}  // namespace dtrain
