#include "engine/data/gzip_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "engine/base/error.h"
#include "engine/base/text.h"

namespace dtrain {
namespace {

constexpr std::size_t kChunk = std::size_t{1} << 20;

}  // namespace

void FailDataFile(const std::filesystem::path& path, const std::string& what) {
  throw Error(ErrorKind::kFailed, EscapeForTerminal(path.string()) + ": " +
                                      what + "; delete it and fetch it again");
}

GzipFile::GzipFile(const std::filesystem::path& path)
    : path_(path), file_(gzopen(path.c_str(), "rbe")) {
  if (!file_) {
    throw Error(ErrorKind::kFailed,
                EscapeForTerminal(path.string()) + ": cannot be opened: " +
                    std::strerror(errno) + "; check the path and its rights");
  }
  gzbuffer(file_.get(), 1 << 17);
}

std::size_t GzipFile::Read(std::uint8_t* to, std::size_t size) {
  const int got = gzread(file_.get(), to, static_cast<unsigned>(size));
  int code = Z_OK;
  const char* text = gzerror(file_.get(), &code);
  if (code == Z_ERRNO) FailDataFile(path_, std::strerror(errno));
  if (got < 0 || (code != Z_OK && code != Z_BUF_ERROR)) {
    FailDataFile(path_, std::string("damaged gzip data (") + text + ")");
  }
  // zlib's word for a gzip stream that stops in its middle.
  if (code == Z_BUF_ERROR) FailDataFile(path_, "the gzip data is cut short");
  return static_cast<std::size_t>(got);
}

std::size_t GzipFile::Append(std::vector<std::uint8_t>& bytes,
                             std::size_t size) {
  std::size_t all = 0;
  while (all < size) {
    const std::size_t have = bytes.size();
    const std::size_t step = std::min(kChunk, size - all);
    bytes.resize(have + step);
    const std::size_t got = Read(bytes.data() + have, step);
    all += got;
    if (got == step) continue;
    bytes.resize(have + got);
    break;
  }
  return all;
}

}  // namespace dtrain
