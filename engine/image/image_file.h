#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "engine/image/image.h"

namespace dtrain {

struct DecodeOptions {
  /// Rotate a JPEG image as its EXIF data says; torchvision's loader does not.
  bool exif_orientation = false;
};

/// Decodes the bytes of a JPEG or PNG file to the pixels of
/// PIL.Image.open(…).convert("RGB"). Throws Error(kFailed) that begins with
/// `what` if they are neither, cut short, too damaged, or of more than
/// 178,956,970 pixels. Any thread.
[[nodiscard]] Image DecodeImage(std::span<const std::uint8_t> file,
                                const std::string& what,
                                const DecodeOptions& options = {});

/// Reads and decodes a file of up to 1 GiB, which the error names.
[[nodiscard]] Image ReadImage(const std::filesystem::path& path,
                              const DecodeOptions& options = {});

/// PIL's limit against decompression bombs, above which it warns.
inline constexpr std::uint64_t kMaxPixels = 178'956'970;

/// Throws Error(kFailed): the image `what` has the fault `fault` and has to be
/// replaced or deleted.
[[noreturn]] void FailImage(const std::string& what, const std::string& fault);

/// Refuses, before anything is allocated, an image that is empty, too large, or
/// has more pixels than a file of `size` bytes can hold at `pixels_per_byte`.
void CheckImageSize(const std::string& what, std::uint64_t height,
                    std::uint64_t width, std::size_t size,
                    std::uint64_t pixels_per_byte);

// ---- JPEG files.

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
