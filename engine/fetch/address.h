#pragma once

#include <filesystem>
#include <string>

#include "engine/os/process.h"

namespace dtrain {

/// Returns the address that a user means by `from`: a directory or file of this
/// machine (`~` is the home directory) or an http, https or file address,
/// without "/" at its end. Throws Error(kUsage) that begins with "--from" for
/// anything else. libcurl checks the address more strictly when it is used.
std::string SourceAddress(const std::string& from,
                          const ReadVariable& variable = ProcessVariable);

/// Returns the file: address of `path`.
std::string FileAddress(const std::filesystem::path& path);

/// Returns `address` without a user's name and password, for messages.
std::string ShownAddress(const std::string& address);

}  // namespace dtrain
