#include "models/digit_data.h"

#include <algorithm>
#include <array>
#include <functional>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/rng.h"
#include "engine/base/text.h"
#include "engine/data/dataset_readers.h"
#include "engine/data/seeds.h"
#include "engine/train/trial.h"
#include "models/data_files.h"
#include "models/digit_strokes.h"
#include "models/prepared_sets.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

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

// One of MNIST's two sets, checked: images, labels and that they belong
// together.
LabeledBytes ReadMnist(const fs::path& directory, std::size_t first) {
  const fs::path image_file = *PlainOrGzip(directory / MnistFiles()[first]);
  const fs::path label_file = *PlainOrGzip(directory / MnistFiles()[first + 1]);
  IdxArray images = ReadIdx(image_file, /*dimensions=*/3);
  IdxArray labels = ReadIdx(label_file, /*dimensions=*/1);
  const auto fail = [](const fs::path& file, const std::string& what) {
    return Error(ErrorKind::kFailed,
                 EscapeForTerminal(file.string()) + ": " + what +
                     "; get MNIST again by 'dtrain data fetch mnist'");
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

// Bytes again, as an image library's bilinear resize gives them: pixel centres
// at halves, rounded.
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

// A name that changes with the drawings: the first digits stand for all.
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

}  // namespace dtrain
