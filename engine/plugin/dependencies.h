#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <vector>

namespace dtrain {

/// The files that a compiler's rule for make ("x.o: a.cpp b.h \") depends on.
std::vector<std::filesystem::path> ParseDependencies(const std::string& rule);

/// The first file of the rule in `rule_file` that is not one of `real_paths`,
/// links resolved, and is not `allowed`; empty if there is none.
std::filesystem::path FirstOutside(
    const std::filesystem::path& rule_file,
    const std::set<std::filesystem::path>& real_paths,
    const std::filesystem::path& allowed);

}  // namespace dtrain
