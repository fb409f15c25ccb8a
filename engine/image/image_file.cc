// Decoding of JPEG and PNG files to RGB, with the pixels that PIL gives after
// convert("RGB"), since models are compared with those trained in Python.
//
// Files are not trusted. The size in the header is checked against the number
// of bytes before memory is allocated: neither format can hold more than a
// fixed number of pixels in a byte. A file that ends too early is an error;
// libjpeg-turbo would fill the rest with grey.
//
// libpng reports errors by longjmp, which skips destructors. So each call of
// libpng is in a step (RunPngStep) without locals that have one; everything
// that must be freed is a member of PngDecoder. libjpeg-turbo reports warnings
// for damaged data that it has decoded anyway, and keeps only the first of
// them, which is why JpegIsWhole looks for the end marker itself.

#include "engine/image/image_file.h"

#include <algorithm>
#include <cerrno>
#include <csetjmp>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <png.h>
#include <turbojpeg.h>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/image/image.h"
#include "engine/os/system_error.h"
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
  const auto read_pixels = [](PngDecoder& png) {
    png_read_image(png.read, png.rows.data());
    png_read_end(png.read, nullptr);
  };
  RunPngStep(decoder, read_pixels, what);
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
  const auto read_header = [](PngDecoder& png) {
    png_set_read_fn(png.read, &png, OnPngRead);
    png_set_user_limits(png.read, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
    // Texts, profiles and other ancillary chunks are skipped without unpacking.
    png_set_keep_unknown_chunks(png.read, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
    png_read_info(png.read, png.info);
  };
  RunPngStep(decoder, read_header, what);
  const auto height = png_get_image_height(decoder.read, decoder.info);
  const auto width = png_get_image_width(decoder.read, decoder.info);
  CheckImageSize(what, height, width, file.size(), kPngPixelsPerByte);
  const bool is_wide_grey = decoder.is_wide_grey();
  const auto set_transforms = [](PngDecoder& png) {
    const int type = png_get_color_type(png.read, png.info);
    png_set_interlace_handling(png.read);
    if (!png.is_wide_grey()) {
      png_set_strip_16(png.read);
      png_set_packing(png.read);
      if (type == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png.read);
      if (type == PNG_COLOR_TYPE_GRAY) png_set_expand_gray_1_2_4_to_8(png.read);
      if (!(type & PNG_COLOR_MASK_COLOR)) png_set_gray_to_rgb(png.read);
      png_set_strip_alpha(png.read);
    }
    png_read_update_info(png.read, png.info);
  };
  RunPngStep(decoder, set_transforms, what);
  Image image = BlackImage(height, width);
  if (!is_wide_grey) {
    ReadPngRows(decoder, image.pixels, image.stride(), what);
    return image;
  }
  std::vector<std::uint8_t> grey(image.pixels.size() / 3 * 2);
  ReadPngRows(decoder, grey, std::size_t{width} * 2, what);
  // As PIL converts grey of 16 bits (mode I;16).
  for (std::size_t i = 0; i < grey.size() / 2; ++i) {
    const bool is_above = grey[2 * i] != 0;
    const std::uint8_t value = is_above ? 255 : grey[2 * i + 1];
    image.is_clipped = image.is_clipped || is_above;
    std::fill_n(&image.pixels[3 * i], 3, value);
  }
  return image;
}

constexpr std::int64_t kMaxImageBytes = std::int64_t{1} << 30;

[[noreturn]] void FailToRead(const std::string& what, int error) {
  throw Error(ErrorKind::kFailed, EscapeForTerminal(what) +
                                      ": cannot be read: " + ErrnoText(error) +
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
  if (file.size() >= 8 && png_sig_cmp(file.data(), 0, 8) == 0) {
    return DecodePng(file, what);
  }
  if (file.size() < 3 || file[0] != 0xFF || file[1] != 0xD8 ||
      file[2] != 0xFF) {
    FailImage(what, "it is not a JPEG or PNG file");
  }
  Image image = DecodeJpeg(file, what);
  // An option, since PIL ignores the orientation unless exif_transpose is
  // called.
  const int orientation = options.exif_orientation ? ExifOrientation(file) : 1;
  return orientation == 1 ? image : ApplyOrientation(image, orientation);
}

Image ReadImage(const std::filesystem::path& path,
                const DecodeOptions& options) {
  const std::string what = path.string();
  return DecodeImage(ReadImageBytes(path, what), what, options);
}

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

}  // namespace

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
  // JPEG files hold inverted CMYK: 255 means no ink. The arithmetic is that of
  // PIL's cmyk2rgb (src/libImaging/Convert.c).
  for (std::size_t i = 0; i < cmyk.size() / 4; ++i) {
    const int light = cmyk[4 * i + 3];
    for (std::size_t c = 0; c < 3; ++c) {
      const int product = (255 - cmyk[4 * i + c]) * light + 128;
      const int dark = ((product >> 8) + product) >> 8;  // product/255, rounded
      image.pixels[3 * i + c] = static_cast<std::uint8_t>(light - dark);
    }
  }
  return image;
}

std::optional<JpegSegment> JpegSegments::Next() {
  // Bytes that are not a marker are skipped, as libjpeg does.
  while (at_ + 1 < file_.size()) {
    const std::uint8_t marker = file_[at_ + 1];
    // In entropy-coded data, restarts and stuffed zeros are not markers.
    const bool is_data = marker == 0x00 || (marker >= 0xD0 && marker <= 0xD7);
    if (file_[at_] != 0xFF || marker == 0xFF || is_data) {
      ++at_;
      continue;
    }
    at_ += 2;
    // TEM, SOI and EOI have no length.
    if (marker == 0x01 || marker == 0xD8 || marker == kJpegEnd) {
      return JpegSegment{.marker = marker};
    }
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
// An entry has 12 bytes: tag (2), type (2), count (4), and a value that begins
// in the last 4.
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

}  // namespace

int ExifOrientation(std::span<const std::uint8_t> jpeg) {
  JpegSegments segments(jpeg);
  while (const auto segment = segments.Next()) {
    if (segment->marker != kJpegApp1 ||
        segment->payload.size() < kExif.size() ||
        !std::equal(kExif.begin(), kExif.end(), segment->payload.begin())) {
      continue;
    }
    const Tiff tiff(segment->payload.subspan(kExif.size()));
    const std::uint32_t orientation = OrientationIn(tiff).value_or(1);
    return orientation >= 1 && orientation <= 8 ? static_cast<int>(orientation)
                                                : 1;
  }
  return 1;
}

// The eight orientations of EXIF are the symmetries of a rectangle: 5 to 8 swap
// rows and columns, and each may be turned upside down and mirrored.
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
