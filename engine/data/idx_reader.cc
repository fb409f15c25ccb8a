#include "engine/data/idx_reader.h"

#include <array>
#include <string>

#include "engine/data/gzip_file.h"

namespace dtrain {
namespace {

// More than any set in this format has; beyond it a header is a lie.
constexpr std::int64_t kMostBytes = std::int64_t{1} << 33;

// The four bytes before the dimensions: two zeros, 8 for unsigned bytes, the
// number of dimensions.
void CheckMagic(const std::filesystem::path& path,
                const std::array<std::uint8_t, 4>& magic,
                std::size_t dimensions) {
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
      FailDataFile(path, "the file ends within its header");
    }
    return bytes;
  };
  CheckMagic(path, word(), dimensions);

  IdxArray array;
  std::int64_t size = 1;
  for (std::size_t i = 0; i < dimensions; ++i) {
    array.shape.push_back(BigEndian(word()));
    if (array.shape.back() == 0)
      FailDataFile(path, "the header says it is empty");
    // Each factor is below 2^32 and `size` below 2^33: no overflow.
    if (array.shape.back() > kMostBytes / size) {
      FailDataFile(path, "the header says it holds more than 8 GiB");
    }
    size *= array.shape.back();
  }
  const auto wanted = static_cast<std::size_t>(size);
  const std::size_t got = file.Append(array.values, wanted);
  if (got < wanted) {
    FailDataFile(path, "the header says " + std::to_string(wanted) +
                           " bytes, but the file has only " +
                           std::to_string(got));
  }
  std::uint8_t extra = 0;
  if (file.Read(&extra, 1) > 0) {
    FailDataFile(path, "the file is longer than the " + std::to_string(wanted) +
                           " bytes its header says");
  }
  return array;
}

}  // namespace dtrain
