#pragma once

#include <cstdint>
#include <string_view>

namespace dtrain {

/// CRC-32C (Castagnoli) of `bytes`, RFC 3720 appendix B.4.
std::uint32_t Crc32c(std::string_view bytes);

/// The same as TensorFlow's TFRecord format stores it: masked, so that a
/// checksum of data that contains checksums is a good one.
std::uint32_t MaskedCrc32c(std::string_view bytes);

}  // namespace dtrain
