#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/checkpoint/checkpoint_files.h"
#include "engine/train/training_state.h"

namespace dtrain {

class RankGroup;
class TrainerContext;
class Trial;

/// State of one rank that rank 0 writes on its behalf.
struct RankShare {
  nlohmann::json facts;  // random states, sums of metrics
  std::string tensors;   // safetensors: accumulated gradients, trial state
};

/// Shares of ranks 1, 2, …; `sums` are this rank's. Collective.
std::vector<RankShare> GatherShares(
    const TrainerContext& context, Trial& trial,
    const std::map<std::string, MetricSum>& sums, RankGroup& ranks);

/// Writes the complete state of a trial at a batch boundary to the directory
/// `path`: models, optimizers, schedules, accumulated gradients, random states,
/// state of the trial itself and of the trainer, and `shares` of the other
/// ranks. Throws Error(kFailed) or Error(kDiskFull) if it cannot be written;
/// nothing is left then.
WrittenCheckpoint SaveCheckpoint(const std::string& path,
                                 const TrainerContext& context, Trial& trial,
                                 const TrainingState& state, double epoch,
                                 const std::vector<RankShare>& shares = {});

/// Verifies the checkpoint at `path` and restores the trial. A rank without a
/// share in it starts without sums and gradients. Throws Error(kDamaged) that
/// names a damaged file, or Error(kFailed) that names a tensor that does not
/// fit the trial.
TrainingState LoadCheckpoint(const std::string& path, TrainerContext& context,
                             Trial& trial);

/// Loads the weights of a checkpoint for training from scratch: counters,
/// schedules and learning rates stay as the trial made them. Throws as
/// LoadCheckpoint, and for tensors in the checkpoint that the models lack.
void WarmStart(const std::string& path, TrainerContext& context, Trial& trial);

/// Loads the user's file of weights into the models, as LoadWeights does, and
/// writes them as a checkpoint to the directory `path`, with the models' names
/// and types.
void ImportWeights(const std::filesystem::path& file, const std::string& path,
                   const TrainerContext& context);

}  // namespace dtrain
