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

// Adds the products along one row of the kernel. Sums are of the pixels in
// reading order.
template <int kChannels>
DTRAIN_INLINE void AddRow(const float* upper, const float* lower,
                          const float* weight, ptrdiff_t count,
                          Floats (&sum)[kChannels][4]) {
  for (ptrdiff_t i = 0; i < count; ++i) {
    // Else the compiler carries pixels from one round to the next, for which
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
}

// Adds what the kernel at (y, x) and its neighbours makes of all channels.
// `weight` is [source channel][row][column][kChannels].
template <int kChannels>
DTRAIN_INLINE void AddTile(const TileSource& source, ptrdiff_t y, ptrdiff_t x,
                           const float* weight, Floats (&sum)[kChannels][4]) {
  const ptrdiff_t kernel = source.kernel;
  const Span rows = Overlap(y, source.first_row, source.rows_end, kernel);
  const Span columns =
      Overlap(x, source.first_column, source.columns_end, kernel);
  for (ptrdiff_t c = 0; c < source.channels; ++c) {
    for (ptrdiff_t i = rows.first; i < rows.end; ++i) {
      const float* upper = source.data + c * source.channel_step +
                           (y + i) * source.row_step +
                           (x + columns.first) * kLanes;
      const float* row =
          weight + ((c * kernel + i) * kernel + columns.first) * kChannels;
      AddRow(upper, upper + source.row_step, row, columns.end - columns.first,
             sum);
    }
  }
}

}  // namespace
}  // namespace dtrain
