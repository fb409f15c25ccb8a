#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "engine/image/image.h"

namespace dtrain {

bool IsJpeg(std::span<const std::uint8_t> file);

/// The pixels of a JPEG file as PIL has them after convert("RGB"): accurate
/// DCT, smooth upsampling, grey and CMYK converted, EXIF ignored. Like PIL it
/// makes do with damaged data, but not with missing. Throws Error(kFailed) that
/// begins with `what`.
Image DecodeJpeg(std::span<const std::uint8_t> file, const std::string& what);

}  // namespace dtrain
