#pragma once

#include <filesystem>
#include <string>

#include "engine/data/data_directory.h"

namespace dtrain {

/// The address that a user means by `from`: a directory or file of this machine
/// (`~` is the home directory) or an http, https or file address, without "/"
/// at its end. Throws Error(kUsage) that begins with "--from" for anything
/// else.
std::string SourceAddress(const std::string& from,
                          const ReadVariable& variable = ProcessVariable);

/// The file: address of `path`.
std::string FileAddress(const std::filesystem::path& path);

/// `address` as it may be shown: without a name and a password in it.
std::string ShownAddress(const std::string& address);

}  // namespace dtrain
