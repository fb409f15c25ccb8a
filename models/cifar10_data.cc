#include "models/cifar10_data.h"

#include <array>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/data/dataset_readers.h"
#include "models/data_files.h"
#include "models/prepared_sets.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

const std::array<std::string, 2> kTestFiles = {"test_batch.bin",
                                               "test_first1000.bin"};
constexpr std::int64_t kWholeTest = 10'000;

LabeledBytes ReadAll(std::span<const fs::path> files) {
  LabeledBytes all;
  for (const fs::path& file : files) {
    const Cifar10Batch batch = ReadCifar10(file);
    all.labels.insert(all.labels.end(), batch.labels.begin(),
                      batch.labels.end());
    all.images.insert(all.images.end(), batch.images.begin(),
                      batch.images.end());
  }
  return all;
}

}  // namespace

Cifar10Sets LoadCifar10(const std::string& data, const ReadVariable& variable) {
  const DataDirectory places(data, variable);
  const auto directory = places.Find(kCifar10Set, Cifar10Files());
  if (!directory) {
    throw Error(ErrorKind::kNotFound, MissingCifar10(places));
  }
  std::vector<fs::path> files;
  for (const std::string& name : Cifar10Files()) {
    files.push_back(*PlainOrGzip(*directory / name));
  }
  for (const std::string& name : kTestFiles) {
    const auto test = PlainOrGzip(*directory / name);
    if (!test) continue;
    files.push_back(*test);
    break;
  }
  const auto all = std::span<const fs::path>(files);
  const SetPair sets =
      OpenSetPair({.name = "cifar10-1-" + FilesKey(all),
                   .channels = 3,
                   .side = kCifar10Side,
                   .read =
                       [&] {
                         const std::size_t training = Cifar10Files().size();
                         return std::pair(ReadAll(all.first(training)),
                                          ReadAll(all.subspan(training)));
                       }},
                  variable);
  Cifar10Sets result{
      .training = sets.first,
      .test = sets.second,
      .whole_test = sets.second.size() == kWholeTest,
      .description = "CIFAR-10 from " + EscapeForTerminal(directory->string())};
  if (result.test.size() == 0) {
    result.description += ", without its test set";
  } else if (!result.whole_test) {
    result.description += ", of whose test set only the first " +
                          std::to_string(result.test.size()) +
                          " images are there";
  }
  return result;
}

std::vector<std::string> Cifar10ClassNames() {
  return {"airplane", "automobile", "bird",  "cat",  "deer",
          "dog",      "frog",       "horse", "ship", "truck"};
}

}  // namespace dtrain
