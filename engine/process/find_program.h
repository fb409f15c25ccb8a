#pragma once

#include <filesystem>
#include <string>

namespace dtrain {

/// The file that a shell in `directory` would execute for `word`: one with a
/// slash is a path, from `directory` if it is relative; any other is looked up
/// in the directories of `path`, which has colons between them. Throws
/// Error(kFailed), which begins with "there is no" or with the file.
std::filesystem::path FindProgram(const std::string& word,
                                  const std::filesystem::path& directory,
                                  const std::string& path);

}  // namespace dtrain
