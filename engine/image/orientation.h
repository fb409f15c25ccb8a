#pragma once

#include <cstdint>
#include <span>

#include "engine/image/image.h"

namespace dtrain {

/// How a JPEG file's EXIF data says it is to be turned: 1 (not at all) to 8.
/// Files without a usable word on it say 1. Copes with any bytes.
int ExifOrientation(std::span<const std::uint8_t> jpeg);

/// The image turned or mirrored so that it stands upright, as
/// PIL.ImageOps.exif_transpose does. REQUIRES: 1 ≤ orientation ≤ 8.
Image ApplyOrientation(const Image& image, int orientation);

}  // namespace dtrain
