#pragma once

#include <filesystem>

#include "engine/config/experiment_config.h"

namespace dtrain {

/// The file of a context that `model_def:Trial` is compiled from.
inline constexpr char kModelDefinition[] = "model_def.cpp";

/// Whether an experiment needs the files in `directory` to run: where its
/// entrypoint is a command, or a trial of the module `model_def` and
/// model_def.cpp is there. Whatever else runs is in this program.
bool NeedsContext(const ExperimentConfig& config,
                  const std::filesystem::path& directory);

}  // namespace dtrain
