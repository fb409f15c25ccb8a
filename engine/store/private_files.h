#pragma once

#include <filesystem>

namespace dtrain {

/// Creates the directory and whatever of its parents is missing, each for this
/// user alone (0700), whatever the umask. Throws Error(kStore).
void MakePrivateDirectories(const std::filesystem::path& directory);

/// The same, and the names of those that it creates survive a power cut: for
/// what lies between a store and its checkpoints. Throws Error(kStore).
void MakeDurableDirectories(const std::filesystem::path& directory);

/// Creates an empty file for this user alone (0600) unless there is one.
/// Throws Error(kStore), for a symbolic link in its place too.
void MakePrivateFile(const std::filesystem::path& file);

}  // namespace dtrain
