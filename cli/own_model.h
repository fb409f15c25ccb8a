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

/// Why the trial that the entrypoint names cannot come from the model_def.cpp
/// of `context`, as far as the DTRAIN_TRIALS in its text tell. Nothing if it
/// can, or comes from elsewhere. Compiles nothing. Throws as FindModelSources.
std::optional<std::string> OwnTrialProblem(
    const ExperimentConfig& config, const std::filesystem::path& context);

/// Explains that this machine has no compiler for that model_def.cpp; nothing
/// if it has one, or there is no model_def.cpp.
std::optional<std::string> CompilerProblem(
    const ExperimentConfig& config, const std::filesystem::path& context);

}  // namespace dtrain
