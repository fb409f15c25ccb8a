#include "engine/data/cifar10_reader.h"

#include <algorithm>
#include <limits>
#include <string>

#include "engine/data/gzip_file.h"

namespace dtrain {
namespace {

constexpr std::size_t kValues = kCifar10Values;
constexpr std::size_t kRecord = 1 + kValues;
// The official files have 10,000; far more is no file of CIFAR-10.
constexpr std::size_t kMostRecords = 1'000'000;

}  // namespace

Cifar10Batch ReadCifar10(const std::filesystem::path& path) {
  std::vector<std::uint8_t> bytes;
  GzipFile(path).Append(bytes, kMostRecords * kRecord + 1);
  if (bytes.size() > kMostRecords * kRecord) {
    FailDataFile(path, "it is far longer than a file of CIFAR-10");
  }
  if (bytes.empty() || bytes.size() % kRecord != 0) {
    FailDataFile(path, "it has " + std::to_string(bytes.size()) +
                           " bytes, which is no whole number of records of " +
                           std::to_string(kRecord));
  }
  const std::size_t records = bytes.size() / kRecord;
  Cifar10Batch batch;
  batch.labels.reserve(records);
  batch.images.resize(records * kValues);
  for (std::size_t i = 0; i < records; ++i) {
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
