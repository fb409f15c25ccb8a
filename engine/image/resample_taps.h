#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dtrain {

/// The weights of two neighbouring pixels, whole numbers of 1/2^22 as Pillow
/// has them: high · 2^11 + low, so that 16 bits hold each half. Processors
/// multiply and add such pairs in one step.
struct WeightPair {
  static constexpr int kBits = 32 - 8 - 2;
  static constexpr int kLowBits = kBits / 2;

  std::int16_t high[2] = {0, 0};
  std::int16_t low[2] = {0, 0};

  std::int32_t weight(std::size_t i) const {
    return (high[i] << kLowBits) + low[i];
  }
};

/// Along one axis: which source pixels make each pixel of a result, and with
/// which weights.
class ResampleTaps {
 public:
  /// For the pixels [begin, begin + count) of `source` pixels resized to
  /// `result`. REQUIRES: source ≥ 1; 0 ≤ begin ≤ begin + count ≤ result.
  ResampleTaps(std::int64_t source, std::int64_t result, std::int64_t begin,
               std::int64_t count);

  std::size_t size() const { return spans_.size(); }
  /// The first source pixel of the i-th result, how many there are, and their
  /// weights; of an odd number, the last pair's second is 0.
  std::int64_t first(std::size_t i) const { return spans_[i].first; }
  std::int64_t count(std::size_t i) const { return spans_[i].count; }
  const WeightPair* weights(std::size_t i) const {
    return pairs_.data() + spans_[i].pair;
  }
  /// The source pixels [first, end) that any of the results needs.
  std::int64_t first() const { return spans_.front().first; }
  std::int64_t end() const { return spans_.back().first + spans_.back().count; }

 private:
  // Appends weights that are not yet normalised.
  void AddWeights(const std::vector<double>& raw);

  struct Span {
    std::int64_t first = 0;
    std::int64_t count = 0;
    std::size_t pair = 0;
  };
  std::vector<Span> spans_;
  std::vector<WeightPair> pairs_;
};

}  // namespace dtrain
