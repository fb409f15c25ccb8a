#pragma once

#include <filesystem>
#include <string>

#include "engine/app/notices.h"
#include "engine/run/evaluation.h"
#include "engine/store/store.h"

namespace dtrain {

/// What commands take that apply a checkpoint's model to data.
struct CheckpointUseOptions {
  std::string source;
  bool latest = false;
  std::string split = "validation";
  std::string data;
  std::string slots;
  std::string images;  // a file, as TrialSpec has it; no option
};

/// What came of applying a checkpoint's model.
struct CheckpointUse {
  CheckpointRow checkpoint;
  Evaluation evaluation;
};

/// Runs `task` with the checkpoint that `options` name, on a process of its
/// own that is gone afterwards. The checkpoint says its own trial and
/// hyperparameters. What the trial writes is in `directory`. Shows progress on
/// a terminal, and what the trial logged. Throws Error as the commands do.
CheckpointUse RunCheckpointUse(const CheckpointUseOptions& options, Task task,
                               std::int64_t limit,
                               const std::filesystem::path& directory,
                               const GlobalOptions& globals);

}  // namespace dtrain
