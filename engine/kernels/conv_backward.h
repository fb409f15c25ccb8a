#pragma once

#include "engine/kernels/conv_call.h"
#include "engine/kernels/conv_forward.h"
#include "engine/kernels/conv_tile.h"
#include "engine/kernels/conv_weight_gradient.h"

namespace dtrain {
namespace {

// The gradient of the convolution itself lies in a border of one zero pixel.
DTRAIN_INLINE ptrdiff_t GradRowStep(const ConvSizes& sizes) {
  return (sizes.columns + 2) * kLanes;
}

DTRAIN_INLINE ptrdiff_t GradChannelStep(const ConvSizes& sizes) {
  return (sizes.rows + 2) * GradRowStep(sizes);
}

// One channel's rows [y, y + rows) of the output's gradient back through
// pooling and ReLU. Returns their sum.
Floats OpenRows(const ConvBackwardCall& call, const uint8_t* kept,
                ptrdiff_t channel, ptrdiff_t y, ptrdiff_t rows) {
  const ConvSizes& sizes = call.sizes;
  const ptrdiff_t pool = sizes.pool ? 2 : 1;
  const bool masked = sizes.pool || sizes.relu;
  const ptrdiff_t row_step = GradRowStep(sizes);
  Floats sum = {};
  for (ptrdiff_t row = y / pool; row < (y + rows) / pool; ++row) {
    const ptrdiff_t from =
        (channel * sizes.output_height + row) * sizes.output_width * kLanes;
    float* to = call.grad_block + channel * GradChannelStep(sizes) +
                (row * pool + 1) * row_step + kLanes;
    for (ptrdiff_t x = 0; x < sizes.output_width * kLanes; x += kLanes) {
      const Floats gradient = LoadBlock(call.grad_output_block + from + x);
      Integers which = {};
      if (masked) {
        Bytes bytes;
        memcpy(&bytes, kept + from + x, sizeof(bytes));
        which = __builtin_convertvector(bytes, Integers);
      }
      const Integers open = which != kClosed;
      sum += open ? gradient : Floats{};
      if (!sizes.pool) {
        StoreBlock(open ? gradient : Floats{}, to + x);
        continue;
      }
#pragma GCC unroll 4
      for (ptrdiff_t p = 0; p < 4; ++p) {
        const Integers here = which == static_cast<int>(p);
        StoreBlock(here ? gradient : Floats{},
                   to + 2 * x + p / 2 * row_step + p % 2 * kLanes);
      }
    }
  }
  return sum;
}

// How many rows at once: enough products for each load and store of a sum,
// few enough pixels to stay in the fastest cache.
DTRAIN_INLINE ptrdiff_t RowsAtOnce(const ConvSizes& sizes) {
  const ptrdiff_t rows = 112 / sizes.columns / 2 * 2;
  return rows < 2 ? 2 : rows;
}

// Fills grad_block and adds to the sums.
void WeightBlock(const ConvBackwardCall& call, const uint8_t* kept) {
  const ConvSizes& sizes = call.sizes;
  const ptrdiff_t most = kChannelsWith[Places(sizes.kernel)];
  const ptrdiff_t row_step = GradRowStep(sizes);
  const ptrdiff_t at_once = RowsAtOnce(sizes);
  for (ptrdiff_t channel = 0; channel < sizes.out_channels; channel += most) {
    const ptrdiff_t left = sizes.out_channels - channel;
    const ptrdiff_t group = left < most ? left : most;
    for (ptrdiff_t y = 0; y < sizes.rows; y += at_once) {
      const ptrdiff_t rows =
          sizes.rows - y < at_once ? sizes.rows - y : at_once;
      for (ptrdiff_t c = channel; c < channel + group; ++c) {
        float* bias_sum = call.bias_sums + c * kLanes;
        StoreBlock(LoadBlock(bias_sum) + OpenRows(call, kept, c, y, rows),
                   bias_sum);
      }
      if (call.grad_weight == nullptr) continue;
      const SumSource source = {.grad = call.grad_block +
                                        channel * GradChannelStep(sizes) +
                                        (y + 1) * row_step + kLanes,
                                .grad_row_step = row_step,
                                .grad_channel_step = GradChannelStep(sizes),
                                .input = nullptr,
                                .input_row_step = sizes.padded_width * kLanes,
                                .rows = rows,
                                .columns = sizes.columns};
      AddWeightGradient(call, source, channel, group, y);
    }
  }
}

// For each group of input channels [out channel][row][column][channel of the
// group], the kernel turned by half a circle.
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
  // Where the turned kernel's first place lies, in the bordered gradient.
  const ptrdiff_t shift = sizes.padding - sizes.kernel + 2;
  for (ptrdiff_t x = 0; x < sizes.width; x += 2) {
    Floats sum[kChannels][4] = {};
    AddTile(source, y + shift, x + shift, call.packed_weight + channel * length,
            sum);
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
