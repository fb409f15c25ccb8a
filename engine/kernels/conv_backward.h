#pragma once

#include "engine/kernels/conv_call.h"
#include "engine/kernels/conv_forward.h"
#include "engine/kernels/conv_rules.h"
#include "engine/kernels/conv_vector.h"

// Backward pass of a convolution, one block of images at a time. The gradient
// of the output first goes back through pooling and ReLU, into a buffer with a
// border of one zero pixel. The gradient of the input is then a convolution of
// that buffer with the kernel rotated by 180 degrees, computed by the tiles of
// conv_forward.h. The gradient of the weight is, for each position in the
// kernel, the sum over all pixels of the gradient times the input at that
// position; sums are kept in registers for several channels and positions at
// once, over as many rows as fit into the L1 cache.

namespace dtrain {
namespace {

// One channel's gradient, and the input under one row of the kernel.
struct SumSource {
  const float* grad;
  ptrdiff_t grad_row_step;      // in floats
  ptrdiff_t grad_channel_step;  // in floats
  const float* input;
  ptrdiff_t input_row_step;  // in floats
  ptrdiff_t rows;
  ptrdiff_t columns;
};

// Adds to kChannels x kPlaces sums; `step` is the distance of two channels'
// sums in floats. Each call starts from zero, which limits rounding errors.
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

// Positions of a kernel row that are summed at once: as many as leave registers
// for several channels, without a short remainder.
constexpr ptrdiff_t kMaxPlaces = 6;
constexpr ptrdiff_t kMaxChannels = 4;

DTRAIN_INLINE ptrdiff_t Positions(ptrdiff_t left) {
  const ptrdiff_t parts = (left + kMaxPlaces - 1) / kMaxPlaces;
  return (left + parts - 1) / parts;
}

// Channels that fit with a number of positions.
constexpr ptrdiff_t kChannelsWith[kMaxPlaces + 1] = {0, 4, 4, 3, 3, 2, 2};

using AddProductsFunction = void (*)(const SumSource&, float*, ptrdiff_t);
constexpr AddProductsFunction kAddProducts[kMaxPlaces][kMaxChannels] = {
    {AddProducts<1, 1>, AddProducts<2, 1>, AddProducts<3, 1>,
     AddProducts<4, 1>},
    {AddProducts<1, 2>, AddProducts<2, 2>, AddProducts<3, 2>,
     AddProducts<4, 2>},
    {AddProducts<1, 3>, AddProducts<2, 3>, AddProducts<3, 3>, nullptr},
    {AddProducts<1, 4>, AddProducts<2, 4>, AddProducts<3, 4>, nullptr},
    {AddProducts<1, 5>, AddProducts<2, 5>, nullptr, nullptr},
    {AddProducts<1, 6>, AddProducts<2, 6>, nullptr, nullptr},
};

// Sums of `channels` channels from `channel` on, over `rows` rows from y on.
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
        const ptrdiff_t places = Positions(kernel - j);
        source.input = row + j * kLanes;
        kAddProducts[places - 1][channels - 1](source, sums, step);
        sums += places * kLanes;
        j += places;
      }
    }
  }
}

// Reduces each vector to one float.
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

// The gradient of the convolution has a border of one zero pixel.
DTRAIN_INLINE ptrdiff_t GradRowStep(const ConvSizes& sizes) {
  return (sizes.columns + 2) * kLanes;
}

DTRAIN_INLINE ptrdiff_t GradChannelStep(const ConvSizes& sizes) {
  return (sizes.rows + 2) * GradRowStep(sizes);
}

