#include "engine/image/resample_rows.h"

#include <algorithm>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace dtrain {
namespace {

constexpr std::int32_t kHalf = 1 << (WeightPair::kBits - 1);

// The weighted sum of `count` bytes, `step` bytes from one to the next. Weights
// that were rounded up can exceed 1 by a little.
std::uint8_t WeightedSum(const std::uint8_t* from, std::size_t step,
                         const WeightPair* weights, std::int64_t count) {
  std::int32_t sum = kHalf;
  for (std::int64_t k = 0; k < count; ++k, from += step) {
    sum += *from * weights[k / 2].weight(static_cast<std::size_t>(k % 2));
  }
  return static_cast<std::uint8_t>(std::min(sum >> WeightPair::kBits, 255));
}

// The bytes [begin, bytes) of one row.
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

// The same as AcrossRow, but reads one byte behind the last pixel.
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
    const std::int32_t result =
        _mm_cvtsi128_si32(_mm_packus_epi16(words, zero));
    std::memcpy(to, &result, 3);
  }
}

// Sixteen bytes of one row.
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

}  // namespace

void ResampleAcross(const PixelRows& from, std::int64_t rows,
                    const ResampleTaps& taps, std::uint8_t* to) {
  const std::uint8_t* row = from.pixels;
  for (std::int64_t y = 0; y < rows; ++y) {
#if defined(__SSE2__)
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

}  // namespace dtrain
