#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/commands.h"

namespace dtrain {

// The commands of `dtrain data`, each in a file of its own.
void SetUpDataFetch(CLI::App& app, Invocation& invocation);
void SetUpDataList(CLI::App& app, Invocation& invocation);
void SetUpDataVerify(CLI::App& app, Invocation& invocation);

/// The data directories: `to`, or where trials look if it is empty. Throws
/// Error(kUsage) where there are none.
std::vector<std::filesystem::path> DataPlaces(const std::string& to);

}  // namespace dtrain
