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

// Where the output of two rows of some channels goes.
struct OutputRows {
  float* output;  // of the first channel
  uint8_t* kept;  // may be null
  ptrdiff_t channel_step;
  ptrdiff_t row_step;
  bool relu;
};

OutputRows RowsOfOutput(const ConvForwardCall& call, ptrdiff_t channel,
                        ptrdiff_t y, uint8_t* kept) {
  const ConvSizes& sizes = call.sizes;
  const ptrdiff_t row_step = sizes.output_width * kLanes;
  const ptrdiff_t channel_step = sizes.output_height * row_step;
  const ptrdiff_t at =
      channel * channel_step + (sizes.pool ? y / 2 : y) * row_step;
  return {.output = call.output_block + at,
          .kept = kept != nullptr ? kept + at : nullptr,
          .channel_step = channel_step,
          .row_step = row_step,
          .relu = sizes.relu};
}

// A tile's sums become one pixel of each channel.
template <int kChannels>
DTRAIN_INLINE void PoolTile(const OutputRows& to, ptrdiff_t x,
                            const Floats (&sum)[kChannels][4]) {
  ptrdiff_t at = x / 2 * kLanes;
#pragma GCC unroll 3
  for (int c = 0; c < kChannels; ++c) {
    Integers which;
    const Floats best = Largest(sum[c], which);
    Finish(to.relu, best, which, to.output + at,
           to.kept != nullptr ? to.kept + at : nullptr);
    at += to.channel_step;
  }
}

// Those of a tile's sums that are in the image become output.
template <int kChannels>
DTRAIN_INLINE void CopyTile(const OutputRows& to, ptrdiff_t rows,
                            ptrdiff_t columns, ptrdiff_t x,
                            const Floats (&sum)[kChannels][4]) {
#pragma GCC unroll 3
  for (int c = 0; c < kChannels; ++c) {
#pragma GCC unroll 4
    for (int p = 0; p < 4; ++p) {
      if (p / 2 >= rows || x + p % 2 >= columns) continue;
      const ptrdiff_t at =
          c * to.channel_step + p / 2 * to.row_step + (x + p % 2) * kLanes;
      Finish(to.relu, sum[c][p], Integers{}, to.output + at,
             to.kept != nullptr ? to.kept + at : nullptr);
    }
  }
}

// Two rows of kChannels channels.
template <int kChannels, bool kPool>
void ForwardRows(const ConvForwardCall& call, const TileSource& source,
                 ptrdiff_t channel, ptrdiff_t y, uint8_t* kept) {
  const ConvSizes& sizes = call.sizes;
  const ptrdiff_t length = source.channels * source.kernel * source.kernel;
  const TileRows rows =
      RowsOfTile(source, y, call.packed_weight + channel * length, kChannels);
  const OutputRows to = RowsOfOutput(call, channel, y, kept);
  Floats start[kChannels];
  for (int c = 0; c < kChannels; ++c) {
    start[c] = Spread(call.bias != nullptr ? call.bias[channel + c] : 0.0F);
  }
  for (ptrdiff_t x = 0; x < sizes.columns; x += 2) {
    Floats sum[kChannels][4];
#pragma GCC unroll 3
    for (int c = 0; c < kChannels; ++c) {
#pragma GCC unroll 4
      for (int p = 0; p < 4; ++p) sum[c][p] = start[c];
    }
    AddTile(source, rows, x, sum);
    if (kPool) {
      PoolTile(to, x, sum);
    } else {
      CopyTile(to, sizes.rows - y, sizes.columns, x, sum);
    }
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
