#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace dtrain {

/// Creates the directory and its missing parents, each for this
/// user alone (0700), whatever the umask. Throws Error(kStore).
void MakePrivateDirectories(const std::filesystem::path& directory);

/// Does as MakePrivateDirectories, and syncs the names of the directories that
/// it creates, so that they survive a power cut: for those between a store and
/// its checkpoints. Throws Error(kStore).
void MakeDurableDirectories(const std::filesystem::path& directory);

/// Creates an empty file for this user alone (0600) unless there is one.
/// Throws Error(kStore), for a symbolic link in its place too.
void MakePrivateFile(const std::filesystem::path& file);

/// Suffix of the name of a directory that is being deleted.
inline constexpr std::string_view kTrashSuffix = ".trash";

/// Returns the sorted names in `directory`; none if it is not a directory or is
/// a link to one.
std::vector<std::string> NamesIn(const std::filesystem::path& directory);

/// Returns the trash directories in `directory`, left by interrupted deletions.
std::vector<std::filesystem::path> TrashIn(
    const std::filesystem::path& directory);

/// Returns the bytes of the file `path`, or of all files below it; links are
/// not followed, and files that cannot be examined count as empty.
std::int64_t TreeBytes(const std::filesystem::path& path);

/// Returns the bytes that deleting `path` with all below it frees: as
/// TreeBytes, without files that have hard links elsewhere, such as a
/// checkpoint that a continued experiment shares.
std::int64_t FreeableBytes(const std::filesystem::path& path);

/// Deletes `path` with all below it and returns the bytes that this freed, as
/// FreeableBytes. Renames it to a
/// trash name beside it first, so that no reader sees a part of it, and what a
/// crash leaves behind can be recognised. Links are removed, never followed.
/// Also deletes what an earlier, interrupted call left; does nothing if there
/// is nothing. Throws Error(kFailed) naming a file that could not be deleted.
std::int64_t RemoveTree(const std::filesystem::path& path);

}  // namespace dtrain
