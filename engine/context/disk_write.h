#pragma once

#include <filesystem>
#include <span>

namespace dtrain {

/// Throws Error(kDiskFull) or Error(kStore) that names `path`, what `error`
/// says, and what to do.
[[noreturn]] void CannotWrite(const std::filesystem::path& path, int error);

/// Writes all of `bytes` to `fd`, which is `path`. Throws as CannotWrite.
void WriteBytes(int fd, std::span<const std::byte> bytes,
                const std::filesystem::path& path);

/// Has on the disk what `fd` has, which is `path`. Throws as CannotWrite.
void SyncFile(int fd, const std::filesystem::path& path);

/// The names that are in the directory. Throws as CannotWrite.
void SyncDirectory(const std::filesystem::path& path);

}  // namespace dtrain
