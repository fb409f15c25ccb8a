#include "engine/image/image_file.h"

#include <algorithm>
#include <cerrno>
#include <csetjmp>
#include <cstring>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <png.h>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/image/image.h"
#include "engine/image/jpeg.h"
#include "engine/os/unique_fd.h"

namespace dtrain {

void FailImage(const std::string& what, const std::string& fault) {
  throw Error(ErrorKind::kFailed, EscapeForTerminal(what + ": " + fault) +
                                      "; replace it or delete it");
}

void CheckImageSize(const std::string& what, std::uint64_t height,
                    std::uint64_t width, std::size_t size,
                    std::uint64_t pixels_per_byte) {
  if (height == 0 || width == 0) FailImage(what, "it has no pixels");
  const std::string pixels =
      std::to_string(width) + "x" + std::to_string(height) + " pixels";
  if (width > kMaxPixels / height) {
    FailImage(what, "it has " + pixels + ", but at most " +
                        std::to_string(kMaxPixels) + " are read");
  }
  if (height * width / pixels_per_byte > size) {
    FailImage(what, "it is cut short or damaged: " + std::to_string(size) +
                        " bytes cannot hold " + pixels);
  }
}

namespace {

// Deflate makes up to 1032 bytes of one, each of up to eight pixels.
constexpr std::uint64_t kPngPixelsPerByte = 8 * 1032;

// State shared by libpng's callbacks and the steps below. libpng reports errors
// by longjmp, which skips destructors: objects that need one are members.
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
  // Texts, profiles and other ancillary chunks are skipped without unpacking.
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
  FailImage(what, std::string("not a valid PNG file (") + decoder.fault + ")");
}

void ReadPngRows(PngDecoder& decoder, std::vector<std::uint8_t>& bytes,
                 std::size_t row_bytes, const std::string& what) {
  if (png_get_rowbytes(decoder.read, decoder.info) != row_bytes) {
    FailImage(what, "its PNG format is not supported");
  }
  decoder.rows.resize(png_get_image_height(decoder.read, decoder.info));
  for (std::size_t y = 0; y < decoder.rows.size(); ++y) {
    decoder.rows[y] = bytes.data() + y * row_bytes;
  }
  RunPngStep(decoder, ReadPngPixels, what);
}

// Converts grey of 16 bits as PIL does (mode I;16).
void ClipWideGrey(const std::vector<std::uint8_t>& grey, Image& image) {
  for (std::size_t i = 0; i < grey.size() / 2; ++i) {
    const std::uint8_t value = grey[2 * i] != 0 ? 255 : grey[2 * i + 1];
    std::fill_n(&image.pixels[3 * i], 3, value);
  }
}

bool IsPng(std::span<const std::uint8_t> file) {
  return file.size() >= 8 && png_sig_cmp(file.data(), 0, 8) == 0;
}

// Returns the pixels of a PNG file as PIL has them after convert("RGB"): alpha
// and transparent colours are dropped, gamma is ignored, of 16 bits the upper
// eight are kept; but grey of 16 bits is clipped at 255.
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

constexpr std::int64_t kMaxImageBytes = std::int64_t{1} << 30;

[[noreturn]] void FailToRead(const std::string& what, int error) {
  throw Error(ErrorKind::kFailed,
              EscapeForTerminal(what) +
                  ": cannot be read: " + std::strerror(error) +
                  "; check the path and its permissions");
}

std::vector<std::uint8_t> ReadImageBytes(const std::filesystem::path& path,
                                         const std::string& what) {
  // Without O_NONBLOCK, opening a pipe would wait for a writer.
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (fd.get() < 0 || fstat(fd.get(), &status) != 0) FailToRead(what, errno);
  if (!S_ISREG(status.st_mode)) FailImage(what, "it is not a regular file");
  if (status.st_size > kMaxImageBytes) {
    FailImage(what, "it has " + FormatBytes(status.st_size) +
                        ", but at most 1 GiB is read");
  }
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(status.st_size));
  std::size_t have = 0;
  while (have < bytes.size()) {
    const ssize_t got = read(fd.get(), &bytes[have], bytes.size() - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) FailToRead(what, errno);
    if (got == 0) break;
    have += static_cast<std::size_t>(got);
  }
  bytes.resize(have);
  return bytes;
}

}  // namespace

Image DecodeImage(std::span<const std::uint8_t> file, const std::string& what,
                  const DecodeOptions& options) {
  if (file.empty()) FailImage(what, "the file is empty");
  if (IsPng(file)) return DecodePng(file, what);
  if (!IsJpeg(file)) FailImage(what, "it is not a JPEG or PNG file");
  Image image = DecodeJpeg(file, what);
  const int orientation = options.exif_orientation ? ExifOrientation(file) : 1;
  return orientation == 1 ? image : ApplyOrientation(image, orientation);
}

Image ReadImage(const std::filesystem::path& path,
                const DecodeOptions& options) {
  const std::string what = path.string();
  return DecodeImage(ReadImageBytes(path, what), what, options);
}

}  // namespace dtrain
