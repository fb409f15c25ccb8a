#pragma once

// The gradient by the weight: for each place of the kernel the sum over all
// pixels of the gradient times the input under that place.

#include "engine/kernels/conv_call.h"
#include "engine/kernels/conv_vector.h"

namespace dtrain {
namespace {

// Pixels of one channel's gradient and of the input under a row of the kernel.
struct SumSource {
  const float* grad;
  ptrdiff_t grad_row_step;      // in floats
  ptrdiff_t grad_channel_step;  // in floats
  const float* input;
  ptrdiff_t input_row_step;  // in floats
  ptrdiff_t rows;
  ptrdiff_t columns;
};

// Adds to kChannels x kPlaces sums; `step` floats lie between two channels'.
// Each call starts from zero, which keeps what rounding loses small.
template <int kChannels, int kPlaces>
void AddProducts(const SumSource& source, float* sums, ptrdiff_t step) {
  Floats sum[kChannels][kPlaces] = {};
  for (ptrdiff_t y = 0; y < source.rows; ++y) {
    const float* grad = source.grad + y * source.grad_row_step;
    const float* input = source.input + y * source.input_row_step;
    for (ptrdiff_t x = 0; x < source.columns; ++x) {
      Floats gradient[kChannels];
#pragma GCC unroll 4
      for (int c = 0; c < kChannels; ++c) {
        gradient[c] = LoadBlock(grad + c * source.grad_channel_step);
      }
#pragma GCC unroll 6
      for (int p = 0; p < kPlaces; ++p) {
        const Floats pixel = LoadBlock(input + p * kLanes);
#pragma GCC unroll 4
        for (int c = 0; c < kChannels; ++c) sum[c][p] += gradient[c] * pixel;
      }
      grad += kLanes;
      input += kLanes;
    }
  }
#pragma GCC unroll 4
  for (int c = 0; c < kChannels; ++c) {
#pragma GCC unroll 6
    for (int p = 0; p < kPlaces; ++p) {
      float* to = sums + c * step + p * kLanes;
      StoreBlock(LoadBlock(to) + sum[c][p], to);
    }
  }
}

// How many places of a kernel's row are summed at once: as many as leave room
// in the registers for some channels, and no short rest.
constexpr ptrdiff_t kMostPlaces = 6;
constexpr ptrdiff_t kMostChannels = 4;

DTRAIN_INLINE ptrdiff_t Places(ptrdiff_t left) {
  const ptrdiff_t parts = (left + kMostPlaces - 1) / kMostPlaces;
  return (left + parts - 1) / parts;
}

// How many channels go with so many places.
constexpr ptrdiff_t kChannelsWith[kMostPlaces + 1] = {0, 4, 4, 3, 3, 2, 2};

using AddProductsFunction = void (*)(const SumSource&, float*, ptrdiff_t);
constexpr AddProductsFunction kAddProducts[kMostPlaces][kMostChannels] = {
    {AddProducts<1, 1>, AddProducts<2, 1>, AddProducts<3, 1>,
     AddProducts<4, 1>},
    {AddProducts<1, 2>, AddProducts<2, 2>, AddProducts<3, 2>,
     AddProducts<4, 2>},
    {AddProducts<1, 3>, AddProducts<2, 3>, AddProducts<3, 3>, nullptr},
    {AddProducts<1, 4>, AddProducts<2, 4>, AddProducts<3, 4>, nullptr},
    {AddProducts<1, 5>, AddProducts<2, 5>, nullptr, nullptr},
    {AddProducts<1, 6>, AddProducts<2, 6>, nullptr, nullptr},
};

// The sums of `channels` channels from `channel` on, over `rows` rows from y
// on.
void AddWeightGradient(const ConvBackwardCall& call, SumSource source,
                       ptrdiff_t channel, ptrdiff_t channels, ptrdiff_t y) {
  const ConvSizes& sizes = call.sizes;
  const ptrdiff_t kernel = sizes.kernel;
  const ptrdiff_t step = sizes.in_channels * kernel * kernel * kLanes;
  float* sums = call.weight_sums + channel * step;
  for (ptrdiff_t c = 0; c < sizes.in_channels; ++c) {
    for (ptrdiff_t i = 0; i < kernel; ++i) {
      const float* row = call.input_block + (c * sizes.padded_height + y + i) *
                                                source.input_row_step;
      for (ptrdiff_t j = 0; j < kernel;) {
        const ptrdiff_t places = Places(kernel - j);
        source.input = row + j * kLanes;
        kAddProducts[places - 1][channels - 1](source, sums, step);
        sums += places * kLanes;
        j += places;
      }
    }
  }
}

// Adds each vector's lanes to one float, vector after vector.
void AddLanes(const float* sums, ptrdiff_t count, float* to) {
  ptrdiff_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    Floats row[kLanes];
#pragma GCC unroll 16
    for (ptrdiff_t n = 0; n < kLanes; ++n) {
      row[n] = LoadBlock(sums + (i + n) * kLanes);
    }
    Transpose(row);
#pragma GCC unroll 4
    for (ptrdiff_t half = kLanes / 2; half > 0; half /= 2) {
#pragma GCC unroll 8
      for (ptrdiff_t n = 0; n < half; ++n) row[n] += row[n + half];
    }
    Store(Load(to + i) + row[0], to + i);
  }
  for (; i < count; ++i) {
    float lane[kLanes];
    memcpy(lane, sums + i * kLanes, sizeof(lane));
    for (ptrdiff_t half = kLanes / 2; half > 0; half /= 2) {
      for (ptrdiff_t n = 0; n < half; ++n) lane[n] += lane[n + half];
    }
    to[i] += lane[0];
  }
}

}  // namespace
}  // namespace dtrain
