#pragma once

#include <filesystem>
#include <string>

#include <nlohmann/json.hpp>

#include "engine/checkpoint/checkpoint_files.h"
#include "engine/os/unique_fd.h"
#include "engine/train/training_state.h"
#include "engine/wire/trial_spec.h"

namespace dtrain {

/// dtrain's own state of a program.
struct ProgramState {
  TrainingState trainer;
  double epoch = 0;
  double count = 0;  // in the unit of the search's lengths
};

/// Copies the file or directory `source`, which a program saved, into the
/// checkpoint `path`, with `state`. Throws Error(kFailed) or Error(kDiskFull)
/// and then leaves nothing.
WrittenCheckpoint SaveProgramCheckpoint(const std::string& path,
                                        const std::filesystem::path& source,
                                        const ProgramState& state,
                                        const TrialSpec& spec);

/// Verifies the checkpoint at `path` and returns the state. Throws
/// Error(kDamaged), or Error(kFailed) if it is not a program's checkpoint.
ProgramState LoadProgramCheckpoint(const std::string& path);

}  // namespace dtrain
