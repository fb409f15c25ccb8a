// Readers of the files of MNIST (IDX) and CIFAR-10 (binary version), plain or
// gzipped. Sizes in a header are not trusted: memory grows with the bytes that
// are really there, and a file that is shorter or longer than its header says
// is refused, as the sign of a broken download.
//
// zlib reads plain files as well as gzipped ones, so there is one path for
// both. It reports a stream that is cut short only as a code beside the bytes
// (Z_BUF_ERROR), which is why every read asks for that code.

#include "engine/data/dataset_readers.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <zlib.h>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/os/system_error.h"

namespace dtrain {

namespace {

// Throws Error(kFailed): the data file `path` is invalid.
[[noreturn]] void FailDataFile(const std::filesystem::path& path,
                               const std::string& what) {
  throw Error(ErrorKind::kFailed, EscapeForTerminal(path.string()) + ": " +
                                      what + "; delete it and fetch it again");
}

// Sequential reader of a file that may be gzipped.
class GzipFile {
 public:
  // Throws Error(kFailed) if it cannot be opened.
  explicit GzipFile(const std::filesystem::path& path);

  // Reads up to `size` bytes, fewer only at the end of the file. Throws
  // Error(kFailed) if it cannot be read or its gzip data is damaged.
  std::size_t Read(std::uint8_t* to, std::size_t size);

  // Appends up to `size` bytes to `bytes`, in steps, so that an exaggerated
  // size allocates nothing. Returns the number of bytes.
  std::size_t Append(std::vector<std::uint8_t>& bytes, std::size_t size);

 private:
  struct Close {
    void operator()(gzFile file) const { gzclose(file); }
  };
  std::filesystem::path path_;
  std::unique_ptr<gzFile_s, Close> file_;
};

constexpr std::size_t kChunk = std::size_t{1} << 20;

GzipFile::GzipFile(const std::filesystem::path& path)
    : path_(path), file_(gzopen(path.c_str(), "rbe")) {
  if (!file_) {
    throw Error(ErrorKind::kFailed, EscapeForTerminal(path.string()) +
                                        ": cannot be opened: " + ErrnoText() +
                                        "; check the path and its permissions");
  }
  gzbuffer(file_.get(), 1 << 17);
}

std::size_t GzipFile::Read(std::uint8_t* to, std::size_t size) {
  const int got = gzread(file_.get(), to, static_cast<unsigned>(size));
  int code = Z_OK;
  const char* text = gzerror(file_.get(), &code);
  if (code == Z_ERRNO) FailDataFile(path_, ErrnoText());
  if (got < 0 || (code != Z_OK && code != Z_BUF_ERROR)) {
    FailDataFile(path_, std::string("damaged gzip data (") + text + ")");
  }
  // zlib's code for a truncated gzip stream.
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

// More than any set in this format; a larger header is invalid.
constexpr std::int64_t kMaxBytes = std::int64_t{1} << 33;

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
      FailDataFile(path, "the file ends within its header");
    }
    return bytes;
  };
  // Two zeros, 8 for unsigned bytes, the number of dimensions.
  const auto magic = word();
  if (magic[0] != 0 || magic[1] != 0) FailDataFile(path, "not an IDX file");
  if (magic[2] != 8) {
    FailDataFile(path, "an IDX file of type " + std::to_string(magic[2]) +
                           ", but 8 (unsigned bytes) is expected");
  }
  if (magic[3] != dimensions) {
    FailDataFile(path, "an IDX file of " + std::to_string(magic[3]) +
                           " dimensions, but " + std::to_string(dimensions) +
                           " are expected");
  }

  IdxArray array;
  std::int64_t size = 1;
  for (std::size_t i = 0; i < dimensions; ++i) {
    array.shape.push_back(BigEndian(word()));
    if (array.shape.back() == 0)
      FailDataFile(path, "the header says it is empty");
    // Each factor is below 2^32 and `size` below 2^33: no overflow.
    if (array.shape.back() > kMaxBytes / size) {
      FailDataFile(path, "the header says it holds more than 8 GiB");
    }
    size *= array.shape.back();
  }
  const auto expected = static_cast<std::size_t>(size);
  const std::size_t got = file.Append(array.values, expected);
  if (got < expected) {
    FailDataFile(path, "the header says " + std::to_string(expected) +
                           " bytes, but the file has only " +
                           std::to_string(got));
  }
  std::uint8_t extra = 0;
  if (file.Read(&extra, 1) > 0) {
    FailDataFile(path, "the file is longer than the " +
                           std::to_string(expected) + " bytes its header says");
  }
  return array;
}

namespace {

constexpr std::size_t kValues = kCifar10Values;
constexpr std::size_t kRecord = 1 + kValues;
// The official files have 10,000 records.
constexpr std::size_t kMaxRecords = 1'000'000;

}  // namespace

Cifar10Batch ReadCifar10(const std::filesystem::path& path) {
  std::vector<std::uint8_t> bytes;
  GzipFile(path).Append(bytes, kMaxRecords * kRecord + 1);
  if (bytes.size() > kMaxRecords * kRecord) {
    FailDataFile(path, "it is far longer than any file of CIFAR-10");
  }
  if (bytes.empty() || bytes.size() % kRecord != 0) {
    FailDataFile(path,
                 "it has " + std::to_string(bytes.size()) +
                     " bytes, which is not a whole number of records of " +
                     std::to_string(kRecord));
  }
  const std::size_t records = bytes.size() / kRecord;
  Cifar10Batch batch;
  batch.labels.reserve(records);
  batch.images.resize(records * kValues);
  for (std::size_t i = 0; i < records; ++i) {
    // One byte for the class, then the red, green and blue planes of 32 by 32.
    const auto record =
        bytes.begin() + static_cast<std::ptrdiff_t>(i * kRecord);
    if (*record >= kCifar10Classes) {
      FailDataFile(path, "record " + std::to_string(i) + " is of class " +
                             std::to_string(*record) + ", but 0 to 9 exist");
    }
    batch.labels.push_back(*record);
    std::copy_n(
        record + 1, kValues,
        batch.images.begin() + static_cast<std::ptrdiff_t>(i * kValues));
  }
  return batch;
}

}  // namespace dtrain
