// A resize is two passes: across (each row gets its new width), then down (each
// column its new height). In a pass every result is a weighted sum of its
// neighbours in the source; the weights form a triangle whose width grows with
// the scale, so that reducing an image averages all its pixels.
//
// The result has the same bits as Pillow's (src/libImaging/Resample.c): the
// weights are computed in double precision in Pillow's order of operations and
// rounded to multiples of 2^-22, and the sums are integers, rounded once at the
// end of each pass. Integer sums do not depend on their order, so the SSE2
// loops give the same bits as the plain ones. SSE2 multiplies 16-bit numbers
// and adds them in pairs (pmaddwd), so each weight is split into two halves of
// 11 bits, high · 2^11 + low, and the weights of neighbouring pixels are stored
// in pairs.

#include "engine/image/resize.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include <emmintrin.h>

namespace dtrain {
namespace {

// The weights of two neighbouring pixels in units of 2^-22.
struct WeightPair {
  static constexpr int kBits = 32 - 8 - 2;
  static constexpr int kLowBits = kBits / 2;

  std::int16_t high[2] = {0, 0};
  std::int16_t low[2] = {0, 0};

  std::int32_t weight(std::size_t i) const {
    return (high[i] << kLowBits) + low[i];
  }
};

// For each pixel of a result along one axis: its source pixels and their
// weights.
class ResampleTaps {
 public:
  // For the pixels [begin, begin + count) of `source` pixels resized to
  // `result`. REQUIRES: source ≥ 1; 0 ≤ begin ≤ begin + count ≤ result.
  ResampleTaps(std::int64_t source, std::int64_t result, std::int64_t begin,
               std::int64_t count);

  std::size_t size() const { return spans_.size(); }
  // The first source pixel of the i-th result, their number, and their weights;
  // for an odd number, the second weight of the last pair is 0.
  std::int64_t first(std::size_t i) const { return spans_[i].first; }
  std::int64_t count(std::size_t i) const { return spans_[i].count; }
  const WeightPair* weights(std::size_t i) const {
    return pairs_.data() + spans_[i].pair;
  }
  // The source pixels [first, end) of all results.
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

// Pillow's precompute_coeffs and normalize_coeffs_8bpc, in their order of
// operations.
ResampleTaps::ResampleTaps(std::int64_t source, std::int64_t result,
                           std::int64_t begin, std::int64_t count) {
  const double scale =
      static_cast<double>(source) / static_cast<double>(result);
  const double support = std::max(scale, 1.0);
  const double per_support = 1.0 / support;
  std::vector<double> raw;
  for (std::int64_t i = begin; i < begin + count; ++i) {
    // The centre of the result's pixel in the source. Weights fall linearly to
    // 0 at a distance of `support`, which is a pixel for an enlargement.
    const double center = (static_cast<double>(i) + 0.5) * scale;
    const auto first = std::max<std::int64_t>(
        0, static_cast<std::int64_t>(center - support + 0.5));
    const auto end =
        std::min(source, static_cast<std::int64_t>(center + support + 0.5));
    raw.clear();
    for (std::int64_t j = first; j < end; ++j) {
      const double distance =
          (static_cast<double>(j) - center + 0.5) * per_support;
      raw.push_back(std::max(0.0, 1.0 - std::abs(distance)));
    }
    spans_.push_back({first, end - first, pairs_.size()});
    AddWeights(raw);
  }
}

void ResampleTaps::AddWeights(const std::vector<double>& raw) {
  double sum = 0;
  for (const double weight : raw) sum += weight;
  for (std::size_t i = 0; i < raw.size(); ++i) {
    const double share = sum != 0 ? raw[i] / sum : raw[i];
    const auto weight =
        static_cast<std::int32_t>(0.5 + share * (1 << WeightPair::kBits));
    if (i % 2 == 0) pairs_.emplace_back();
    pairs_.back().high[i % 2] =
        static_cast<std::int16_t>(weight >> WeightPair::kLowBits);
    pairs_.back().low[i % 2] =
        static_cast<std::int16_t>(weight & ((1 << WeightPair::kLowBits) - 1));
  }
}

// Pixels to read, with `stride` bytes from row to row; `pixels` points to the
// row with the number `first`.
struct PixelRows {
  const std::uint8_t* pixels = nullptr;
  std::size_t stride = 0;
  std::int64_t first = 0;
};

constexpr std::int32_t kHalf = 1 << (WeightPair::kBits - 1);

// Returns the weighted sum of `count` bytes that are `step` bytes apart.
// Rounded weights can add up to slightly more than 1.
std::uint8_t WeightedSum(const std::uint8_t* from, std::size_t step,
                         const WeightPair* weights, std::int64_t count) {
  std::int32_t sum = kHalf;
  for (std::int64_t k = 0; k < count; ++k, from += step) {
    sum += *from * weights[k / 2].weight(static_cast<std::size_t>(k % 2));
  }
  return static_cast<std::uint8_t>(std::min(sum >> WeightPair::kBits, 255));
}

// Computes the bytes [begin, bytes) of one row.
void DownBytes(const std::uint8_t* from, std::size_t stride,
               const WeightPair* weights, std::int64_t count, std::size_t begin,
               std::size_t bytes, std::uint8_t* to) {
  for (std::size_t x = begin; x < bytes; ++x) {
    to[x] = WeightedSum(from + x, stride, weights, count);
  }
}

void AcrossRow(const std::uint8_t* from, const ResampleTaps& taps,
               std::uint8_t* to) {
  for (std::size_t i = 0; i < taps.size(); ++i) {
    for (std::size_t c = 0; c < 3; ++c, ++to) {
      *to = WeightedSum(from + 3 * taps.first(i) + c, 3, taps.weights(i),
                        taps.count(i));
    }
  }
}

#if defined(__SSE2__)

// Four sums of products, the weights' halves apart.
struct FourSums {
  // Adds pairs of 16-bit pixels times a pair of weights, which each of four
  // 32-bit lanes holds.
  void Add(__m128i pixels, __m128i weights_high, __m128i weights_low) {
    high = _mm_add_epi32(high, _mm_madd_epi16(pixels, weights_high));
    low = _mm_add_epi32(low, _mm_madd_epi16(pixels, weights_low));
  }
  __m128i Rounded() const {
    const __m128i sum =
        _mm_add_epi32(_mm_slli_epi32(high, WeightPair::kLowBits), low);
    return _mm_srai_epi32(_mm_add_epi32(sum, _mm_set1_epi32(kHalf)),
                          WeightPair::kBits);
  }

