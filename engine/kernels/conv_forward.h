#pragma once

#include "engine/kernels/conv_call.h"
#include "engine/kernels/conv_rules.h"
#include "engine/kernels/conv_vector.h"

// Forward pass of a convolution, one block of images at a time. A vector holds
// the same pixel of several images, so that every operation is a full vector
// operation whatever the number of channels. The inner loop computes a tile:
// 2x2 neighbouring output pixels of up to three channels, which are 12 sums:
// with their inputs, all that 16 vector registers hold. Every pixel loaded is
// used for three channels, every weight for four pixels. Pooling of 2x2 reduces
// one tile, without a pass over memory. The gradient of the input
// (conv_backward.h) is a convolution as well and uses the same tiles.

namespace dtrain {
namespace {

// Number of the next channels to compute together: groups of three, avoiding a
// single one at the end.
DTRAIN_INLINE ptrdiff_t ChannelGroup(ptrdiff_t left) {
  return left == 3 || left > 4 ? 3 : left > 1 ? 2 : 1;
}

// Input of a convolution, and the region of it, border included, that may be
// nonzero.
struct TileSource {
  const float* data;
  ptrdiff_t channels;
  ptrdiff_t kernel;
  ptrdiff_t row_step;      // in floats
  ptrdiff_t channel_step;  // in floats
  ptrdiff_t first_row;
  ptrdiff_t rows_end;
  ptrdiff_t first_column;
  ptrdiff_t columns_end;
};

struct Span {
  ptrdiff_t first;
  ptrdiff_t end;
};

// Positions of a kernel at `start` and at the next pixel of which at least one
// is in [first, end).
DTRAIN_INLINE Span Overlap(ptrdiff_t start, ptrdiff_t first, ptrdiff_t end,
                           ptrdiff_t kernel) {
  const ptrdiff_t low = first - start - 1;
  const ptrdiff_t high = end - start;
  return {low > 0 ? low : 0, high < kernel ? high : kernel};
}

// Adds the products for one position of the kernel. Sums are in reading order
// of the pixels.
template <int kChannels>
DTRAIN_INLINE void AddPlace(const float*& upper, const float*& lower,
                            const float*& weight, Floats (&sum)[kChannels][4]) {
  // Keeps the compiler from carrying pixels over to the next position, for
  // which there are no registers left.
  asm("" : "+r"(upper), "+r"(lower));
  Floats factor[kChannels];
#pragma GCC unroll 3
  for (int c = 0; c < kChannels; ++c) factor[c] = Spread(weight[c]);
#pragma GCC unroll 4
  for (int p = 0; p < 4; ++p) {
    const Floats pixel = LoadBlock((p < 2 ? upper : lower) + p % 2 * kLanes);
#pragma GCC unroll 3
    for (int c = 0; c < kChannels; ++c) sum[c][p] += pixel * factor[c];
  }
  upper += kLanes;
  lower += kLanes;
  weight += kChannels;
}

// Adds the products along one row of the kernel.
template <int kChannels>
DTRAIN_INLINE void AddRow(const float* upper, const float* lower,
                          const float* weight, ptrdiff_t count,
                          Floats (&sum)[kChannels][4]) {
  for (; count > 0; --count) AddPlace(upper, lower, weight, sum);
}

// Arguments shared by all tiles of a row.
struct TileRows {
  const float* data;    // at the kernel's first relevant row
  const float* weight;  // of that row
  ptrdiff_t count;      // number of relevant rows
};

// `weight` is [source channel][row][column][one of `channels`].
TileRows RowsOfTile(const TileSource& source, ptrdiff_t y, const float* weight,
                    ptrdiff_t channels) {
  const Span rows =
      Overlap(y, source.first_row, source.rows_end, source.kernel);
  return {.data = source.data + (y + rows.first) * source.row_step,
          .weight = weight + rows.first * source.kernel * channels,
          .count = rows.end - rows.first};
}

// Adds the products of the kernel at x, for all channels, to the sums of a
// tile.
template <int kChannels>
DTRAIN_INLINE void AddTile(const TileSource& source, const TileRows& rows,
                           ptrdiff_t x, Floats (&sum)[kChannels][4]) {
  const ptrdiff_t kernel = source.kernel;
  const Span columns =
      Overlap(x, source.first_column, source.columns_end, kernel);
  const ptrdiff_t count = columns.end - columns.first;
  const ptrdiff_t row_step = source.row_step;
  const ptrdiff_t weight_step = kernel * kChannels;
  const float* channel = rows.data + (x + columns.first) * kLanes;
  const float* weight = rows.weight + columns.first * kChannels;
  for (ptrdiff_t c = source.channels; c > 0; --c) {
    const float* upper = channel;
    const float* row = weight;
    for (ptrdiff_t i = rows.count; i > 0; --i) {
      AddRow(upper, upper + row_step, row, count, sum);
      upper += row_step;
      row += weight_step;
    }
    channel += source.channel_step;
    weight += kernel * weight_step;
  }
}

// Weight for each group of channels: [in channel][row][column][channel of the
// group].
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

// Copies the images' pixels into the middle of a zero-bordered block.
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

DTRAIN_INLINE void Finish(bool relu, Floats value, Integers which,
                          float* output, uint8_t* kept) {
  const auto closed = ClosedByRelu<Integers>(value, relu);
  StoreBlock(closed ? Floats{} : value, output);
  if (kept == nullptr) return;
  const Bytes bytes = Narrow(closed ? Integers{} + kClosed : which);
  memcpy(kept, &bytes, sizeof(bytes));
}

// Destination of two output rows of some channels.
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

// Pools the sums of a tile to one pixel of each channel.
template <int kChannels>
DTRAIN_INLINE void PoolTile(const OutputRows& to, ptrdiff_t x,
                            const Floats (&sum)[kChannels][4]) {
  ptrdiff_t at = x / 2 * kLanes;
#pragma GCC unroll 3
  for (int c = 0; c < kChannels; ++c) {
    Integers which;
    const Floats best = LargestOfWindow(sum[c], which);
    Finish(to.relu, best, which, to.output + at,
           to.kept != nullptr ? to.kept + at : nullptr);
    at += to.channel_step;
  }
}

// Stores those sums of a tile that are inside the image.
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
