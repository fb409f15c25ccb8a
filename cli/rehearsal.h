#pragma once

#include <filesystem>
#include <string>

#include "cli/commands.h"
#include "engine/config/experiment_config.h"

namespace dtrain {

/// `create --test`: everything that happens to a trial of `config`, once, with
/// a few batches: constructor, training, validation, checkpoint, making room
/// for another trial, restoring. In a store of its own, which is deleted. Says
/// what failed, and which hyperparameters nobody read. `library`: of the user's
/// own model, or empty; `context`: where a command runs. Gives the exit code: 1
/// if something failed.
int Rehearse(const ExperimentConfig& config, const std::string& library,
             const std::filesystem::path& context, bool json,
             const GlobalOptions& globals);

}  // namespace dtrain
