#pragma once

#include <filesystem>
#include <string>

#include <nlohmann/json.hpp>

#include "engine/checkpoint/checkpoint_files.h"
#include "engine/os/unique_fd.h"
#include "engine/train/training_state.h"
#include "engine/wire/trial_spec.h"

namespace dtrain {

/// What dtrain itself remembers of a program.
struct ProgramState {
  TrainingState trainer;
  double epoch = 0;
  double count = 0;  // in the unit of the search's lengths
};

/// Copies what a program saved at `source`, a file or a directory with all that
/// is in it, into the checkpoint `path`, with `state`. Throws Error(kFailed) or
/// Error(kDiskFull) that says what is wrong; nothing is left then.
WrittenCheckpoint SaveProgramCheckpoint(const std::string& path,
                                        const std::filesystem::path& source,
                                        const ProgramState& state,
                                        const TrialSpec& spec);

/// Verifies the checkpoint at `path` and gives the state back. Throws
/// Error(kDamaged), or Error(kFailed) if it is of no program.
ProgramState LoadProgramCheckpoint(const std::string& path);

}  // namespace dtrain
