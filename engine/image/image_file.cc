#include "engine/image/image_file.h"

#include <cerrno>
#include <cstring>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/image/image.h"
#include "engine/image/jpeg.h"
#include "engine/image/png.h"
#include "engine/os/unique_fd.h"

namespace dtrain {
namespace {

constexpr std::int64_t kMostImageBytes = std::int64_t{1} << 30;

[[noreturn]] void FailToRead(const std::string& what, int error) {
  throw Error(ErrorKind::kFailed,
              EscapeForTerminal(what) + ": cannot be read: " +
                  std::strerror(error) + "; check the path and its rights");
}

std::vector<std::uint8_t> ReadImageBytes(const std::filesystem::path& path,
                                         const std::string& what) {
  // A pipe of this name must not keep us waiting.
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (fd.get() < 0 || fstat(fd.get(), &status) != 0) FailToRead(what, errno);
  if (!S_ISREG(status.st_mode)) FailImage(what, "it is no regular file");
  if (status.st_size > kMostImageBytes) {
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
  if (!IsJpeg(file)) FailImage(what, "it is no JPEG or PNG file");
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
