#pragma once

#include <cstdint>
#include <span>

namespace dtrain {

/// Side of a drawn digit, in pixels of one byte; ink is high.
inline constexpr std::int64_t kDigitSide = 28;
inline constexpr std::int64_t kDigitPixels = kDigitSide * kDigitSide;

/// Draws synthetic handwritten digits: glyphs of several hands, bent, rotated,
/// sheared, scaled and shifted, with pens of different width and pressure, on
/// noisy paper. Digit i depends only on `seed` and i, and no two share a random
/// stream. Draws digits `first`, `first` + 1, … into `images` (kDigitPixels
/// bytes each) and their classes into `labels`; the size of `labels` is their
/// number. REQUIRES: `images` is large enough; threads ≥ 1.
void DrawDigits(std::uint32_t seed, std::uint32_t first, int threads,
                std::span<std::uint8_t> images, std::span<std::uint8_t> labels);

}  // namespace dtrain
