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

// Files of the data sets that built-in models read, and checks whether those
// needed by a model's hyperparameters exist. Without Torch, so that `dtrain
// create` can reject an experiment that could never run.

inline constexpr char kMnistSet[] = "mnist";
inline constexpr char kCifar10Set[] = "cifar-10-batches-bin";

/// Images and labels for training, then those for validation.
std::span<const std::string> MnistFiles();
/// The five batches for training.
std::span<const std::string> Cifar10Files();

/// Error message for a set that is missing in `places`: the directories
/// searched, and the command that downloads it.
std::string MissingMnist(const DataDirectory& places);
std::string MissingCifar10(const DataDirectory& places);
/// Error message for an unknown value of `dataset`.
std::string UnknownDigits(const std::string& dataset);

/// All possible values of the hyperparameter `name`; empty if it is drawn from
/// a range. `space`: hyperparameters in the searchers' format.
std::vector<nlohmann::json> HparamValues(const nlohmann::json& space,
                                         const char* name,
                                         const nlohmann::json& fallback);
/// Those of them that are strings; the trial itself rejects others.
std::vector<std::string> HparamTexts(const nlohmann::json& space,
                                     const char* name, const char* fallback);

/// Problem on this machine with the hyperparameters of a model that reads
/// digits (`fallback`: default of `dataset`) or CIFAR-10, for any value of
/// searched ones; empty if there is none.
std::optional<std::string> CheckDigits(
    const nlohmann::json& space, const char* fallback,
    const ReadVariable& variable = ProcessVariable);
std::optional<std::string> CheckCifar10(
    const nlohmann::json& space,
    const ReadVariable& variable = ProcessVariable);

/// Names of torchvision's networks that ImageNetTrial supports (see
/// models/nets/image_classifier.h).
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

/// Values of its hyperparameter `dataset`.
inline constexpr std::array<std::string_view, 3> kImageDatasets = {
    "imagefolder", "cifar10", "fake"};

/// Locations of the files needed by ImageNetTrial's hyperparameters.
class ImageNetFiles {
 public:
  /// `data`: the hyperparameter of this name.
  explicit ImageNetFiles(const std::string& data,
                         const ReadVariable& variable = ProcessVariable);

  /// First place with the subdirectories train/ and val/, itself or in its
  /// subdirectory imagenet/.
  std::optional<std::filesystem::path> Folders() const;
  /// Error message if there is none; also names alternatives.
  std::string MissingFolders() const;

  /// Weights of `arch` for 1000 classes: ARCH.safetensors, ARCH.pth, or either
  /// with torchvision's hash before the extension; in one of the places, in its
  /// subdirectory pretrained/, or in the download directory of torch.hub.
  std::optional<std::filesystem::path> Weights(const std::string& arch) const;
  /// Error message if there are none: the directories searched, and the command
  /// that downloads them.
  std::string MissingWeights(const std::string& arch) const;

 private:
  std::vector<std::filesystem::path> places_;         // of images
  std::vector<std::filesystem::path> weight_places_;  // of weights
  DataDirectory fetched_into_;  // destination of downloaded weights
};

/// Error messages for unknown values of `arch` and `dataset`.
std::string UnknownArch(const std::string& arch);
std::string UnknownDataset(const std::string& dataset);

/// Problem on this machine with the hyperparameters of a
/// `model_def:ImageNetTrial`, for any value of searched ones: an unknown
/// network or data set, missing images, missing weights. Empty if there is
/// none. `space`: hyperparameters in the searchers' format.
std::optional<std::string> CheckImageNet(
    const nlohmann::json& space,
    const ReadVariable& variable = ProcessVariable);

}  // namespace dtrain