// Propagates rows [y, y + rows) of one output channel's gradient back through
// pooling and ReLU, to the pixels from `to` on. Returns their sum.
template <bool kPool>
Floats OpenRows(const ConvBackwardCall& call, const uint8_t* kept,
                ptrdiff_t channel, ptrdiff_t y, ptrdiff_t rows, float* to) {
  constexpr ptrdiff_t kWindow = kPool ? 2 : 1;
  const ConvSizes& sizes = call.sizes;
  const ptrdiff_t row_step = GradRowStep(sizes);
  Floats sum = {};
  for (ptrdiff_t row = y / kWindow; row < (y + rows) / kWindow; ++row) {
    const ptrdiff_t from =
        (channel * sizes.output_height + row) * sizes.output_width * kLanes;
    for (ptrdiff_t x = 0; x < sizes.output_width * kLanes; x += kLanes) {
      Floats gradient = LoadBlock(call.grad_output_block + from + x);
      Integers which = {};
      if (kPool || sizes.relu) which = Widen(kept + from + x);
      gradient = which == kClosed ? Floats{} : gradient;
      sum += gradient;
#pragma GCC unroll 4
      for (ptrdiff_t p = 0; p < kWindow * kWindow; ++p) {
        const Integers here = which == static_cast<int>(p);
        StoreBlock(kPool ? (here ? gradient : Floats{}) : gradient,
                   to + kWindow * x + p / 2 * row_step + p % 2 * kLanes);
      }
    }
    to += kWindow * row_step;
  }
  return sum;
}

// Rows per call: enough products for each load and store of a sum, few enough
// pixels for the L1 cache.
DTRAIN_INLINE ptrdiff_t RowsAtOnce(const ConvSizes& sizes) {
  const ptrdiff_t rows = 112 / sizes.columns / 2 * 2;
  return rows < 2 ? 2 : rows;
}

// Adds some rows of some channels of the gradient to the sums. Fills all of
// grad_block if it is needed later; otherwise reuses its beginning.
void WeightRows(const ConvBackwardCall& call, const uint8_t* kept,
                ptrdiff_t channel, ptrdiff_t channels, ptrdiff_t y,
                ptrdiff_t rows) {
  const ConvSizes& sizes = call.sizes;
  const bool whole = call.grad_input != nullptr;
  const ptrdiff_t row_step = GradRowStep(sizes);
  const ptrdiff_t channel_step =
      whole ? GradChannelStep(sizes) : rows * row_step;
  float* grad =
      call.grad_block +
      (whole ? channel * channel_step + (y + 1) * row_step + kLanes : 0);
  const auto open = sizes.pool ? OpenRows<true> : OpenRows<false>;
  for (ptrdiff_t c = 0; c < channels; ++c) {
    float* sum = call.bias_sums + (channel + c) * kLanes;
    const Floats added =
        open(call, kept, channel + c, y, rows, grad + c * channel_step);
    StoreBlock(LoadBlock(sum) + added, sum);
  }
  if (call.grad_weight == nullptr) return;
  AddWeightGradient(call,
                    {.grad = grad,
                     .grad_row_step = row_step,
                     .grad_channel_step = channel_step,
                     .input = nullptr,
                     .input_row_step = sizes.padded_width * kLanes,
                     .rows = rows,
                     .columns = sizes.columns},
                    channel, channels, y);
}

void WeightBlock(const ConvBackwardCall& call, const uint8_t* kept) {
  const ConvSizes& sizes = call.sizes;
  const ptrdiff_t group = kChannelsWith[Positions(sizes.kernel)];
  const ptrdiff_t at_once = RowsAtOnce(sizes);
  for (ptrdiff_t channel = 0; channel < sizes.out_channels; channel += group) {
    const ptrdiff_t left = sizes.out_channels - channel;
    const ptrdiff_t channels = left < group ? left : group;
    for (ptrdiff_t y = 0; y < sizes.rows; y += at_once) {
      const ptrdiff_t rows =
          sizes.rows - y < at_once ? sizes.rows - y : at_once;
      WeightRows(call, kept, channel, channels, y, rows);
    }
  }
}

// For each group of input channels [out channel][row][column][channel of the
// group], with the kernel rotated by 180 degrees.
void PackTurnedWeight(const ConvSizes& sizes, const float* weight, float* to) {
  const ptrdiff_t area = sizes.kernel * sizes.kernel;
  for (ptrdiff_t first = 0; first < sizes.in_channels;) {
    const ptrdiff_t group = ChannelGroup(sizes.in_channels - first);
    for (ptrdiff_t o = 0; o < sizes.out_channels; ++o) {
      const float* from = weight + (o * sizes.in_channels + first) * area;
      for (ptrdiff_t i = area - 1; i >= 0; --i) {
        for (ptrdiff_t c = 0; c < group; ++c) *to++ = from[c * area + i];
      }
    }
    first += group;
  }
}

