#pragma once

#include <filesystem>

namespace dtrain {

/// Fills the store at `root` with what commands that only read are tried on:
/// experiment 1, COMPLETED, two trials with metrics, logs and checkpoints, the
/// better one 1.2 and profiled; experiment 2, RUNNING without a runner, its
/// name full of what a terminal would obey; experiment 3, ERROR.
void FillSampleStore(const std::filesystem::path& root);

/// Adds experiment 4 to that: COMPLETED, `greatest accuracy`, three trials that
/// have each validated at 50 and at 100 batches: 4.1 0.5 and 0.25, 4.2 0.9 and
/// 0.75, 4.3 0.1 and 0.6; their `speed` is 1000 times the trial's number plus
/// the batches. Of its checkpoints it keeps the best one of all.
void AddAccuracySearch(const std::filesystem::path& root);

}  // namespace dtrain
