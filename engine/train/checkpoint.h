#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/checkpoint/checkpoint_files.h"
#include "engine/train/trainer_context.h"
#include "engine/train/training_state.h"
#include "engine/train/trial.h"

namespace dtrain {

/// What each rank of a trial has of its own, and rank 0 writes for the others.
struct RankShare {
  nlohmann::json facts;  // random states, sums of metrics
  std::string tensors;   // a file: gradients that wait, the trial's own state
};

/// The shares of ranks 1, 2, …; `sums` are this rank's. Collective.
std::vector<RankShare> GatherShares(
    const TrainerContext& context, Trial& trial,
    const std::map<std::string, MetricSum>& sums, RankGroup& ranks);

/// Writes all that a trial is, at a batch boundary, to the directory `path`:
/// models, optimizers, schedules, gradients that wait for a step, random
/// states, the trial's own state and the trainer's, and `shares` of the other
/// ranks. Throws Error(kFailed) or Error(kDiskFull) if it cannot be written;
/// nothing is left then.
WrittenCheckpoint SaveCheckpoint(const std::string& path,
                                 const TrainerContext& context, Trial& trial,
                                 const TrainingState& state, double epoch,
                                 const std::vector<RankShare>& shares = {});

/// Verifies the checkpoint at `path` and makes the trial what it was; a rank
/// that it has no share for begins with no sums and no gradients. Throws
/// Error(kDamaged) that names the file if it is damaged, Error(kFailed) that
/// names the tensor if it is another trial's.
TrainingState LoadCheckpoint(const std::string& path, TrainerContext& context,
                             Trial& trial);

/// Loads the checkpoint for a training from scratch: counters, schedules and
/// learning rates stay as the trial made them. Throws likewise, and for tensors
/// in the checkpoint that the models lack.
void WarmStart(const std::string& path, TrainerContext& context, Trial& trial);

/// Loads the user's file of weights into the models, as LoadWeights does, and
/// writes them as a checkpoint to the directory `path`, under the models' own
/// names and types.
void ImportWeights(const std::filesystem::path& file, const std::string& path,
                   const TrainerContext& context);

}  // namespace dtrain
