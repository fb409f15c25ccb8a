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

/// Version of dtrain and, if the linker has noted one, the ID of this build:
/// "0.1.0, build 1a2b3c4d5e6f". Processes of one experiment must agree in it.
std::string BuildVersion();

}  // namespace dtrain
