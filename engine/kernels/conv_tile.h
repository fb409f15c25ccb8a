#pragma once

// The inner loops of a convolution and of its gradient by the input, which is
// a convolution as well: sums of 2x2 neighbouring pixels for up to three
// channels, which are all the sums that 16 registers hold beside what they are
// made of.

#include "engine/kernels/conv_vector.h"

namespace dtrain {
namespace {

// How many of the next channels to take together: threes, but no single one at
// the end if it can be helped.
DTRAIN_INLINE ptrdiff_t ChannelGroup(ptrdiff_t left) {
  return left == 3 || left > 4 ? 3 : left > 1 ? 2 : 1;
}

// The block that is convolved, and where in it, counted with its border, there
// may be anything but zeros.
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

// The places of a kernel laid at `start` and at the next pixel, of which at
// least one is in [first, end).
DTRAIN_INLINE Span Overlap(ptrdiff_t start, ptrdiff_t first, ptrdiff_t end,
                           ptrdiff_t kernel) {
  const ptrdiff_t low = first - start - 1;
  const ptrdiff_t high = end - start;
  return {low > 0 ? low : 0, high < kernel ? high : kernel};
}

// Adds the products of one place of the kernel. Sums are of the pixels in
// reading order.
template <int kChannels>
DTRAIN_INLINE void AddPlace(const float*& upper, const float*& lower,
                            const float*& weight, Floats (&sum)[kChannels][4]) {
  // Else the compiler carries pixels from one place to the next, for which
  // there are no registers left.
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

// The same along one row of the kernel.
template <int kChannels>
DTRAIN_INLINE void AddRow(const float* upper, const float* lower,
                          const float* weight, ptrdiff_t count,
                          Floats (&sum)[kChannels][4]) {
  for (; count > 0; --count) AddPlace(upper, lower, weight, sum);
}

// What all tiles of a row share.
struct TileRows {
  const float* data;    // under the kernel's first row that matters
  const float* weight;  // of that row
  ptrdiff_t count;      // how many rows matter
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

// Adds what the kernel at x and its neighbours makes of all channels.
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

}  // namespace
}  // namespace dtrain
