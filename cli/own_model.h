#pragma once

#include <filesystem>
#include <optional>

#include "cli/commands.h"
#include "engine/config/experiment_config.h"
#include "engine/plugin/model_library.h"

namespace dtrain {

/// The library of the model_def.cpp in `context`, compiled where the cache does
/// not have it, if trials of `config` come from there. What the compiler says
/// goes to stderr. Throws Error(kUsage) if it does not compile or has no such
/// trial.
std::optional<ModelLibrary> CompileOwnModel(
    const ExperimentConfig& config, const std::filesystem::path& context,
    const GlobalOptions& globals);

}  // namespace dtrain