  __m128i high = _mm_setzero_si128();
  __m128i low = _mm_setzero_si128();
};

__m128i FourTimes(const std::int16_t (&pair)[2]) {
  std::int32_t both;
  std::memcpy(&both, pair, sizeof(both));
  return _mm_set1_epi32(both);
}

__m128i LoadFour(const std::uint8_t* from) {
  std::int32_t bytes;
  std::memcpy(&bytes, from, sizeof(bytes));
  return _mm_cvtsi32_si128(bytes);
}

// AcrossRow with SSE2; reads one byte beyond the last pixel.
void AcrossRowFast(const std::uint8_t* from, const ResampleTaps& taps,
                   std::uint8_t* to) {
  const __m128i zero = _mm_setzero_si128();
  const std::size_t size = taps.size();
  for (std::size_t i = 0; i < size; ++i, to += 3) {
    const std::uint8_t* pixel = from + 3 * taps.first(i);
    const WeightPair* weights = taps.weights(i);
    FourSums sums;
    for (std::int64_t left = taps.count(i); left > 0; left -= 2) {
      // Three channels of two pixels, and of the next one that is not used.
      const __m128i bytes = _mm_unpacklo_epi8(
          LoadFour(pixel), LoadFour(left > 1 ? pixel + 3 : pixel));
      sums.Add(_mm_unpacklo_epi8(bytes, zero), FourTimes(weights->high),
               FourTimes(weights->low));
      pixel += 6;
      ++weights;
    }
    const __m128i words = _mm_packs_epi32(sums.Rounded(), zero);
    // Packs the lanes to bytes with saturation, which is the clamp of
    // WeightedSum.
    const std::int32_t result =
        _mm_cvtsi128_si32(_mm_packus_epi16(words, zero));
    std::memcpy(to, &result, 3);
  }
}

// Computes sixteen bytes of one row.
void DownSixteen(const std::uint8_t* from, std::size_t stride,
                 const WeightPair* weights, std::int64_t count,
                 std::uint8_t* to) {
  const __m128i zero = _mm_setzero_si128();
  const auto load = [](const std::uint8_t* bytes) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes));
  };
  FourSums sums[4];
  for (; count > 0; count -= 2, from += 2 * stride, ++weights) {
    const __m128i upper = load(from);
    const __m128i lower = count > 1 ? load(from + stride) : upper;
    const __m128i high = FourTimes(weights->high);
    const __m128i low = FourTimes(weights->low);
    const __m128i left = _mm_unpacklo_epi8(upper, lower);
    const __m128i right = _mm_unpackhi_epi8(upper, lower);
    sums[0].Add(_mm_unpacklo_epi8(left, zero), high, low);
    sums[1].Add(_mm_unpackhi_epi8(left, zero), high, low);
    sums[2].Add(_mm_unpacklo_epi8(right, zero), high, low);
    sums[3].Add(_mm_unpackhi_epi8(right, zero), high, low);
  }
  const __m128i result =
      _mm_packus_epi16(_mm_packs_epi32(sums[0].Rounded(), sums[1].Rounded()),
                       _mm_packs_epi32(sums[2].Rounded(), sums[3].Rounded()));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), result);
}

