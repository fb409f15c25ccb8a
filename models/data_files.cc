// Where the built-in models look for their data and weights, and what they say
// if these are missing. Free of Torch: `dtrain create` checks the same places
// before a trial starts.
//
// Hyperparameters such as `data` and `arch` may be searched, so the checks look
// at all values that the space can give (HparamValues); ranges of numbers give
// none. Weights are looked for where data are, where `dtrain data fetch` puts
// them, and in torch.hub's download directory, by torchvision's file names with
// or without a hash.

#include "models/data_files.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <system_error>
#include <utility>

#include "engine/base/text.h"

namespace dtrain {

std::span<const std::string> MnistFiles() {
  static const std::array<std::string, 4> kFiles = {
      "train-images-idx3-ubyte", "train-labels-idx1-ubyte",
      "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};
  return kFiles;
}

std::span<const std::string> Cifar10Files() {
  static const std::array<std::string, 5> kFiles = {
      "data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
      "data_batch_4.bin", "data_batch_5.bin"};
  return kFiles;
}

std::string MissingMnist(const DataDirectory& places) {
  return places.MissingMessage(kMnistSet, MnistFiles(), "mnist");
}

std::string MissingCifar10(const DataDirectory& places) {
  return places.MissingMessage(kCifar10Set, Cifar10Files(), "cifar10");
}

std::string UnknownDigits(const std::string& dataset) {
  return "hyperparameter 'dataset': '" + EscapeForTerminal(dataset) +
         "' is unknown; expected auto, mnist or strokes";
}

std::vector<nlohmann::json> HparamValues(const nlohmann::json& space,
                                         const char* name,
                                         const nlohmann::json& fallback) {
  const auto found = space.find(name);
  if (found == space.end() || found->is_null()) return {fallback};
  if (!found->is_object() || !found->contains("type")) return {*found};
  if (found->contains("val")) return {found->at("val")};
  std::vector<nlohmann::json> values;
  if (!found->contains("vals")) return values;
  for (const nlohmann::json& value : found->at("vals")) values.push_back(value);
  return values;
}

std::vector<std::string> HparamTexts(const nlohmann::json& space,
                                     const char* name, const char* fallback) {
  std::vector<std::string> texts;
  for (const nlohmann::json& value : HparamValues(space, name, fallback)) {
    if (value.is_string()) texts.push_back(value);
  }
  return texts;
}

std::optional<std::string> CheckDigits(const nlohmann::json& space,
                                       const char* fallback,
                                       const ReadVariable& variable) {
  const auto directories = HparamTexts(space, "data", "");
  for (const std::string& dataset : HparamTexts(space, "dataset", fallback)) {
    if (dataset == "strokes") continue;
    const bool automatic = dataset == "auto";
    if (!automatic && dataset != "mnist") return UnknownDigits(dataset);
    for (const std::string& data : directories) {
      if (automatic && data.empty()) continue;  // dtrain draws them
      const DataDirectory places(data, variable);
      if (!places.Find(kMnistSet, MnistFiles())) return MissingMnist(places);
    }
  }
  return std::nullopt;
}

std::optional<std::string> CheckCifar10(const nlohmann::json& space,
                                        const ReadVariable& variable) {
  for (const std::string& data : HparamTexts(space, "data", "")) {
    const DataDirectory places(data, variable);
    if (!places.Find(kCifar10Set, Cifar10Files())) {
      return MissingCifar10(places);
    }
  }
  return std::nullopt;
}

namespace {

namespace fs = std::filesystem;

// In order of preference.
constexpr std::array<const char*, 2> kEndings = {".safetensors", ".pth"};

bool IsDirectory(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

// True for file names in torchvision's scheme: "resnet18-f37072fd".
bool IsWeightsName(const std::string& arch, const std::string& stem) {
  if (stem == arch) return true;
  return stem.starts_with(arch + "-") &&
         std::ranges::all_of(stem.substr(arch.size() + 1), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

std::optional<fs::path> WeightsIn(const fs::path& directory,
                                  const std::string& arch) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end;
       !error && entry != end; entry.increment(error)) {
    if (IsWeightsName(arch, entry->path().stem().string())) {
      found.push_back(entry->path());
    }
  }
  // The plain name first, then those with a hash.
  std::ranges::sort(found, {}, [&arch](const fs::path& path) {
    return std::pair(path.stem() != arch, path);
  });
  for (const char* ending : kEndings) {
    const auto with = std::ranges::find(
        found, fs::path(ending),
        [](const fs::path& path) { return path.extension(); });
    if (with != found.end()) return *with;
  }
  return std::nullopt;
}

// Download directory of torch.hub.
fs::path HubDirectory(const ReadVariable& variable) {
  if (const auto home = variable("TORCH_HOME")) {
    return fs::path(*home) / "hub/checkpoints";
  }
  if (const auto cache = variable("XDG_CACHE_HOME"); cache && !cache->empty()) {
    return fs::path(*cache) / "torch/hub/checkpoints";
  }
  const auto home = variable("HOME");
  return home ? fs::path(*home) / ".cache/torch/hub/checkpoints" : fs::path();
}

template <typename Range, typename Value>
bool Contains(const Range& range, const Value& value) {
  return std::ranges::find(range, value) != std::ranges::end(range);
}

}  // namespace

ImageNetFiles::ImageNetFiles(const std::string& data,
                             const ReadVariable& variable)
    : places_(DataDirectory(data, variable).places()),
      fetched_into_("", variable) {
  weight_places_ = places_;
  const std::vector<fs::path>& usual = fetched_into_.places();
  if (!data.empty()) {
    weight_places_.insert(weight_places_.end(), usual.begin(), usual.end());
  }
  if (usual.empty()) fetched_into_ = DataDirectory(data, variable);
  const std::vector<fs::path> parents = weight_places_;
  for (const fs::path& place : parents) {
    weight_places_.push_back(place / "pretrained");
  }
  if (const fs::path hub = HubDirectory(variable); !hub.empty()) {
    weight_places_.push_back(hub);
  }
}

std::optional<fs::path> ImageNetFiles::Folders() const {
  for (const fs::path& place : places_) {
    for (const fs::path& directory : {place, place / "imagenet"}) {
      if (IsDirectory(directory / "train") && IsDirectory(directory / "val")) {
        return directory;
      }
    }
  }
  return std::nullopt;
}

std::string ImageNetFiles::MissingFolders() const {
  return "no images to train on; looked for the directories train/ and val/, "
         "with a directory of images for each class, in " +
         NamePlaces(places_) +
         " (and imagenet/ there); name such a directory in the hyperparameter "
         "'data' or in DTRAIN_DATA, or train on other data: 'dataset: "
         "cifar10', or 'dataset: fake' for synthetic images that need no files";
}

std::optional<fs::path> ImageNetFiles::Weights(const std::string& arch) const {
  for (const fs::path& place : weight_places_) {
    if (auto found = WeightsIn(place, arch)) return found;
  }
  return std::nullopt;
}

std::string ImageNetFiles::MissingWeights(const std::string& arch) const {
  return "pretrained: no weights of " + arch + "; looked for " + arch +
         ".safetensors, " + arch + ".pth and " + arch + "-HASH.pth in " +
         NamePlaces(weight_places_) + "; " +
         NamedCommand(fetched_into_.FetchCommand(arch)) +
         " downloads them; or set 'pretrained: false' to start from random "
         "weights";
}

std::string UnknownArch(const std::string& arch) {
  const std::vector<std::string> known(kImageArchs.begin(), kImageArchs.end());
  return "hyperparameter 'arch': no network '" + EscapeForTerminal(arch) + "'" +
         DidYouMean(arch, known) + "; there are " + Join(known, ", ");
}

std::string UnknownDataset(const std::string& dataset) {
  return "hyperparameter 'dataset': '" + EscapeForTerminal(dataset) +
         "' is unknown; expected imagefolder, cifar10 or fake";
}

std::optional<std::string> CheckImageNet(const nlohmann::json& space,
                                         const ReadVariable& variable) {
  const auto archs = HparamTexts(space, "arch", "resnet18");
  for (const std::string& arch : archs) {
    if (!Contains(kImageArchs, arch)) return UnknownArch(arch);
  }
  const auto datasets = HparamTexts(space, "dataset", "imagefolder");
  for (const std::string& dataset : datasets) {
    if (!Contains(kImageDatasets, dataset)) return UnknownDataset(dataset);
  }
  const bool pretrained =
      Contains(HparamValues(space, "pretrained", false), nlohmann::json(true));
  for (const std::string& data : HparamTexts(space, "data", "")) {
    const ImageNetFiles files(data, variable);
    if (Contains(datasets, "imagefolder") && !files.Folders()) {
      return files.MissingFolders();
    }
    for (const std::string& arch : archs) {
      if (pretrained && !files.Weights(arch)) return files.MissingWeights(arch);
    }
  }
  if (Contains(datasets, "cifar10")) return CheckCifar10(space, variable);
  return std::nullopt;
}

}  // namespace dtrain
