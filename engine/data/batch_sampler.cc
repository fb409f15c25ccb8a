#include "engine/data/batch_sampler.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/rng.h"
#include "engine/data/seeds.h"

// The order of a pass must be reproducible from the seed and the number of the
// pass alone, on every rank, and equal to the order of the Python programs that
// dtrain reproduces: a shuffle draws from one generator that continues over all
// passes, as numpy does. Only the position in the sequence of batches is state.

namespace dtrain {

namespace {

// Fills `order` with 0, 1, … in random order, as
// numpy.random.RandomState.shuffle shuffles range(n).
void ShuffledRange(std::span<std::int64_t> order, Rng& rng) {
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t left = order.size(); left > 1; --left) {
    std::swap(order[left - 1], order[rng.Below(left)]);
  }
}

// Fills `order` with 0, 1, … shuffled through a buffer of `size` numbers: each
// output is drawn from the buffer and replaced there by the next input.
void BufferShuffledRange(std::span<std::int64_t> order, std::int64_t size,
                         Rng& rng) {
  const auto count = static_cast<std::int64_t>(order.size());
  std::vector<std::int64_t> buffer(
      static_cast<std::size_t>(std::min(size, count)));
  std::iota(buffer.begin(), buffer.end(), 0);
  auto next = static_cast<std::int64_t>(buffer.size());
  for (std::int64_t& number : order) {
    std::int64_t& taken = buffer[rng.Below(buffer.size())];
    number = taken;
    if (next < count) {
      taken = next++;
    } else {
      taken = buffer.back();
      buffer.pop_back();
    }
  }
}

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
  // Position of this rank's batch in the sequence of all ranks' batches.
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

BatchSampler::Indices BatchSampler::Skip(std::int64_t batches) {
  const Indices first = Next();
  next_ += batches - 1;
  return first;
}

std::int64_t BatchSampler::FullBatchesLeft() const {
  if (options_.ranks > 1) return 0;
  const std::int64_t full = options_.samples / options_.batch_size;
  return std::max<std::int64_t>(full - next_ % batches_, 0);
}

std::int64_t BatchSampler::BatchesPerEpoch() const {
  if (options_.wrap) return CeilDivide(batches_, options_.ranks);
  return CeilDivide(batches_ - options_.rank, options_.ranks);
}

std::int64_t BatchSampler::SamplesPerEpoch() const {
  return std::min(options_.samples, batches_ * options_.batch_size);
}

// One generator continues over all passes. A skipped pass must therefore draw
// its numbers, too, and going back restarts from the seed.
void BatchSampler::EnterPass(std::int64_t pass) {
  if (pass == pass_) return;
  if (options_.shuffle && options_.shuffle_buffer > 0) {
    // With a generator for each pass, none has to be replayed.
    Rng rng(static_cast<std::uint32_t>(PassSeed(options_.seed, pass)));
    BufferShuffledRange(order_, options_.shuffle_buffer, rng);
  } else if (options_.shuffle) {
    if (pass < pass_) {
      rng_ = Rng(options_.seed);
      pass_ = -1;
    }
    for (; pass_ + 1 < pass; ++pass_) {
      // The numbers of a shuffle without its swaps.
      for (std::uint64_t n = order_.size(); n > 1; --n) rng_.Below(n);
    }
    ShuffledRange(order_, rng_);
  }
  pass_ = pass;
}

namespace {

constexpr double kSumTolerance = 1e-6;

[[noreturn]] void Fail(const std::string& what) {
  throw Error(ErrorKind::kFailed, "random split: " + what);
}

std::vector<std::int64_t> Sizes(std::int64_t samples,
                                std::span<const double> fractions) {
  std::vector<std::int64_t> sizes;
  std::int64_t left = samples;
  for (const double fraction : fractions) {
    // 0.29 · 100 is 28.999…, which must not lose a sample.
    const double exact = fraction * static_cast<double>(samples);
    sizes.push_back(
        std::min(left, static_cast<std::int64_t>(std::floor(exact + 1e-6))));
    left -= sizes.back();
  }
  // Samples that rounding has left go to the first subsets, one each, as in
  // torch.utils.data.random_split.
  for (std::size_t i = 0; left > 0; i = (i + 1) % sizes.size(), --left) {
    ++sizes[i];
  }
  return sizes;
}

}  // namespace

std::vector<std::vector<std::int64_t>> RandomSplit(
    std::int64_t samples, std::span<const double> fractions,
    std::uint32_t seed) {
  double sum = 0;
  for (const double fraction : fractions) {
    if (!(fraction > 0)) {
      Fail("a fraction of " + std::to_string(fraction) +
           "; each must be above 0");
    }
    sum += fraction;
  }
  if (!(std::abs(sum - 1) <= kSumTolerance)) {
    Fail("the fractions sum to " + std::to_string(sum) +
         "; they must sum to 1");
  }
  std::vector<std::int64_t> order(static_cast<std::size_t>(samples));
  Rng rng(seed);
  ShuffledRange(order, rng);
  std::vector<std::vector<std::int64_t>> subsets;
  auto from = order.begin();
  for (const std::int64_t size : Sizes(samples, fractions)) {
    if (size == 0) {
      Fail("a subset of " + std::to_string(samples) +
           " samples would be empty; take larger fractions");
    }
    std::vector<std::int64_t>& subset = subsets.emplace_back(from, from + size);
    std::ranges::sort(subset);
    from += size;
  }
  return subsets;
}

}  // namespace dtrain
