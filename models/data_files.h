#pragma once

#include <optional>
#include <span>
#include <string>
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

}  // namespace dtrain
