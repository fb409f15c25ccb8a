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

/// Throws Error(kDiskFull) where `error` says so, else Error(kFailed): `path`
/// cannot be written, why, and what to do.
[[noreturn]] void FailWriting(const std::filesystem::path& path, int error);

/// A file that is being downloaded: it grows at its end, and what an earlier
/// process has left is gone on with. One thread.
class PartFile {
 public:
  /// Opens or creates it; a link is not followed. Throws as FailWriting.
  explicit PartFile(std::filesystem::path path);

  /// Gives errno, or 0: what calls it is C.
  [[nodiscard]] int Append(std::span<const std::byte> bytes);
  /// Empties it. Throws as FailWriting.
  void Clear();
  /// Its bytes are durable when this returns. Throws as FailWriting.
  void Sync();

  std::int64_t size() const { return size_; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  UniqueFd file_;
  std::int64_t size_ = 0;
};

/// The SHA-256 of the file `path` in hex, or nothing if `stop` came to say true
/// while it was read. Throws Error(kFailed) if it cannot be read.
std::optional<std::string> FileSha256(const std::filesystem::path& path,
                                      const std::function<bool()>& stop);

}  // namespace dtrain
