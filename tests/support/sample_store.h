#pragma once

#include <filesystem>

namespace dtrain {

/// Fills the store at `root` with what commands that only read are tried on:
/// experiment 1, COMPLETED, two trials with metrics, logs and checkpoints, the
/// better one 1.2 and profiled; experiment 2, RUNNING without a runner, its
/// name full of what a terminal would obey; experiment 3, ERROR.
void FillSampleStore(const std::filesystem::path& root);

}  // namespace dtrain
