#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/slots/slots.h"

namespace dtrain {

/// Where an experiment comes from, as it is recorded with it: the words of the
/// command, working directory, commit and dirty flag of the repository that
/// `config_directory` is in (dirty: tracked files differ), host, user, kernel,
/// CPUs, `gpus` with their driver, and the versions of dtrain and its
/// libraries. Never an environment variable's value. What cannot be found out
/// is null.
nlohmann::json Provenance(const std::vector<std::string>& argv,
                          const std::filesystem::path& config_directory,
                          const std::vector<Gpu>& gpus);

/// dtrain first, then the libraries it was built with, by name and version;
/// SQLite's is the one that is loaded.
std::vector<std::pair<std::string, std::string>> LibraryVersions();

}  // namespace dtrain
