#pragma once

// Vector operations, one lane per image of a block, and conversion of images to
// blocks and back. Included only by conv_portable.cc, conv_avx2.cc and
// conv_avx512.cc, each with its own DTRAIN_LANES and flags. All names have
// internal linkage.

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#if DTRAIN_LANES >= 8
#include <immintrin.h>
#endif

#include "engine/kernels/conv_rules.h"

namespace dtrain {
namespace {

constexpr ptrdiff_t kLanes = DTRAIN_LANES;

using Floats [[gnu::vector_size(4 * DTRAIN_LANES)]] = float;
using Integers [[gnu::vector_size(4 * DTRAIN_LANES)]] = int32_t;
using Bytes [[gnu::vector_size(DTRAIN_LANES)]] = uint8_t;

DTRAIN_INLINE Floats Load(const float* from) {
  Floats vector;
  memcpy(&vector, from, sizeof(vector));
  return vector;
}

DTRAIN_INLINE void Store(Floats vector, float* to) {
  memcpy(to, &vector, sizeof(vector));
}

// The value in all lanes. Subtracting zero compiles to a broadcast alone;
// adding zero would be computed, because it changes -0.
DTRAIN_INLINE Floats Spread(float value) { return value - Floats{}; }

// Vectors in a block are aligned.
DTRAIN_INLINE Floats LoadBlock(const float* from) {
  return *reinterpret_cast<const Floats*>(from);
}

DTRAIN_INLINE void StoreBlock(Floats vector, float* to) {
  *reinterpret_cast<Floats*>(to) = vector;
}

#if DTRAIN_LANES == 16
// Lowest byte of each lane.
DTRAIN_INLINE Bytes Narrow(Integers values) {
  return reinterpret_cast<Bytes>(
      _mm512_cvtepi32_epi8(reinterpret_cast<__m512i>(values)));
}

DTRAIN_INLINE Integers Widen(const uint8_t* from) {
  return reinterpret_cast<Integers>(_mm512_cvtepu8_epi32(
      _mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
}

DTRAIN_INLINE void Transpose(Floats (&row)[16]) {
  // Transposes within each quarter of a vector, then the quarters.
  __m512d pair[16];
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    pair[i] = _mm512_castps_pd(_mm512_unpacklo_ps(row[i], row[i + 1]));
    pair[i + 1] = _mm512_castps_pd(_mm512_unpackhi_ps(row[i], row[i + 1]));
  }
  __m512 four[16];
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
#pragma GCC unroll 2
    for (int j = 0; j < 2; ++j) {
      four[i + 2 * j] =
          _mm512_castpd_ps(_mm512_unpacklo_pd(pair[i + j], pair[i + 2 + j]));
      four[i + 2 * j + 1] =
          _mm512_castpd_ps(_mm512_unpackhi_pd(pair[i + j], pair[i + 2 + j]));
    }
  }
  constexpr int kEven = 0x88;  // quarters 0 and 2 of one, then of the other
  constexpr int kOdd = 0xDD;
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const __m512 even = _mm512_shuffle_f32x4(four[i], four[i + 4], kEven);
    const __m512 odd = _mm512_shuffle_f32x4(four[i], four[i + 4], kOdd);
    const __m512 next_even =
        _mm512_shuffle_f32x4(four[i + 8], four[i + 12], kEven);
    const __m512 next_odd =
        _mm512_shuffle_f32x4(four[i + 8], four[i + 12], kOdd);
    row[i] = _mm512_shuffle_f32x4(even, next_even, kEven);
    row[i + 4] = _mm512_shuffle_f32x4(odd, next_odd, kEven);
    row[i + 8] = _mm512_shuffle_f32x4(even, next_even, kOdd);
    row[i + 12] = _mm512_shuffle_f32x4(odd, next_odd, kOdd);
  }
}
#elif DTRAIN_LANES == 8
// Lowest byte of each lane.
DTRAIN_INLINE Bytes Narrow(Integers values) {
  using AllBytes [[gnu::vector_size(32)]] = uint8_t;
  using Fours [[gnu::vector_size(32)]] = int32_t;
  using Pairs [[gnu::vector_size(8)]] = int32_t;
  const AllBytes all = reinterpret_cast<AllBytes>(values);
  const AllBytes lows = __builtin_shufflevector(
      all, all, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12, 16, 20, 24,
      28, 16, 20, 24, 28, 16, 20, 24, 28, 16, 20, 24, 28);
  const Fours fours = reinterpret_cast<Fours>(lows);
  const Pairs pair = {fours[0], fours[4]};
  return reinterpret_cast<Bytes>(pair);
}

// Bytes to integers. GCC compiles the portable version lane by lane.
DTRAIN_INLINE Integers Widen(const uint8_t* from) {
  return reinterpret_cast<Integers>(_mm256_cvtepu8_epi32(
      _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from))));
}

