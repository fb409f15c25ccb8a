#include "engine/image/jpeg.h"

#include <memory>
#include <string_view>
#include <vector>

#include <turbojpeg.h>

#include "engine/image/image_fault.h"
#include "engine/image/jpeg_segments.h"

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
  // A subsampling that the library has no name for is still decoded.
  if (status != 0 && (header.width <= 0 || header.color_space < 0)) {
    FailImage(what, std::string("no valid JPEG file (") +
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
  // Only the first of several warnings is kept.
  if (fault.find(kCutShort) != std::string::npos || !JpegIsWhole(file)) {
    FailImage(what, "the JPEG data is cut short");
  }
}

// a·b/255, rounded, for a and b up to 255.
int MulDiv255(int a, int b) {
  const int product = a * b + 128;
  return ((product >> 8) + product) >> 8;
}

// Files hold inverted CMYK, so that what is read is the ink that is missing. In
// the arithmetic of PIL's cmyk2rgb (src/libImaging/Convert.c).
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

}  // namespace dtrain
