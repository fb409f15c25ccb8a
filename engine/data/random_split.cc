#include "engine/data/random_split.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "engine/base/error.h"
#include "engine/data/shuffled_range.h"

namespace dtrain {
namespace {

constexpr double kSumTolerance = 1e-6;

[[noreturn]] void Fail(const std::string& what) {
  throw Error(ErrorKind::kFailed, "random split: " + what);
}

void CheckFractions(std::span<const double> fractions) {
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
}

std::vector<std::int64_t> Sizes(std::int64_t samples,
                                std::span<const double> fractions) {
  std::vector<std::int64_t> sizes;
  std::int64_t left = samples;
  for (const double fraction : fractions) {
    // 0.29 · 100 is 28.999…: not a sample less for that.
    const double exact = fraction * static_cast<double>(samples);
    sizes.push_back(
        std::min(left, static_cast<std::int64_t>(std::floor(exact + 1e-6))));
    left -= sizes.back();
  }
  for (std::size_t i = 0; left > 0; i = (i + 1) % sizes.size(), --left) {
    ++sizes[i];
  }
  return sizes;
}

}  // namespace

std::vector<std::vector<std::int64_t>> RandomSplit(
    std::int64_t samples, std::span<const double> fractions,
    std::uint32_t seed) {
  CheckFractions(fractions);
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
