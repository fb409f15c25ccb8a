#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/image/resample_taps.h"

namespace dtrain {

/// Pixels to read, `stride` bytes from row to row, the row numbered `first` at
/// `pixels`.
struct PixelRows {
  const std::uint8_t* pixels = nullptr;
  std::size_t stride = 0;
  std::int64_t first = 0;
};

// The inner loops of a resize. Where the processor has SSE2 (all of x86-64)
// they take its instructions; the result is the same to the bit.

/// Resamples each of `rows` rows of RGB pixels across, into rows of taps.size()
/// pixels, one behind the other.
void ResampleAcross(const PixelRows& from, std::int64_t rows,
                    const ResampleTaps& taps, std::uint8_t* to);

/// Resamples rows of `bytes` bytes down, into taps.size() rows, one behind the
/// other.
void ResampleDown(const PixelRows& from, std::size_t bytes,
                  const ResampleTaps& taps, std::uint8_t* to);

}  // namespace dtrain
