#include "models/digit_data.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/data/batch_seed.h"
#include "engine/data/idx_reader.h"
#include "engine/data/set_cache.h"
#include "engine/train/trial_context.h"
#include "models/digit_strokes.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

const std::array<std::string, 4> kMnistFiles = {
    "train-images-idx3-ubyte", "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};

constexpr std::size_t kTraining = 60'000;
constexpr std::size_t kValidation = 10'000;

// A prepared pair of sets: their two sizes, then the labels and then the images
// of all, the training set before the validation set.
struct Header {
  std::uint64_t training = 0;
  std::uint64_t validation = 0;

  std::size_t samples() const { return training + validation; }
  std::size_t bytes() const {
    return sizeof(Header) + samples() * (1 + kDigitPixels);
  }
};

std::optional<Header> ReadHeader(std::span<const std::uint8_t> bytes) {
  Header header;
  if (bytes.size() < sizeof(header)) return std::nullopt;
  std::memcpy(&header, bytes.data(), sizeof(header));
  const bool sane = header.training > 0 && header.training < bytes.size() &&
                    header.validation > 0 && header.validation < bytes.size();
  if (!sane || header.bytes() != bytes.size()) return std::nullopt;
  return header;
}

bool IsPrepared(std::span<const std::uint8_t> bytes) {
  return ReadHeader(bytes).has_value();
}

// Room for the sets, of which the header is filled in.
std::vector<std::uint8_t> Prepare(Header header) {
  std::vector<std::uint8_t> bytes(header.bytes());
  std::memcpy(bytes.data(), &header, sizeof(header));
  return bytes;
}

std::vector<std::uint8_t> DrawSets(const DigitOptions& options) {
  std::vector<std::uint8_t> bytes =
      Prepare({.training = kTraining, .validation = kValidation});
  const auto rest = std::span(bytes).subspan(sizeof(Header));
  DrawDigits(options.seed, /*first=*/0, options.threads,
             rest.subspan(kTraining + kValidation),
             rest.first(kTraining + kValidation));
  return bytes;
}

// One of MNIST's two sets, checked: images, labels and that they belong
// together.
std::pair<IdxArray, IdxArray> ReadMnistPair(const fs::path& directory,
                                            std::size_t first) {
  const fs::path image_file = *PlainOrGzip(directory / kMnistFiles[first]);
  const fs::path label_file = *PlainOrGzip(directory / kMnistFiles[first + 1]);
  IdxArray images = ReadIdx(image_file, /*dimensions=*/3);
  IdxArray labels = ReadIdx(label_file, /*dimensions=*/1);
  const auto fail = [](const fs::path& file, const std::string& what) {
    return Error(ErrorKind::kFailed, EscapeForTerminal(file.string()) + ": " +
                                         what + "; fetch MNIST again");
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
  return {std::move(images), std::move(labels)};
}

std::vector<std::uint8_t> ReadMnist(const fs::path& directory) {
  const auto [images, labels] = ReadMnistPair(directory, 0);
  const auto [images2, labels2] = ReadMnistPair(directory, 2);
  std::vector<std::uint8_t> bytes = Prepare(
      {.training = labels.values.size(), .validation = labels2.values.size()});
  auto to = bytes.begin() + sizeof(Header);
  to = std::ranges::copy(labels.values, to).out;
  to = std::ranges::copy(labels2.values, to).out;
  to = std::ranges::copy(images.values, to).out;
  std::ranges::copy(images2.values, to);
  return bytes;
}

// A name that changes with the files: their paths, sizes and times.
std::string MnistKey(const fs::path& directory) {
  std::uint64_t key = 0;
  const auto mix = [&](std::uint64_t value) { key = SpreadBits(key ^ value); };
  for (const std::string& file : kMnistFiles) {
    std::error_code error;
    const fs::path path = fs::absolute(*PlainOrGzip(directory / file), error);
    for (const char c : path.string()) mix(static_cast<unsigned char>(c));
    mix(fs::file_size(path, error));
    mix(static_cast<std::uint64_t>(
        fs::last_write_time(path, error).time_since_epoch().count()));
  }
  return "mnist-1-" + std::to_string(key);
}

ImageSet Slice(const SharedBytes& shared, const Header& header,
               std::size_t first, std::size_t count) {
  // Torch has no tensors of constants; nobody writes to a set.
  auto* labels =
      const_cast<std::uint8_t*>(shared.bytes.data()) + sizeof(Header) + first;
  auto* images = const_cast<std::uint8_t*>(shared.bytes.data()) +
                 sizeof(Header) + header.samples() + first * kDigitPixels;
  const auto samples = static_cast<std::int64_t>(count);
  // The lambda keeps the bytes until the last tensor over them is gone.
  return {
      .images = torch::from_blob(
          images, {samples, 1, kDigitSide, kDigitSide},
          [owner = shared.owner](void*) {}, torch::kUInt8),
      .labels =
          torch::from_blob(labels, {samples}, torch::kUInt8).to(torch::kInt64)};
}

DigitSets OpenSets(const CachedSet& set) {
  const SharedBytes shared = OpenSet(set);
  const Header header = *ReadHeader(shared.bytes);
  return {
      .training = Slice(shared, header, 0, header.training),
      .validation = Slice(shared, header, header.training, header.validation)};
}

fs::path CacheFile(const std::string& name, const ReadVariable& variable) {
  const fs::path cache = CacheDirectory(variable);
  return cache.empty() ? fs::path() : cache / "sets" / name;
}

DigitSets OpenMnist(const fs::path& directory, const ReadVariable& variable) {
  DigitSets sets = OpenSets({.file = CacheFile(MnistKey(directory), variable),
                             .build = [&] { return ReadMnist(directory); },
                             .valid = IsPrepared});
  sets.normalization = {.mean = {0.1307F}, .std = {0.3081F}};
  sets.description = "MNIST from " + EscapeForTerminal(directory.string());
  return sets;
}

// A name that changes with the drawings: the first digits stand for all.
std::string StrokesKey(std::uint32_t seed) {
  std::array<std::uint8_t, 8> labels{};
  std::array<std::uint8_t, labels.size() * kDigitPixels> images{};
  DrawDigits(seed, /*first=*/0, /*threads=*/1, images, labels);
  std::uint64_t key = 0;
  for (const std::uint8_t pixel : images) key = SpreadBits(key ^ pixel);
  return "strokes-1-" + std::to_string(seed) + "-" + std::to_string(key);
}

DigitSets OpenStrokes(const DigitOptions& options,
                      const ReadVariable& variable) {
  DigitSets sets =
      OpenSets({.file = CacheFile(StrokesKey(options.seed), variable),
                .build = [&] { return DrawSets(options); },
                .valid = IsPrepared});
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
    throw InvalidHyperparameters("hyperparameter 'dataset': '" +
                                 EscapeForTerminal(options.dataset) +
                                 "' is unknown; say auto, mnist or strokes");
  }
  const DataDirectory places(options.data, variable);
  if (const auto found = places.Find("mnist", kMnistFiles)) {
    return OpenMnist(*found, variable);
  }
  if (automatic && options.data.empty()) return OpenStrokes(options, variable);
  throw Error(ErrorKind::kFailed, places.MissingMessage("mnist", kMnistFiles));
}

}  // namespace dtrain
