#include "engine/image/jpeg.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include <turbojpeg.h>

#include "engine/image/image_file.h"

namespace dtrain {
namespace {

// The shortest code of a block of 8×8 pixels has one bit.
constexpr std::uint64_t kJpegPixelsPerByte = 512;
constexpr std::string_view kCutShort = "Premature end of JPEG file";

struct DestroyTurboJpeg {
  void operator()(void* handle) const { tjDestroy(handle); }
};
using TurboJpeg = std::unique_ptr<void, DestroyTurboJpeg>;

struct JpegHeader {
  int height = 0;
  int width = 0;
  int color_space = -1;
};

JpegHeader ReadJpegHeader(tjhandle turbo, std::span<const std::uint8_t> file,
                          const std::string& what) {
  JpegHeader header;
  int subsampling = -1;
  const int status =
      tjDecompressHeader3(turbo, file.data(), file.size(), &header.width,
                          &header.height, &subsampling, &header.color_space);
  // A subsampling that the library cannot name is decoded all the same.
  if (status != 0 && (header.width <= 0 || header.color_space < 0)) {
    FailImage(what, std::string("not a valid JPEG file (") +
                        tjGetErrorStr2(turbo) + ")");
  }
  CheckImageSize(what, static_cast<std::uint64_t>(header.height),
                 static_cast<std::uint64_t>(header.width), file.size(),
                 kJpegPixelsPerByte);
  return header;
}

void DecompressJpeg(tjhandle turbo, std::span<const std::uint8_t> file,
                    const JpegHeader& header, int format, std::uint8_t* pixels,
                    const std::string& what) {
  const int status =
      tjDecompress2(turbo, file.data(), file.size(), pixels, header.width,
                    /*pitch=*/0, header.height, format,
                    TJFLAG_ACCURATEDCT | TJFLAG_LIMITSCANS);
  if (status == 0) return;
  const std::string fault = tjGetErrorStr2(turbo);
  if (tjGetErrorCode(turbo) != TJERR_WARNING) {
    FailImage(what, "damaged JPEG data (" + fault + ")");
  }
  // The library keeps only the first of several warnings.
  if (fault.find(kCutShort) != std::string::npos || !JpegIsWhole(file)) {
    FailImage(what, "the JPEG data is cut short");
  }
}

// Returns a·b/255, rounded, for a and b up to 255.
int MulDiv255(int a, int b) {
  const int product = a * b + 128;
  return ((product >> 8) + product) >> 8;
}

// JPEG files hold inverted CMYK: 255 means no ink. Uses the arithmetic of PIL's
// cmyk2rgb (src/libImaging/Convert.c).
void CmykToRgb(const std::vector<std::uint8_t>& cmyk, Image& image) {
  for (std::size_t i = 0; i < cmyk.size() / 4; ++i) {
    const int light = cmyk[4 * i + 3];
    for (std::size_t c = 0; c < 3; ++c) {
      const int ink = 255 - cmyk[4 * i + c];
      image.pixels[3 * i + c] =
          static_cast<std::uint8_t>(light - MulDiv255(ink, light));
    }
  }
}

}  // namespace

bool IsJpeg(std::span<const std::uint8_t> file) {
  return file.size() >= 3 && file[0] == 0xFF && file[1] == 0xD8 &&
         file[2] == 0xFF;
}

Image DecodeJpeg(std::span<const std::uint8_t> file, const std::string& what) {
  const TurboJpeg turbo(tjInitDecompress());
  if (!turbo) FailImage(what, "no memory to decode it");
  const JpegHeader header = ReadJpegHeader(turbo.get(), file, what);
  Image image = BlackImage(header.height, header.width);
  const bool is_cmyk =
      header.color_space == TJCS_CMYK || header.color_space == TJCS_YCCK;
  if (!is_cmyk) {
    DecompressJpeg(turbo.get(), file, header, TJPF_RGB, image.pixels.data(),
                   what);
    return image;
  }
  std::vector<std::uint8_t> cmyk(image.pixels.size() / 3 * 4);
  DecompressJpeg(turbo.get(), file, header, TJPF_CMYK, cmyk.data(), what);
  CmykToRgb(cmyk, image);
  return image;
}

namespace {

// True for markers without a length, besides restarts: TEM, SOI, EOI.
bool HasNoLength(std::uint8_t marker) {
  return marker == 0x01 || marker == 0xD8 || marker == kJpegEnd;
}

// In entropy-coded data, restarts and stuffed zeros are not markers.
bool IsData(std::uint8_t marker) {
  return marker == 0x00 || (marker >= 0xD0 && marker <= 0xD7);
}

}  // namespace

std::optional<JpegSegment> JpegSegments::Next() {
  // Bytes that are not a marker are skipped, as libjpeg does.
  while (at_ + 1 < file_.size()) {
    const std::uint8_t marker = file_[at_ + 1];
    if (file_[at_] != 0xFF || marker == 0xFF || IsData(marker)) {
      ++at_;
      continue;
    }
    at_ += 2;
    if (HasNoLength(marker)) return JpegSegment{.marker = marker};
    if (file_.size() - at_ < 2) break;
    const std::size_t length = file_[at_] * 256u + file_[at_ + 1];
    if (length < 2 || length > file_.size() - at_) break;
    const auto payload = file_.subspan(at_ + 2, length - 2);
    at_ += length;
    return JpegSegment{marker, payload};
  }
  at_ = file_.size();
  return std::nullopt;
}

bool JpegIsWhole(std::span<const std::uint8_t> file) {
  JpegSegments segments(file);
  while (const auto segment = segments.Next()) {
    if (segment->marker == kJpegEnd) return true;
  }
  return false;
}

namespace {

constexpr std::string_view kExif("Exif\0\0", 6);
constexpr std::uint32_t kOrientationTag = 0x0112;
constexpr std::uint32_t kShort = 3;
constexpr std::uint32_t kLong = 4;
constexpr std::size_t kEntrySize = 12;

// The TIFF structure in EXIF data. Its first byte gives the byte order.
class Tiff {
 public:
  explicit Tiff(std::span<const std::uint8_t> bytes)
      : bytes_(bytes), is_little_(!bytes.empty() && bytes[0] == 'I') {}

  // Returns the number of `size` bytes at `at`; nothing beyond the end.
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

// Returns the orientation in the first directory.
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
