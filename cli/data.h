#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/commands.h"

namespace dtrain {

/// The data directories: `to`, or where trials look if it is empty. Throws
/// Error(kUsage) where there are none.
std::vector<std::filesystem::path> DataPlaces(const std::string& to);

}  // namespace dtrain
