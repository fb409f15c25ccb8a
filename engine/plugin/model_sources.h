#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <vector>

namespace dtrain {

/// The source files of a user's model, in order of their names.
struct ModelSources {
  std::filesystem::path directory;
  // Relative to it: the files to compile, and those that they may include.
  std::vector<std::filesystem::path> sources;
  std::vector<std::filesystem::path> headers;
  std::set<std::filesystem::path> real_paths;  // of both, links resolved
};

/// True if `entrypoint` ("model_def:MyTrial") names a model of the user and
/// `directory` has its model_def.cpp.
bool HasOwnModel(const std::string& entrypoint,
                 const std::filesystem::path& directory);

/// Returns model_def.cpp and the other *.cpp, *.cc and *.cxx files beside it,
/// without tests (*_test.*), and the headers (*.h, *.hpp, …) of the whole tree
/// below; only files that ListContext lists. Throws Error(kUsage) as that does.
ModelSources FindModelSources(const std::filesystem::path& directory);

/// Returns the SHA-256, in hex, of the names and contents of all files. Throws
/// Error(kUsage) if one cannot be read.
std::string ContentHash(const ModelSources& sources);

}  // namespace dtrain