#endif

// Resamples each of `rows` rows of RGB pixels across, into rows of taps.size()
// pixels, one after the other.
void ResampleAcross(const PixelRows& from, std::int64_t rows,
                    const ResampleTaps& taps, std::uint8_t* to) {
  const std::uint8_t* row = from.pixels;
  for (std::int64_t y = 0; y < rows; ++y) {
#if defined(__SSE2__)
    // Not for the last row, behind which there may be no byte to read.
    if (y + 1 < rows) {
      AcrossRowFast(row, taps, to);
    } else {
      AcrossRow(row, taps, to);
    }
#else
    AcrossRow(row, taps, to);
#endif
    row += from.stride;
    to += 3 * taps.size();
  }
}

// Resamples rows of `bytes` bytes down, into taps.size() rows, one after the
// other.
void ResampleDown(const PixelRows& from, std::size_t bytes,
                  const ResampleTaps& taps, std::uint8_t* to) {
  for (std::size_t i = 0; i < taps.size(); ++i, to += bytes) {
    const std::uint8_t* row =
        from.pixels +
        static_cast<std::size_t>(taps.first(i) - from.first) * from.stride;
    std::size_t x = 0;
#if defined(__SSE2__)
    for (; x + 16 <= bytes; x += 16) {
      DownSixteen(row + x, from.stride, taps.weights(i), taps.count(i), to + x);
    }
#endif
    DownBytes(row, from.stride, taps.weights(i), taps.count(i), x, bytes, to);
  }
}

[[maybe_unused]] bool Contains(std::int64_t height, std::int64_t width,
                               const Box& box) {
  return box.top >= 0 && box.left >= 0 && box.height >= 1 && box.width >= 1 &&
         box.top <= height - box.height && box.left <= width - box.width;
}

}  // namespace

Image ResizeBilinear(const ImageView& from, const Box& crop,
                     std::int64_t height, std::int64_t width) {
  return ResizeBilinear(from, crop, height, width,
                        {.height = height, .width = width});
}

Image ResizeBilinear(const ImageView& from, const Box& crop,
                     std::int64_t height, std::int64_t width,
                     const Box& window) {
  assert(Contains(from.height, from.width, crop));
  assert(Contains(height, width, window));
  const ResampleTaps across(crop.width, width, window.left, window.width);
  const ResampleTaps down(crop.height, height, window.top, window.height);
  Image result = BlackImage(window.height, window.width);
  std::vector<std::uint8_t> rows;
  PixelRows narrowed{from.row(crop.top) + 3 * (crop.left + window.left),
                     from.stride()};
  // A width that stays the same needs no pass across.
  if (crop.width != width) {
    // The rows [down.first(), down.end()) of the crop.
    const std::int64_t count = down.end() - down.first();
    rows.resize(static_cast<std::size_t>(count) * across.size() * 3);
    const std::uint8_t* pixels =
        from.row(crop.top + down.first()) + 3 * crop.left;
    ResampleAcross({pixels, from.stride()}, count, across, rows.data());
    narrowed = {rows.data(), result.stride(), down.first()};
  }
  ResampleDown(narrowed, result.stride(), down, result.pixels.data());
  return result;
}

}  // namespace dtrain
