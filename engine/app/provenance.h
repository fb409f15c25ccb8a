#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/slots/slots.h"

namespace dtrain {

/// Returns the recorded origin of an experiment: the command line, working
/// directory, git commit, host, user, kernel, CPUs, GPUs and library versions.
nlohmann::json Provenance(const std::vector<std::string>& argv,
                          const std::filesystem::path& config_directory,
                          const std::vector<Gpu>& gpus);

/// Returns names and versions of dtrain, first, and of the libraries it was
/// built with; for SQLite, of the library loaded at run time.
std::vector<std::pair<std::string, std::string>> LibraryVersions();

}  // namespace dtrain