DTRAIN_INLINE void Transpose(Floats (&row)[8]) {
  Floats pair[8];
#pragma GCC unroll 4
  for (int i = 0; i < 8; i += 2) {
    pair[i] =
        __builtin_shufflevector(row[i], row[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    pair[i + 1] =
        __builtin_shufflevector(row[i], row[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
  Floats four[8];
#pragma GCC unroll 4
  for (int i = 0; i < 8; i += 4) {
#pragma GCC unroll 2
    for (int j = 0; j < 2; ++j) {
      four[i + 2 * j] = __builtin_shufflevector(pair[i + j], pair[i + 2 + j], 0,
                                                1, 8, 9, 4, 5, 12, 13);
      four[i + 2 * j + 1] = __builtin_shufflevector(
          pair[i + j], pair[i + 2 + j], 2, 3, 10, 11, 6, 7, 14, 15);
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    row[i] =
        __builtin_shufflevector(four[i], four[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    row[i + 4] = __builtin_shufflevector(four[i], four[i + 4], 4, 5, 6, 7, 12,
                                         13, 14, 15);
  }
}
#else
DTRAIN_INLINE Bytes Narrow(Integers values) {
  return __builtin_convertvector(values, Bytes);
}

DTRAIN_INLINE Integers Widen(const uint8_t* from) {
  Bytes bytes;
  memcpy(&bytes, from, sizeof(bytes));
  return __builtin_convertvector(bytes, Integers);
}

DTRAIN_INLINE void Transpose(Floats (&row)[4]) {
  const Floats a = __builtin_shufflevector(row[0], row[1], 0, 4, 1, 5);
  const Floats b = __builtin_shufflevector(row[0], row[1], 2, 6, 3, 7);
  const Floats c = __builtin_shufflevector(row[2], row[3], 0, 4, 1, 5);
  const Floats d = __builtin_shufflevector(row[2], row[3], 2, 6, 3, 7);
  row[0] = __builtin_shufflevector(a, c, 0, 1, 4, 5);
  row[1] = __builtin_shufflevector(a, c, 2, 3, 6, 7);
  row[2] = __builtin_shufflevector(b, d, 0, 1, 4, 5);
  row[3] = __builtin_shufflevector(b, d, 2, 3, 6, 7);
}
#endif

// Interleaves `count` floats of each of `images` images, which are `stride`
// floats apart. Images missing from the block are zeros.
void Interleave(const float* from, ptrdiff_t stride, ptrdiff_t images,
                ptrdiff_t count, float* to) {
  if (images < kLanes || count < kLanes) {
    for (ptrdiff_t i = 0; i < count; ++i) {
      for (ptrdiff_t n = 0; n < kLanes; ++n) {
        to[i * kLanes + n] = n < images ? from[n * stride + i] : 0.0F;
      }
    }
    return;
  }
  for (ptrdiff_t i = 0; i < count; i += kLanes) {
    if (i > count - kLanes)
      i = count - kLanes;  // the last lanes, partly repeated
    Floats row[kLanes];
#pragma GCC unroll 16
    for (ptrdiff_t n = 0; n < kLanes; ++n) row[n] = Load(from + n * stride + i);
    Transpose(row);
#pragma GCC unroll 16
    for (ptrdiff_t n = 0; n < kLanes; ++n) {
      StoreBlock(row[n], to + (i + n) * kLanes);
    }
  }
}

// Inverse of Interleave.
void Separate(const float* from, ptrdiff_t count, ptrdiff_t images,
              ptrdiff_t stride, float* to) {
  if (images < kLanes || count < kLanes) {
    for (ptrdiff_t n = 0; n < images; ++n) {
      for (ptrdiff_t i = 0; i < count; ++i) {
        to[n * stride + i] = from[i * kLanes + n];
      }
    }
    return;
  }
  for (ptrdiff_t i = 0; i < count; i += kLanes) {
    if (i > count - kLanes) i = count - kLanes;
    Floats row[kLanes];
#pragma GCC unroll 16
    for (ptrdiff_t n = 0; n < kLanes; ++n) {
      row[n] = LoadBlock(from + (i + n) * kLanes);
    }
    Transpose(row);
#pragma GCC unroll 16
    for (ptrdiff_t n = 0; n < kLanes; ++n) Store(row[n], to + n * stride + i);
  }
}

}  // namespace
}  // namespace dtrain
