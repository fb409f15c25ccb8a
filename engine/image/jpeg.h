#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "engine/image/image.h"

namespace dtrain {

bool IsJpeg(std::span<const std::uint8_t> file);

/// Returns the pixels of a JPEG file as PIL has them after convert("RGB"):
/// accurate DCT, smooth upsampling, grey and CMYK converted, EXIF ignored. Like
/// PIL it tolerates damaged data, but not missing data. Throws Error(kFailed)
/// that begins with `what`.
Image DecodeJpeg(std::span<const std::uint8_t> file, const std::string& what);

/// A marker of a JPEG file and its payload, without the length field and
/// without the entropy-coded data that may follow.
struct JpegSegment {
  std::uint8_t marker = 0;
  std::span<const std::uint8_t> payload;
};

inline constexpr std::uint8_t kJpegApp1 = 0xE1;
inline constexpr std::uint8_t kJpegEnd = 0xD9;

/// Walks the markers of a JPEG file (ITU-T T.81, annex B) from its beginning to
/// its end. Accepts any bytes.
class JpegSegments {
 public:
  /// REQUIRES: `file` outlives this.
  explicit JpegSegments(std::span<const std::uint8_t> file) : file_(file) {}

  /// Returns the next segment; nothing after the last one or where the file is
  /// cut short.
  std::optional<JpegSegment> Next();

 private:
  std::span<const std::uint8_t> file_;
  std::size_t at_ = 0;
};

/// True if the file has its end marker.
bool JpegIsWhole(std::span<const std::uint8_t> file);

/// Returns the orientation in a JPEG file's EXIF data, 1 (upright) to 8; 1 if
/// there is none or it is invalid. Accepts any bytes.
int ExifOrientation(std::span<const std::uint8_t> jpeg);

/// Returns the image rotated or mirrored so that it is upright, as
/// PIL.ImageOps.exif_transpose does. REQUIRES: 1 ≤ orientation ≤ 8.
Image ApplyOrientation(const Image& image, int orientation);

}  // namespace dtrain
