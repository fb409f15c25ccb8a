#pragma once

#include <cstdint>

namespace dtrain {

// What ZipFile and ZipWriter both know of the format (PKWARE's APPNOTE.TXT,
// 4.3 to 4.5). Numbers are little-endian.

inline constexpr std::uint32_t kZipEntrySignature = 0x04034b50;
inline constexpr std::uint32_t kZipDirectorySignature = 0x02014b50;
inline constexpr std::uint32_t kZipEndSignature = 0x06054b50;
inline constexpr std::uint32_t kZip64EndSignature = 0x06064b50;
inline constexpr std::uint32_t kZip64LocatorSignature = 0x07064b50;
/// What stands in a field whose number is in the ZIP64 record.
inline constexpr std::uint32_t kZipElsewhere = 0xFFFFFFFF;
inline constexpr std::uint16_t kZipElsewhere16 = 0xFFFF;
/// The extra field that has such numbers.
inline constexpr std::uint16_t kZip64Field = 1;

}  // namespace dtrain
