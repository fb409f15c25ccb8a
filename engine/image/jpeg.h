#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
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

/// A marker of a JPEG file and what stands between it and the next: the payload
/// without its length. Entropy-coded data is no part of it.
struct JpegSegment {
  std::uint8_t marker = 0;
  std::span<const std::uint8_t> payload;
};

inline constexpr std::uint8_t kJpegApp1 = 0xE1;
inline constexpr std::uint8_t kJpegEnd = 0xD9;

/// Walks the markers of a JPEG file (ITU-T T.81, annex B) from its beginning to
/// its end. Copes with any bytes.
class JpegSegments {
 public:
  /// REQUIRES: `file` outlives this.
  explicit JpegSegments(std::span<const std::uint8_t> file) : file_(file) {}

  /// The next one, or nothing behind the last or where the file is cut short.
  std::optional<JpegSegment> Next();

 private:
  std::span<const std::uint8_t> file_;
  std::size_t at_ = 0;
};

/// Whether the file goes on to its end marker.
bool JpegIsWhole(std::span<const std::uint8_t> file);

/// How a JPEG file's EXIF data says it is to be turned: 1 (not at all) to 8.
/// Files without a usable word on it say 1. Copes with any bytes.
int ExifOrientation(std::span<const std::uint8_t> jpeg);

/// The image turned or mirrored so that it stands upright, as
/// PIL.ImageOps.exif_transpose does. REQUIRES: 1 ≤ orientation ≤ 8.
Image ApplyOrientation(const Image& image, int orientation);

}  // namespace dtrain
