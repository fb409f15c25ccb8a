#pragma once

#include <string>
#include <vector>

#include "engine/train/train_trial.h"

namespace dtrain {

/// The names of the trials in a library of a user's models. Throws
/// Error(kFailed) for a file that cannot be opened, is no such library, or was
/// compiled for another dtrain.
std::vector<std::string> TrialsOfLibrary(const std::string& library);

/// What makes `entrypoint`, "model_def:MyTrial", from `library`, which stays
/// open as long as this process lives. Throws Error(kFailed) likewise, and if
/// the trial is not in it.
MakeTrial MakerFromLibrary(const std::string& library,
                           const std::string& entrypoint);

}  // namespace dtrain
