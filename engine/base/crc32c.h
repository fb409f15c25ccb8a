#pragma once

#include <cstdint>
#include <string_view>

namespace dtrain {

/// CRC-32C (Castagnoli) of `bytes`, RFC 3720 appendix B.4.
std::uint32_t Crc32c(std::string_view bytes);

/// CRC-32C of `bytes`, masked as in TensorFlow's TFRecord format, since a plain
/// checksum is weak for data that contain checksums themselves.
std::uint32_t MaskedCrc32c(std::string_view bytes);

}  // namespace dtrain
