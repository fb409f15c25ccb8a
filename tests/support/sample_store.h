#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "engine/store/layout.h"

namespace dtrain {

/// Fills the store at `root` for tests of commands that only read:
/// experiment 1, COMPLETED, has two trials with metrics, logs and checkpoints;
/// 1.2 is the better one and is profiled. Experiment 2, RUNNING without a
/// runner, has a name full of terminal control sequences. Experiment 3 is
/// ERROR.
void FillSampleStore(const std::filesystem::path& root);

/// Adds experiment 4: COMPLETED, maximizes `accuracy`, with three trials that
/// each validated at 50 and at 100 batches: 4.1 0.5 and 0.25, 4.2 0.9 and 0.75,
/// 4.3 0.1 and 0.6. Their `speed` is 1000 times the trial's number plus the
/// batches. Its checkpoint policy keeps the best one of all.
void AddAccuracySearch(const std::filesystem::path& root);

/// Adds a COMPLETED checkpoint with its files to the store at `layout` and
/// returns its UUID, which begins with `digit`. `model` and `state` are the
/// content of model.safetensors and state.json.
std::string AddCheckpoint(const StoreLayout& layout, TrialId trial,
                          std::int64_t batches, char digit,
                          const std::string& model = std::string(1000, 'm'),
                          const std::string& state = "{}");

}  // namespace dtrain
