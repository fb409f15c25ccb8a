#pragma once

#include <cstdint>

#include "engine/image/image.h"

namespace dtrain {

/// Returns exactly the pixels of Pillow's img.crop(crop).resize((width,
/// height), BILINEAR). (Pillow 13 swaps the two passes if it reduces the height
/// far more than the width; its pixels then differ by the rounding between the
/// passes.) Reads only `crop`. REQUIRES: `crop` lies in `from` and is not
/// empty; height and width are at least 1.
[[nodiscard]] Image ResizeBilinear(const ImageView& from, const Box& crop,
                                   std::int64_t height, std::int64_t width);

/// Returns only the part `window` of that result, computing nothing else.
/// REQUIRES: as above; `window` lies in the result and is not empty.
[[nodiscard]] Image ResizeBilinear(const ImageView& from, const Box& crop,
                                   std::int64_t height, std::int64_t width,
                                   const Box& window);

}  // namespace dtrain
