#include "engine/image/orientation.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "engine/image/jpeg_segments.h"

namespace dtrain {
namespace {

constexpr std::string_view kExif("Exif\0\0", 6);
constexpr std::uint32_t kOrientationTag = 0x0112;
constexpr std::uint32_t kShort = 3;
constexpr std::uint32_t kLong = 4;
constexpr std::size_t kEntrySize = 12;

// The TIFF structure in EXIF data: numbers in the byte order it names.
class Tiff {
 public:
  explicit Tiff(std::span<const std::uint8_t> bytes)
      : bytes_(bytes), is_little_(!bytes.empty() && bytes[0] == 'I') {}

  // The number of `size` bytes at `at`, if there is one.
  std::optional<std::uint32_t> Number(std::size_t at, std::size_t size) const {
    if (at > bytes_.size() || bytes_.size() - at < size) return std::nullopt;
    std::uint32_t number = 0;
    for (std::size_t i = 0; i < size; ++i) {
      number = number << 8 | bytes_[at + (is_little_ ? size - 1 - i : i)];
    }
    return number;
  }

 private:
  std::span<const std::uint8_t> bytes_;
  bool is_little_;
};

// The orientation in the first directory.
std::optional<std::uint32_t> OrientationIn(const Tiff& tiff) {
  if (tiff.Number(2, 2) != 42u) return std::nullopt;
  const std::size_t directory = tiff.Number(4, 4).value_or(0);
  const std::uint32_t entries = tiff.Number(directory, 2).value_or(0);
  for (std::uint32_t i = 0; i < entries; ++i) {
    const std::size_t entry = directory + 2 + i * kEntrySize;
    const auto tag = tiff.Number(entry, 2);
    if (!tag) return std::nullopt;
    if (*tag != kOrientationTag || tiff.Number(entry + 4, 4) != 1u) continue;
    const auto type = tiff.Number(entry + 2, 2);
    if (type == kShort) return tiff.Number(entry + 8, 2);
    if (type == kLong) return tiff.Number(entry + 8, 4);
  }
  return std::nullopt;
}

bool IsExif(const JpegSegment& segment) {
  return segment.marker == kJpegApp1 &&
         segment.payload.size() >= kExif.size() &&
         std::equal(kExif.begin(), kExif.end(), segment.payload.begin());
}

}  // namespace

int ExifOrientation(std::span<const std::uint8_t> jpeg) {
  JpegSegments segments(jpeg);
  while (const auto segment = segments.Next()) {
    if (!IsExif(*segment)) continue;
    const Tiff tiff(segment->payload.subspan(kExif.size()));
    const std::uint32_t orientation = OrientationIn(tiff).value_or(1);
    return orientation >= 1 && orientation <= 8 ? static_cast<int>(orientation)
                                                : 1;
  }
  return 1;
}

Image ApplyOrientation(const Image& image, int orientation) {
  const bool swaps = orientation >= 5;
  const bool upends = orientation == 3 || orientation == 4 ||
                      orientation == 6 || orientation == 7;
  const bool mirrors = orientation == 2 || orientation == 3 ||
                       orientation == 7 || orientation == 8;
  Image turned = swaps ? BlackImage(image.width, image.height)
                       : BlackImage(image.height, image.width);
  std::uint8_t* to = turned.pixels.data();
  for (std::int64_t y = 0; y < turned.height; ++y) {
    for (std::int64_t x = 0; x < turned.width; ++x, to += 3) {
      const std::int64_t row = swaps ? x : y;
      const std::int64_t column = swaps ? y : x;
      const std::uint8_t* from =
          image.row(upends ? image.height - 1 - row : row) +
          3 * (mirrors ? image.width - 1 - column : column);
      std::copy_n(from, 3, to);
    }
  }
  return turned;
}

}  // namespace dtrain
