#pragma once

#include <cstdint>
#include <span>

namespace dtrain {

/// Images of digits are squares of this side, one byte a pixel, ink is high.
inline constexpr std::int64_t kDigitSide = 28;
inline constexpr std::int64_t kDigitPixels = kDigitSide * kDigitSide;

/// Draws handwritten digits: glyphs of several hands, bent, turned, sheared,
/// scaled and shifted, with pens of different width and pressure, on paper with
/// grain. Digit i depends only on `seed` and i, whatever the number of threads;
/// no two have the same random stream. Draws digits `first`, `first` + 1, …
/// into `images` (kDigitPixels bytes each) and what they are into `labels`, as
/// many as there are labels. REQUIRES: `images` has room for them; threads ≥ 1.
void DrawDigits(std::uint32_t seed, std::uint32_t first, int threads,
                std::span<std::uint8_t> images, std::span<std::uint8_t> labels);

}  // namespace dtrain
