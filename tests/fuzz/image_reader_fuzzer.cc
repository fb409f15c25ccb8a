// Fuzzes the decoders of image files. The first byte of an input holds options:
// the lowest bit applies the EXIF orientation, the others are the size that the
// decoded image is resized to.

#include <span>

#include "engine/image/image_file.h"
#include "engine/image/resize.h"
#include "engine/image/transforms.h"
#include "tests/fuzz/fuzz_target.h"

namespace dtrain {
namespace {

void RequireWhole(const Image& image) {
  Require(image.height >= 1 && image.width >= 1, "an image has pixels");
  Require(image.pixels.size() ==
              static_cast<std::size_t>(image.height) * image.stride(),
          "the number of pixels matches the size");
}

void Check(std::span<const std::uint8_t> file, std::uint8_t how) {
  const DecodeOptions options{.exif_orientation = (how & 1u) != 0};
  Image image;
  try {
    image = DecodeImage(file, "image", options);
  } catch (const Error& error) {
    Require(error.kind() == ErrorKind::kFailed, "a bad file is a failure");
    RequireOneLine(error);
    return;
  }
  RequireWhole(image);
  Require(DecodeImage(file, "image", options).pixels == image.pixels,
          "decoding twice gives the same pixels");
  const std::int64_t size = 1 + how / 2;
  const Box crop{.height = (image.height + 1) / 2, .width = image.width};
  RequireWhole(ResizeBilinear(image, crop, size, size));
  if (image.width <= 64 * image.height && image.height <= 64 * image.width) {
    RequireWhole(CenterCropped(image, size, 32));
  }
}

}  // namespace
}  // namespace dtrain

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  dtrain::Check({data + 1, size - 1}, data[0]);
  return 0;
}
