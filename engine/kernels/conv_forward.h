#pragma once

#include "engine/kernels/conv_call.h"
#include "engine/kernels/conv_tile.h"

namespace dtrain {
namespace {

// For each group of channels [in channel][row][column][channel of the group].
void PackWeight(const ConvSizes& sizes, const float* weight, float* to) {
  const ptrdiff_t length = sizes.in_channels * sizes.kernel * sizes.kernel;
  for (ptrdiff_t first = 0; first < sizes.out_channels;) {
    const ptrdiff_t group = ChannelGroup(sizes.out_channels - first);
    for (ptrdiff_t i = 0; i < length; ++i) {
      for (ptrdiff_t c = 0; c < group; ++c) {
        *to++ = weight[(first + c) * length + i];
      }
    }
    first += group;
  }
}

// The images' pixels in the middle of a block's zeros.
void LoadInput(const ConvSizes& sizes, const float* input, ptrdiff_t images,
               float* block) {
  const ptrdiff_t pixels = sizes.height * sizes.width;
  const ptrdiff_t stride = sizes.in_channels * pixels;
  if (sizes.padding == 0) {
    Interleave(input, stride, images, stride, block);
    return;
  }
  for (ptrdiff_t c = 0; c < sizes.in_channels; ++c) {
    for (ptrdiff_t y = 0; y < sizes.height; ++y) {
      const ptrdiff_t row = c * sizes.padded_height + sizes.padding + y;
      Interleave(input + c * pixels + y * sizes.width, stride, images,
                 sizes.width,
                 block + (row * sizes.padded_width + sizes.padding) * kLanes);
    }
  }
}

// The first largest of the four, the last NaN if there is one; `which` is
// where.
DTRAIN_INLINE Floats Largest(const Floats (&value)[4], Integers& which) {
  Floats best = value[0];
  which = Integers{};
#pragma GCC unroll 3
  for (int i = 1; i < 4; ++i) {
    const Integers better =
        (value[i] > best) | (value[i] != value[i]);  // NOLINT
    best = better ? value[i] : best;
    which = better ? Integers{} + i : which;
  }
  return best;
}

// What is kept of a value that ReLU closed; below it, which of a window's.
constexpr int kClosed = 4;

DTRAIN_INLINE void Finish(bool relu, Floats value, Integers which,
                          float* output, uint8_t* kept) {
  const Integers closed = (value <= Floats{}) & -static_cast<int>(relu);
  StoreBlock(closed ? Floats{} : value, output);
  if (kept == nullptr) return;
  const Bytes bytes = Narrow(closed ? Integers{} + kClosed : which);
  memcpy(kept, &bytes, sizeof(bytes));
}

// A tile's sums become output: one pixel of each channel with pooling, else
// those of the four that are there.
template <int kChannels, bool kPool>
DTRAIN_INLINE void FinishTile(const ConvSizes& sizes, ptrdiff_t channel,
                              ptrdiff_t y, ptrdiff_t x,
                              const Floats (&sum)[kChannels][4], float* output,
                              uint8_t* kept) {
#pragma GCC unroll 3
  for (int c = 0; c < kChannels; ++c) {
    const ptrdiff_t plane =
        (channel + c) * sizes.output_height * sizes.output_width;
    if (kPool) {
      const ptrdiff_t at =
          (plane + y / 2 * sizes.output_width + x / 2) * kLanes;
      Integers which;
      const Floats best = Largest(sum[c], which);
      Finish(sizes.relu, best, which, output + at, kept ? kept + at : kept);
      continue;
    }
#pragma GCC unroll 4
    for (int p = 0; p < 4; ++p) {
      if (y + p / 2 >= sizes.rows || x + p % 2 >= sizes.columns) continue;
      const ptrdiff_t at =
          (plane + (y + p / 2) * sizes.columns + x + p % 2) * kLanes;
      Finish(sizes.relu, sum[c][p], Integers{}, output + at,
             kept ? kept + at : kept);
    }
  }
}

// Two rows of kChannels channels.
template <int kChannels, bool kPool>
void ForwardRows(const ConvForwardCall& call, const TileSource& source,
                 ptrdiff_t channel, ptrdiff_t y, uint8_t* kept) {
  const ptrdiff_t length = source.channels * source.kernel * source.kernel;
  const float* weight = call.packed_weight + channel * length;
  for (ptrdiff_t x = 0; x < call.sizes.columns; x += 2) {
    Floats sum[kChannels][4];
#pragma GCC unroll 3
    for (int c = 0; c < kChannels; ++c) {
      const Floats start =
          Spread(call.bias != nullptr ? call.bias[channel + c] : 0.0F);
#pragma GCC unroll 4
      for (int p = 0; p < 4; ++p) sum[c][p] = start;
    }
    AddTile(source, y, x, weight, sum);
    FinishTile<kChannels, kPool>(call.sizes, channel, y, x, sum,
                                 call.output_block, kept);
  }
}

using ForwardRowsFunction = void (*)(const ConvForwardCall&, const TileSource&,
                                     ptrdiff_t, ptrdiff_t, uint8_t*);
constexpr ForwardRowsFunction kForwardRows[2][3] = {
    {ForwardRows<1, false>, ForwardRows<2, false>, ForwardRows<3, false>},
    {ForwardRows<1, true>, ForwardRows<2, true>, ForwardRows<3, true>}};

TileSource ForwardSource(const ConvSizes& sizes, const float* block) {
  const ptrdiff_t row_step = sizes.padded_width * kLanes;
  return {.data = block,
          .channels = sizes.in_channels,
          .kernel = sizes.kernel,
          .row_step = row_step,
          .channel_step = sizes.padded_height * row_step,
          .first_row = sizes.padding,
          .rows_end = sizes.padding + sizes.height,
          .first_column = sizes.padding,
          .columns_end = sizes.padding + sizes.width};
}

void ForwardBlock(const ConvForwardCall& call, uint8_t* kept) {
  const ConvSizes& sizes = call.sizes;
  const TileSource source = ForwardSource(sizes, call.input_block);
  for (ptrdiff_t y = 0; y < sizes.rows; y += 2) {
    for (ptrdiff_t channel = 0; channel < sizes.out_channels;) {
      const ptrdiff_t group = ChannelGroup(sizes.out_channels - channel);
      kForwardRows[sizes.pool][group - 1](call, source, channel, y, kept);
      channel += group;
    }
  }
}

void Forward(const ConvForwardCall& call) {
  const ConvSizes& sizes = call.sizes;
  const ptrdiff_t in_floats = sizes.in_channels * sizes.height * sizes.width;
  const ptrdiff_t out_floats =
      sizes.out_channels * sizes.output_height * sizes.output_width;
  const bool keeps = call.kept != nullptr && (sizes.relu || sizes.pool);
  PackWeight(sizes, call.weight, call.packed_weight);
  for (ptrdiff_t first = call.first; first < call.last; first += kLanes) {
    const ptrdiff_t left = call.last - first;
    const ptrdiff_t images = left < kLanes ? left : kLanes;
    LoadInput(sizes, call.input + first * in_floats, images, call.input_block);
    ForwardBlock(call, keeps ? call.kept + first * out_floats : nullptr);
    Separate(call.output_block, out_floats, images, out_floats,
             call.output + first * out_floats);
  }
}

}  // namespace
}  // namespace dtrain
