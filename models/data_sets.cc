// Image sets of the built-in models, prepared once and shared by all trials.
//
// A pair of sets is read or drawn by the first trial, written to a file in the
// user's cache as plain bytes, and mapped by all, so that trials share the
// memory and start at once. The name of the file contains a key of everything
// that the contents depend on: paths, sizes and times of the source files, or
// the first digits that the generator draws. A change of the format needs
// another number in that name (mnist-1-…).
//
// Tensors point into the mapping, which their deleter keeps alive. No one may
// write to it.

#include "models/data_sets.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/rng.h"
#include "engine/base/text.h"
#include "engine/data/data_directory.h"
#include "engine/data/dataset_readers.h"
#include "engine/data/memory_source.h"
#include "engine/data/seeds.h"
#include "engine/os/files.h"
#include "engine/train/trial.h"
#include "models/data_files.h"
#include "models/digit_strokes.h"

namespace dtrain {

namespace {

namespace fs = std::filesystem;

// Images of one size and their classes, as bytes.
struct LabeledBytes {
  std::vector<std::uint8_t> labels;  // [images]
  std::vector<std::uint8_t> images;  // [images, values of one]
};

// Two related image sets; the second may be empty.
struct SetPair {
  ImageSet first;
  ImageSet second;
};

// Preparation of a pair of sets. It is read once, cached, and mapped by all
// trials.
struct PreparedSets {
  std::string name;  // name of the cached file; depends on the contents
  std::int64_t channels = 1;
  std::int64_t side = 0;  // images are square
  std::function<std::pair<LabeledBytes, LabeledBytes>()> read;
};

// File format: the sizes of the sets, then the labels, then the images of both,
// the first set before the second.
struct Header {
  std::uint64_t first = 0;
  std::uint64_t second = 0;
};

class Layout {
 public:
  Layout(std::int64_t channels, std::int64_t side)
      : shape_{0, channels, side, side},
        values_(static_cast<std::size_t>(channels * side * side)) {}

  std::size_t Bytes(const Header& header) const {
    return sizeof(Header) + (header.first + header.second) * (1 + values_);
  }

  std::optional<Header> Read(std::span<const std::uint8_t> bytes) const {
    Header header;
    if (bytes.size() < sizeof(header)) return std::nullopt;
    std::memcpy(&header, bytes.data(), sizeof(header));
    const bool sane = header.first > 0 && header.first < bytes.size() &&
                      header.second < bytes.size();
    if (!sane || Bytes(header) != bytes.size()) return std::nullopt;
    return header;
  }

  std::vector<std::uint8_t> Join(const LabeledBytes& first,
                                 const LabeledBytes& second) const {
    const Header header = {.first = first.labels.size(),
                           .second = second.labels.size()};
    std::vector<std::uint8_t> bytes(Bytes(header));
    std::memcpy(bytes.data(), &header, sizeof(header));
    auto to = bytes.begin() + sizeof(Header);
    to = std::ranges::copy(first.labels, to).out;
    to = std::ranges::copy(second.labels, to).out;
    to = std::ranges::copy(first.images, to).out;
    std::ranges::copy(second.images, to);
    return bytes;
  }

  // `count` samples of both sets, starting at sample `from`.
  ImageSet Slice(const SharedBytes& shared, const Header& header,
                 std::size_t from, std::size_t count) const {
    // Torch has no read-only tensors; no one writes to a set.
    auto* labels =
        const_cast<std::uint8_t*>(shared.bytes.data()) + sizeof(Header);
    std::uint8_t* images = labels + header.first + header.second;
    std::vector<std::int64_t> shape = shape_;
    shape[0] = static_cast<std::int64_t>(count);
    // The lambda keeps the bytes alive as long as a tensor refers to them.
    return {.images = torch::from_blob(
                images + from * values_, shape,
                [owner = shared.owner](void*) {}, torch::kUInt8),
            .labels = torch::from_blob(labels + from, {shape[0]}, torch::kUInt8)
                          .to(torch::kInt64)};
  }

