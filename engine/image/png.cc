#include "engine/image/png.h"

#include <algorithm>
#include <csetjmp>
#include <cstring>
#include <vector>

#include <png.h>

#include "engine/image/image.h"

namespace dtrain {
namespace {

// Deflate makes up to 1032 bytes of one, each of up to eight pixels.
constexpr std::uint64_t kPngPixelsPerByte = 8 * 1032;

// What libpng's callbacks and the steps below share. What has a destructor is
// kept here, for libpng leaves functions by longjmp.
struct PngDecoder {
  explicit PngDecoder(std::span<const std::uint8_t> bytes) : rest(bytes) {}
  PngDecoder(const PngDecoder&) = delete;
  PngDecoder& operator=(const PngDecoder&) = delete;
  ~PngDecoder() { png_destroy_read_struct(&read, &info, nullptr); }

  bool is_wide_grey() const {
    return png_get_bit_depth(read, info) == 16 &&
           png_get_color_type(read, info) == PNG_COLOR_TYPE_GRAY;
  }

  std::span<const std::uint8_t> rest;
  png_structp read = nullptr;
  png_infop info = nullptr;
  char fault[128] = "";
  std::vector<std::uint8_t*> rows;
};

void OnPngError(png_structp read, png_const_charp text) {
  auto* decoder = static_cast<PngDecoder*>(png_get_error_ptr(read));
  std::strncpy(decoder->fault, text, sizeof(decoder->fault) - 1);
  png_longjmp(read, 1);
}

void OnPngWarning(png_structp, png_const_charp) {}

void OnPngRead(png_structp read, png_bytep to, std::size_t size) {
  auto* decoder = static_cast<PngDecoder*>(png_get_io_ptr(read));
  if (size > decoder->rest.size()) png_error(read, "it is cut short");
  std::memcpy(to, decoder->rest.data(), size);
  decoder->rest = decoder->rest.subspan(size);
}

void ReadPngHeader(PngDecoder& decoder) {
  png_set_read_fn(decoder.read, &decoder, OnPngRead);
  png_set_user_limits(decoder.read, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
  // Texts, profiles and the like are not even unpacked.
  png_set_keep_unknown_chunks(decoder.read, PNG_HANDLE_CHUNK_NEVER, nullptr,
                              -1);
  png_read_info(decoder.read, decoder.info);
}

void SetPngTransforms(PngDecoder& decoder) {
  const auto read = decoder.read;
  const int type = png_get_color_type(read, decoder.info);
  png_set_interlace_handling(read);
  if (!decoder.is_wide_grey()) {
    png_set_strip_16(read);
    png_set_packing(read);
    if (type == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(read);
    if (type == PNG_COLOR_TYPE_GRAY) png_set_expand_gray_1_2_4_to_8(read);
    if (!(type & PNG_COLOR_MASK_COLOR)) png_set_gray_to_rgb(read);
    png_set_strip_alpha(read);
  }
  png_read_update_info(read, decoder.info);
}

void ReadPngPixels(PngDecoder& decoder) {
  png_read_image(decoder.read, decoder.rows.data());
  png_read_end(decoder.read, nullptr);
}

// Runs one of the steps above; none of them has a local with a destructor.
// Returns false if libpng found a fault.
bool TryPngStep(PngDecoder& decoder, void (*step)(PngDecoder&)) {
  if (setjmp(png_jmpbuf(decoder.read)) != 0) return false;
  step(decoder);
  return true;
}

void RunPngStep(PngDecoder& decoder, void (*step)(PngDecoder&),
                const std::string& what) {
  if (TryPngStep(decoder, step)) return;
  FailImage(what, std::string("no valid PNG file (") + decoder.fault + ")");
}

void ReadPngRows(PngDecoder& decoder, std::vector<std::uint8_t>& bytes,
                 std::size_t row_bytes, const std::string& what) {
  if (png_get_rowbytes(decoder.read, decoder.info) != row_bytes) {
    FailImage(what, "its PNG format is not known");
  }
  decoder.rows.resize(png_get_image_height(decoder.read, decoder.info));
  for (std::size_t y = 0; y < decoder.rows.size(); ++y) {
    decoder.rows[y] = bytes.data() + y * row_bytes;
  }
  RunPngStep(decoder, ReadPngPixels, what);
}

// As PIL converts its mode I;16, whatever one thinks of it.
void ClipWideGrey(const std::vector<std::uint8_t>& grey, Image& image) {
  for (std::size_t i = 0; i < grey.size() / 2; ++i) {
    const std::uint8_t value = grey[2 * i] != 0 ? 255 : grey[2 * i + 1];
    std::fill_n(&image.pixels[3 * i], 3, value);
  }
}

}  // namespace

bool IsPng(std::span<const std::uint8_t> file) {
  return file.size() >= 8 && png_sig_cmp(file.data(), 0, 8) == 0;
}

Image DecodePng(std::span<const std::uint8_t> file, const std::string& what) {
  PngDecoder decoder(file);
  decoder.read = png_create_read_struct(PNG_LIBPNG_VER_STRING, &decoder,
                                        OnPngError, OnPngWarning);
  if (decoder.read) decoder.info = png_create_info_struct(decoder.read);
  if (!decoder.info) FailImage(what, "no memory to decode it");
  RunPngStep(decoder, ReadPngHeader, what);
  const auto height = png_get_image_height(decoder.read, decoder.info);
  const auto width = png_get_image_width(decoder.read, decoder.info);
  CheckImageSize(what, height, width, file.size(), kPngPixelsPerByte);
  const bool is_wide_grey = decoder.is_wide_grey();
  RunPngStep(decoder, SetPngTransforms, what);
  Image image = BlackImage(height, width);
  if (!is_wide_grey) {
    ReadPngRows(decoder, image.pixels, image.stride(), what);
    return image;
  }
  std::vector<std::uint8_t> grey(image.pixels.size() / 3 * 2);
  ReadPngRows(decoder, grey, std::size_t{width} * 2, what);
  ClipWideGrey(grey, image);
  return image;
}

}  // namespace dtrain