// Two rows of the input's gradient for kChannels channels.
template <int kChannels>
void InputRows(const ConvBackwardCall& call, const TileSource& source,
               ptrdiff_t channel, ptrdiff_t y) {
  const ConvSizes& sizes = call.sizes;
  const ptrdiff_t length = sizes.out_channels * sizes.kernel * sizes.kernel;
  // Position of the rotated kernel's first element in the bordered gradient.
  const ptrdiff_t shift = sizes.padding - sizes.kernel + 2;
  const TileRows rows = RowsOfTile(
      source, y + shift, call.packed_weight + channel * length, kChannels);
  for (ptrdiff_t x = 0; x < sizes.width; x += 2) {
    Floats sum[kChannels][4] = {};
    AddTile(source, rows, x + shift, sum);
#pragma GCC unroll 3
    for (int c = 0; c < kChannels; ++c) {
#pragma GCC unroll 4
      for (int p = 0; p < 4; ++p) {
        const ptrdiff_t row = y + p / 2;
        const ptrdiff_t column = x + p % 2;
        if (row >= sizes.height || column >= sizes.width) continue;
        const ptrdiff_t at =
            ((channel + c) * sizes.height + row) * sizes.width + column;
        StoreBlock(sum[c][p], call.grad_input_block + at * kLanes);
      }
    }
  }
}

void InputBlock(const ConvBackwardCall& call) {
  const ConvSizes& sizes = call.sizes;
  const TileSource source = {.data = call.grad_block,
                             .channels = sizes.out_channels,
                             .kernel = sizes.kernel,
                             .row_step = GradRowStep(sizes),
                             .channel_step = GradChannelStep(sizes),
                             .first_row = 1,
                             .rows_end = 1 + sizes.rows,
                             .first_column = 1,
                             .columns_end = 1 + sizes.columns};
  for (ptrdiff_t y = 0; y < sizes.height; y += 2) {
    for (ptrdiff_t channel = 0; channel < sizes.in_channels;) {
      const ptrdiff_t group = ChannelGroup(sizes.in_channels - channel);
      if (group == 3) {
        InputRows<3>(call, source, channel, y);
      } else if (group == 2) {
        InputRows<2>(call, source, channel, y);
      } else {
        InputRows<1>(call, source, channel, y);
      }
      channel += group;
    }
  }
}

void Backward(const ConvBackwardCall& call) {
  const ConvSizes& sizes = call.sizes;
  const ptrdiff_t in_floats = sizes.in_channels * sizes.height * sizes.width;
  const ptrdiff_t out_floats =
      sizes.out_channels * sizes.output_height * sizes.output_width;
  const ptrdiff_t weights =
      sizes.out_channels * sizes.in_channels * sizes.kernel * sizes.kernel;
  if (call.grad_input != nullptr) {
    PackTurnedWeight(sizes, call.weight, call.packed_weight);
  }
  for (ptrdiff_t first = call.first; first < call.last; first += kLanes) {
    const ptrdiff_t left = call.last - first;
    const ptrdiff_t images = left < kLanes ? left : kLanes;
    if (call.grad_weight != nullptr) {
      LoadInput(sizes, call.input + first * in_floats, images,
                call.input_block);
    }
    Interleave(call.grad_output + first * out_floats, out_floats, images,
               out_floats, call.grad_output_block);
    WeightBlock(call, call.kept ? call.kept + first * out_floats : nullptr);
    if (call.grad_input == nullptr) continue;
    InputBlock(call);
    Separate(call.grad_input_block, in_floats, images, in_floats,
             call.grad_input + first * in_floats);
  }
  if (call.grad_weight != nullptr) {
    AddLanes(call.weight_sums, weights, call.grad_weight);
  }
  if (call.grad_bias != nullptr) {
    AddLanes(call.bias_sums, sizes.out_channels, call.grad_bias);
  }
}

}  // namespace
}  // namespace dtrain
