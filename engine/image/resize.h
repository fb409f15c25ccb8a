#pragma once

#include <cstdint>

#include "engine/image/image.h"

namespace dtrain {

/// To the bit what Pillow makes of img.crop(crop).resize((width, height),
/// BILINEAR): across, then down, each a triangle filter as wide as the scale.
/// (Pillow 13 swaps the two where it shrinks the height far more than the
/// width; there its pixels differ by the rounding in between.) Reads only
/// `crop`. REQUIRES: `crop` lies in `from` and is not empty; height and width
/// are at least 1.
[[nodiscard]] Image ResizeBilinear(const ImageView& from, const Box& crop,
                                   std::int64_t height, std::int64_t width);

/// Only the part `window` of the same result, with no more work than it takes.
/// REQUIRES: besides, `window` lies in the result and is not empty.
[[nodiscard]] Image ResizeBilinear(const ImageView& from, const Box& crop,
                                   std::int64_t height, std::int64_t width,
                                   const Box& window);

}  // namespace dtrain
