#pragma once

#include <array>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/data/data_directory.h"

namespace dtrain {

// The files of the data sets that built-in models read, and whether a model's
// hyperparameters ask for some that are not there. Without Torch, so that an
// experiment that can never run is refused before it is made.

inline constexpr char kMnistSet[] = "mnist";
inline constexpr char kCifar10Set[] = "cifar-10-batches-bin";

/// The images and labels to train on, then those to validate on.
std::span<const std::string> MnistFiles();
/// The five batches to train on.
std::span<const std::string> Cifar10Files();

/// What to say where a set is nowhere in `places`: where it was looked for, and
/// the command that gets it.
std::string MissingMnist(const DataDirectory& places);
std::string MissingCifar10(const DataDirectory& places);
/// What to say of digits that there are not.
std::string UnknownDigits(const std::string& dataset);

/// Every value that the hyperparameter `name` can have; none where they are
/// drawn from a range. `space`: as searchers take it.
std::vector<nlohmann::json> HparamValues(const nlohmann::json& space,
                                         const char* name,
                                         const nlohmann::json& fallback);
/// Those of them that are texts: of others the trial itself will say more.
std::vector<std::string> HparamTexts(const nlohmann::json& space,
                                     const char* name, const char* fallback);

/// What is wrong on this machine with the hyperparameters of a model that reads
/// digits (`dataset`, where it says nothing, is `fallback`), or CIFAR-10; of
/// searched ones with any of their values.
std::optional<std::string> CheckDigits(
    const nlohmann::json& space, const char* fallback,
    const ReadVariable& variable = ProcessVariable);
std::optional<std::string> CheckCifar10(
    const nlohmann::json& space,
    const ReadVariable& variable = ProcessVariable);

/// The networks of torchvision that ImageNetTrial trains, by their names there.
/// models/nets/image_classifier.h makes them.
inline constexpr std::array<std::string_view, 19> kImageArchs = {
    "alexnet",          "resnet18",
    "resnet34",         "resnet50",
    "resnet101",        "resnet152",
    "resnext50_32x4d",  "resnext101_32x8d",
    "resnext101_64x4d", "vgg11",
    "vgg11_bn",         "vgg13",
    "vgg13_bn",         "vgg16",
    "vgg16_bn",         "vgg19",
    "vgg19_bn",         "wide_resnet50_2",
    "wide_resnet101_2",
};

/// What it trains them on: the values of its hyperparameter `dataset`.
inline constexpr std::array<std::string_view, 3> kImageDatasets = {
    "imagefolder", "cifar10", "fake"};

/// Where the files are that ImageNetTrial's hyperparameters ask for. Without
/// Torch, so that an experiment that can never run is refused before it is
/// made.
class ImageNetFiles {
 public:
  /// `data`: the hyperparameter of this name.
  explicit ImageNetFiles(const std::string& data,
                         const ReadVariable& variable = ProcessVariable);

  /// The first place with the directories train/ and val/, itself or in its
  /// child imagenet/.
  std::optional<std::filesystem::path> Folders() const;
  /// What to say where there is none; it names what can be trained on instead.
  std::string MissingFolders() const;

  /// Weights of `arch` for 1000 classes: ARCH.safetensors, ARCH.pth, or either
  /// with a hash before its ending as torchvision names them, in a place, in
  /// its child pretrained/, or where torch.hub keeps what it has downloaded.
  std::optional<std::filesystem::path> Weights(const std::string& arch) const;
  /// What to say where there are none: where they were looked for, and the
  /// command that gets them.
  std::string MissingWeights(const std::string& arch) const;

 private:
  std::vector<std::filesystem::path> places_;         // of data
  std::vector<std::filesystem::path> weight_places_;  // of weights
  DataDirectory fetched_into_;  // where weights that are fetched go
};

/// What to say of a network, or of data, that there are not.
std::string UnknownArch(const std::string& arch);
std::string UnknownDataset(const std::string& dataset);

/// What is wrong on this machine with the hyperparameters of a
/// `model_def:ImageNetTrial`, of searched ones with any of their values: an
/// unknown network or set of data, missing images, missing weights. `space`: as
/// searchers take it.
std::optional<std::string> CheckImageNet(
    const nlohmann::json& space,
    const ReadVariable& variable = ProcessVariable);

}  // namespace dtrain
