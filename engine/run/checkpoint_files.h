#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace dtrain {

/// Gives the UUIDs of the finished checkpoints in a trial's `directory` of
/// checkpoints, and removes what was not finished or not wholly deleted.
/// REQUIRES: the trial has no process.
std::vector<std::string> TidyCheckpoints(
    const std::filesystem::path& directory);

/// Deletes a checkpoint. What cannot go stays: it has no row, so `dtrain gc`
/// finds it.
void RemoveQuietly(const std::filesystem::path& checkpoint);

}  // namespace dtrain
