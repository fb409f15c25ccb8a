#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "engine/os/unique_fd.h"

namespace dtrain {

/// Throws Error(kDiskFull) if `error`, an errno value, means a full disk, else
/// Error(kFailed): `path` cannot be written, why, and what to do.
[[noreturn]] void FailWriting(const std::filesystem::path& path, int error);

/// A file that is being downloaded. It grows at its end, from the size that an
/// earlier process left. One thread.
class PartFile {
 public:
  /// Opens or creates it; a link is not followed. Throws as FailWriting.
  explicit PartFile(std::filesystem::path path);

  /// Returns an errno value, or 0: callers in C take no exceptions.
  [[nodiscard]] int Append(std::span<const std::byte> bytes);
  /// Empties it. Throws as FailWriting.
  void Clear();
  /// fsync. Throws as FailWriting.
  void Sync();

  std::int64_t size() const { return size_; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  UniqueFd file_;
  std::int64_t size_ = 0;
};

/// Returns the SHA-256 of the file `path` in hex, or nothing if `stop` returned
/// true during the reading. Throws Error(kFailed) if it cannot be read.
std::optional<std::string> FileSha256(const std::filesystem::path& path,
                                      const std::function<bool()>& stop);

/// Creates the directory `path` and its parents. Throws as FailWriting.
void MakeDirectories(const std::filesystem::path& path);

/// Creates the directory `path` unless it exists. Throws as FailWriting, and
/// Error(kFailed) if a link or a file is in its place.
void MakeOwnDirectory(const std::filesystem::path& path);

/// Throws Error(kDiskFull) if fewer than `bytes` are free at `path`.
void RequireSpace(const std::filesystem::path& path, std::int64_t bytes);

/// Makes everything written to the file system of `directory` durable.
/// Throws as FailWriting.
void SyncFileSystem(const std::filesystem::path& directory);

/// Renames the directory `from` to `to`. If `to` exists, moves the files into
/// it one by one; its other files stay. The new names are durable when this
/// returns. Throws as FailWriting.
void Place(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace dtrain
