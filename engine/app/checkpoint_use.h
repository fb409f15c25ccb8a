#pragma once

#include <filesystem>
#include <string>

#include "engine/app/notices.h"
#include "engine/run/evaluation.h"
#include "engine/store/store.h"

namespace dtrain {

/// Options of commands that apply a checkpoint's model to data.
struct CheckpointUseOptions {
  std::string source;
  bool latest = false;
  std::string split = "validation";
  std::string data;
  std::string slots;
  std::string images;  // a file, as TrialSpec has it; no option
};

/// Result of applying a checkpoint's model.
struct CheckpointUse {
  CheckpointRow checkpoint;
  Unit counted = Unit::kBatches;  // what its `batches` count
  Evaluation evaluation;
};

/// Runs `task` with the checkpoint that `options` name, in a temporary process.
/// Trial and hyperparameters are those of the checkpoint. The trial writes to
/// `directory`. Shows progress on a terminal, and the trial's log. Throws Error
/// as the commands do.
CheckpointUse RunCheckpointUse(const CheckpointUseOptions& options, Task task,
                               std::int64_t limit,
                               const std::filesystem::path& directory,
                               const GlobalOptions& globals);

}  // namespace dtrain