 private:
  std::vector<std::int64_t> shape_;
  std::size_t values_;  // per image
};

// Returns the pair from the cache, or reads it and puts it there. Throws what
// `read` throws.
SetPair OpenSetPair(const PreparedSets& sets, const ReadVariable& variable) {
  const Layout layout(sets.channels, sets.side);
  const fs::path cache = CacheDirectory(variable);
  const SharedBytes shared = OpenSet(
      {.file = cache.empty() ? fs::path() : cache / "sets" / sets.name,
       .build =
           [&] {
             const auto [first, second] = sets.read();
             return layout.Join(first, second);
           },
       .valid = [&](auto bytes) { return layout.Read(bytes).has_value(); }});
  const Header header = *layout.Read(shared.bytes);
  return {.first = layout.Slice(shared, header, 0, header.first),
          .second = layout.Slice(shared, header, header.first, header.second)};
}

// A string that changes with the files: paths, sizes and modification times.
std::string FilesKey(std::span<const std::filesystem::path> files) {
  FileSetKey key;
  for (const fs::path& file : files) key.Add(file);
  return std::to_string(key.value());
}

constexpr std::size_t kTraining = 60'000;
constexpr std::size_t kValidation = 10'000;

std::pair<LabeledBytes, LabeledBytes> DrawSets(const DigitOptions& options) {
  LabeledBytes all{.labels = std::vector<std::uint8_t>(kTraining + kValidation),
                   .images = std::vector<std::uint8_t>(
                       (kTraining + kValidation) * kDigitPixels)};
  DrawDigits(options.seed, /*first=*/0, options.threads, all.images,
             all.labels);
  LabeledBytes validation{
      .labels = {all.labels.begin() + kTraining, all.labels.end()},
      .images = {all.images.begin() + kTraining * kDigitPixels,
                 all.images.end()}};
  all.labels.resize(kTraining);
  all.images.resize(kTraining * kDigitPixels);
  return {std::move(all), std::move(validation)};
}

// Reads one of MNIST's two sets; checks that images and labels match.
LabeledBytes ReadMnist(const fs::path& directory, std::size_t first) {
  const fs::path image_file = *PlainOrGzip(directory / MnistFiles()[first]);
  const fs::path label_file = *PlainOrGzip(directory / MnistFiles()[first + 1]);
  IdxArray images = ReadIdx(image_file, /*dimensions=*/3);
  IdxArray labels = ReadIdx(label_file, /*dimensions=*/1);
  const auto fail = [](const fs::path& file, const std::string& what) {
    return Error(ErrorKind::kFailed,
                 EscapeForTerminal(file.string()) + ": " + what +
                     "; download MNIST again with 'dtrain data fetch mnist'");
  };
  if (images.shape[1] != kDigitSide || images.shape[2] != kDigitSide) {
    throw fail(image_file, "the images are not 28 by 28");
  }
  if (images.shape[0] != labels.shape[0]) {
    throw fail(label_file, std::to_string(labels.shape[0]) + " labels for " +
                               std::to_string(images.shape[0]) + " images");
  }
  if (std::ranges::max(labels.values) > 9) {
    throw fail(label_file, "a label is above 9");
  }
  return {.labels = std::move(labels.values),
          .images = std::move(images.values)};
}

// Bilinear resize with rounding to bytes and pixel centres at halves, as in
// image libraries.
void Resize(std::int64_t side, LabeledBytes& set) {
  const auto samples = static_cast<std::int64_t>(set.labels.size());
  const torch::Tensor from =
      torch::from_blob(set.images.data(), {samples, 1, kDigitSide, kDigitSide},
                       torch::kUInt8)
          .to(torch::kFloat);
  const torch::Tensor to =
      at::upsample_bilinear2d(from, {side, side}, /*align_corners=*/false)
          .round_()
          .to(torch::kUInt8);
  const auto* bytes = to.const_data_ptr<std::uint8_t>();
  set.images.assign(bytes, bytes + to.numel());
}

using ReadPair = std::function<std::pair<LabeledBytes, LabeledBytes>()>;

DigitSets OpenDigits(const std::string& name, std::int64_t side,
                     const ReadPair& read, const ReadVariable& variable) {
  const bool as_it_is = side == kDigitSide;
  const SetPair sets =
      OpenSetPair({.name = as_it_is ? name : name + "-" + std::to_string(side),
                   .channels = 1,
                   .side = side,
                   .read =
                       [&] {
                         auto pair = read();
                         if (!as_it_is) {
                           Resize(side, pair.first);
                           Resize(side, pair.second);
                         }
                         return pair;
                       }},
                  variable);
  return {.training = sets.first, .validation = sets.second};
}

DigitSets OpenMnist(const fs::path& directory, std::int64_t side,
                    const ReadVariable& variable) {
  std::vector<fs::path> files;
  for (const std::string& file : MnistFiles()) {
    files.push_back(*PlainOrGzip(directory / file));
  }
  DigitSets sets = OpenDigits(
      "mnist-1-" + FilesKey(files), side,
      [&] {
        return std::pair(ReadMnist(directory, 0), ReadMnist(directory, 2));
      },
      variable);
  sets.normalization = {.mean = {0.1307F}, .std = {0.3081F}};
  sets.description = "MNIST from " + EscapeForTerminal(directory.string());
  return sets;
}

// A name that changes with the drawings, judged by the first digits.
std::string StrokesKey(std::uint32_t seed) {
  std::array<std::uint8_t, 8> labels{};
  std::array<std::uint8_t, labels.size() * kDigitPixels> images{};
  DrawDigits(seed, /*first=*/0, /*threads=*/1, images, labels);
  std::uint64_t key = 0;
  for (const std::uint8_t pixel : images) key = SplitMix64(key ^ pixel);
  return "strokes-1-" + std::to_string(seed) + "-" + std::to_string(key);
}

DigitSets OpenStrokes(const DigitOptions& options,
                      const ReadVariable& variable) {
  DigitSets sets = OpenDigits(
      StrokesKey(options.seed), options.side, [&] { return DrawSets(options); },
      variable);
  sets.normalization = {.mean = {0.108F}, .std = {0.2277F}};
  sets.description =
      "dtrain's own handwritten digits, seed " + std::to_string(options.seed);
  return sets;
}

}  // namespace

DigitSets LoadDigits(const DigitOptions& options,
                     const ReadVariable& variable) {
  const bool automatic = options.dataset == "auto";
  if (options.dataset == "strokes") return OpenStrokes(options, variable);
  if (!automatic && options.dataset != "mnist") {
    throw InvalidHyperparameters(UnknownDigits(options.dataset));
  }
  const DataDirectory places(options.data, variable);
  if (const auto found = places.Find(kMnistSet, MnistFiles())) {
    return OpenMnist(*found, options.side, variable);
  }
  if (automatic && options.data.empty()) return OpenStrokes(options, variable);
  throw Error(ErrorKind::kNotFound, MissingMnist(places));
}

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

// The files of the training set in `directory`, then that of the test set, if
// there is one.
std::vector<fs::path> Cifar10FilesIn(const fs::path& directory) {
  std::vector<fs::path> files;
  for (const std::string& name : Cifar10Files()) {
    files.push_back(*PlainOrGzip(directory / name));
  }
  for (const std::string& name : kTestFiles) {
    const auto test = PlainOrGzip(directory / name);
    if (!test) continue;
    files.push_back(*test);
    break;
  }
  return files;
}

}  // namespace

Cifar10Sets LoadCifar10(const std::string& data, const ReadVariable& variable) {
  const DataDirectory places(data, variable);
  const auto directory = places.Find(kCifar10Set, Cifar10Files());
  if (!directory) {
    throw Error(ErrorKind::kNotFound, MissingCifar10(places));
  }
  const std::vector<fs::path> files = Cifar10FilesIn(*directory);
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
