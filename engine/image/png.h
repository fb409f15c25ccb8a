#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "engine/image/image.h"

namespace dtrain {

bool IsPng(std::span<const std::uint8_t> file);

/// The pixels of a PNG file as PIL has them after convert("RGB"): alpha and
/// transparent colours dropped, no gamma, of 16 bits the upper eight; but grey
/// of 16 bits is clipped at 255. Throws Error(kFailed) that begins with `what`,
/// also if the file is cut short anywhere.
Image DecodePng(std::span<const std::uint8_t> file, const std::string& what);

}  // namespace dtrain
