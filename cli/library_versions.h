#pragma once

#include <string>
#include <utility>
#include <vector>

namespace dtrain {

/// dtrain first, then the libraries it was built with, by name and version;
/// SQLite's is the one that is loaded.
std::vector<std::pair<std::string, std::string>> LibraryVersions();

}  // namespace dtrain
