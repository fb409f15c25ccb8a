#include "models/data_files.h"

#include <algorithm>
#include <array>

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
         "' is unknown; say auto, mnist or strokes";
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

}  // namespace dtrain
