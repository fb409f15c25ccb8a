#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/data/data_directory.h"

namespace dtrain {

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
