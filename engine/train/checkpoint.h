#pragma once

#include <string>

#include "engine/checkpoint/checkpoint_writer.h"
#include "engine/train/trainer_context.h"
#include "engine/train/training_state.h"
#include "engine/train/trial.h"

namespace dtrain {

/// Writes all that a trial is, at a batch boundary, to the directory `path`:
/// models, optimizers, schedules, gradients that wait for a step, random
/// states, the trial's own state and the trainer's. Throws Error(kFailed) or
/// Error(kDiskFull) if it cannot be written; nothing is left then.
WrittenCheckpoint SaveCheckpoint(const std::string& path,
                                 const TrainerContext& context, Trial& trial,
                                 const TrainingState& state, double epoch);

/// Verifies the checkpoint at `path` and makes the trial what it was. Throws
/// Error(kDamaged) that names the file if it is damaged, Error(kFailed) that
/// names the tensor if it is another trial's.
TrainingState LoadCheckpoint(const std::string& path, TrainerContext& context,
                             Trial& trial);

/// The same for a training that begins anew from it: counters, schedules and
/// learning rates stay as the trial made them.
void WarmStart(const std::string& path, TrainerContext& context, Trial& trial);

}  // namespace dtrain
