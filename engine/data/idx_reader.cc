#include "engine/data/idx_reader.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>

#include <zlib.h>

#include "engine/base/error.h"
#include "engine/base/text.h"

namespace dtrain {
namespace {

constexpr std::size_t kChunk = std::size_t{1} << 20;
// More than any set in this format has; beyond it a header is a lie.
constexpr std::int64_t kMostBytes = std::int64_t{1} << 33;

[[noreturn]] void Fail(const std::filesystem::path& path,
                       const std::string& what) {
  throw Error(ErrorKind::kFailed, EscapeForTerminal(path.string()) + ": " +
                                      what + "; delete it and fetch it again");
}

// A file that zlib reads, gzipped or not.
class GzipFile {
 public:
  explicit GzipFile(const std::filesystem::path& path)
      : path_(path), file_(gzopen(path.c_str(), "rbe")) {
    if (!file_) {
      throw Error(ErrorKind::kFailed,
                  EscapeForTerminal(path.string()) + ": cannot be opened: " +
                      std::strerror(errno) + "; check the path and its rights");
    }
    gzbuffer(file_.get(), 1 << 17);
  }

  // Reads up to `size` bytes; fewer only at the end of the file.
  std::size_t Read(std::uint8_t* to, std::size_t size) {
    const int got = gzread(file_.get(), to, static_cast<unsigned>(size));
    int code = Z_OK;
    const char* text = gzerror(file_.get(), &code);
    if (code == Z_ERRNO) Fail(path_, std::strerror(errno));
    if (got < 0 || (code != Z_OK && code != Z_BUF_ERROR)) {
      Fail(path_, std::string("damaged gzip data (") + text + ")");
    }
    // zlib's word for a gzip stream that stops in its middle.
    if (code == Z_BUF_ERROR) Fail(path_, "the gzip data is cut short");
    return static_cast<std::size_t>(got);
  }

 private:
  struct Close {
    void operator()(gzFile file) const { gzclose(file); }
  };
  std::filesystem::path path_;
  std::unique_ptr<gzFile_s, Close> file_;
};

// The four bytes before the dimensions: two zeros, 8 for unsigned bytes, the
// number of dimensions.
void CheckMagic(const std::filesystem::path& path,
                const std::array<std::uint8_t, 4>& magic,
                std::size_t dimensions) {
  if (magic[0] != 0 || magic[1] != 0) Fail(path, "not an IDX file");
  if (magic[2] != 8) {
    Fail(path, "an IDX file of type " + std::to_string(magic[2]) +
                   ", but 8 (unsigned bytes) is expected");
  }
  if (magic[3] != dimensions) {
    Fail(path, "an IDX file of " + std::to_string(magic[3]) +
                   " dimensions, but " + std::to_string(dimensions) +
                   " are expected");
  }
}

std::int64_t BigEndian(const std::array<std::uint8_t, 4>& bytes) {
  return (std::int64_t{bytes[0]} << 24) | (std::int64_t{bytes[1]} << 16) |
         (std::int64_t{bytes[2]} << 8) | std::int64_t{bytes[3]};
}

}  // namespace

IdxArray ReadIdx(const std::filesystem::path& path, std::size_t dimensions) {
  GzipFile file(path);
  const auto word = [&] {
    std::array<std::uint8_t, 4> bytes{};
    if (file.Read(bytes.data(), bytes.size()) < bytes.size()) {
      Fail(path, "the file ends within its header");
    }
    return bytes;
  };
  CheckMagic(path, word(), dimensions);

  IdxArray array;
  std::int64_t size = 1;
  for (std::size_t i = 0; i < dimensions; ++i) {
    array.shape.push_back(BigEndian(word()));
    if (array.shape.back() == 0) Fail(path, "the header says it is empty");
    // Each factor is below 2^32 and `size` below 2^33: no overflow.
    if (array.shape.back() > kMostBytes / size) {
      Fail(path, "the header says it holds more than 8 GiB");
    }
    size *= array.shape.back();
  }
  // In steps, so that a lying header takes no memory.
  const auto wanted = static_cast<std::size_t>(size);
  while (array.values.size() < wanted) {
    const std::size_t have = array.values.size();
    const std::size_t step = std::min(kChunk, wanted - have);
    array.values.resize(have + step);
    const std::size_t got = file.Read(array.values.data() + have, step);
    if (got < step) {
      Fail(path, "the header says " + std::to_string(wanted) +
                     " bytes, but the file has only " +
                     std::to_string(have + got));
    }
  }
  std::uint8_t extra = 0;
  if (file.Read(&extra, 1) > 0) {
    Fail(path, "the file is longer than the " + std::to_string(wanted) +
                   " bytes its header says");
  }
  return array;
}

}  // namespace dtrain
