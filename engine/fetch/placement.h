#pragma once

#include <cstdint>
#include <filesystem>

namespace dtrain {

/// Makes the directory `path` with those above it. Throws as FailWriting.
void MakeDirectories(const std::filesystem::path& path);

/// The same for one that nobody may have put a link in the place of.
void MakeOwnDirectory(const std::filesystem::path& path);

/// Throws Error(kDiskFull) where there are fewer than `bytes` free at `path`.
void RequireSpace(const std::filesystem::path& path, std::int64_t bytes);

/// Makes all that was written to the file system of `directory` durable.
/// Throws as FailWriting.
void SyncFileSystem(const std::filesystem::path& directory);

/// Gives the directory `from` the name `to`. Where that is a directory already,
/// each file takes its place in there, one by one; others stay as they are. The
/// new names are durable when this returns. Throws as FailWriting.
void Place(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace dtrain
