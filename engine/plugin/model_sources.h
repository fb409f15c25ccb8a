#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <vector>

namespace dtrain {

/// The source files of a user's model, in order of their names.
struct ModelSources {
  std::filesystem::path directory;
  // Relative to it: what is compiled, and what that may include.
  std::vector<std::filesystem::path> sources;
  std::vector<std::filesystem::path> headers;
  std::set<std::filesystem::path> real_paths;  // of both, links resolved
};

/// Whether trials of `entrypoint` ("model_def:MyTrial") come from a file of
/// `directory`: model_def.cpp is there.
bool HasOwnModel(const std::string& entrypoint,
                 const std::filesystem::path& directory);

/// model_def.cpp and the other *.cpp, *.cc and *.cxx files beside it, but for
/// tests (*_test.*); headers (*.h, *.hpp, …) of the whole tree below; all of it
/// as far as ListContext has it. Throws Error(kUsage) as that does.
ModelSources FindModelSources(const std::filesystem::path& directory);

/// SHA-256, in hex, over names and contents of all files. Throws Error(kUsage)
/// for one that cannot be read.
std::string ContentHash(const ModelSources& sources);

}  // namespace dtrain
