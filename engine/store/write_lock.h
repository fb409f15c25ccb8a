#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "engine/os/file_lock.h"

namespace dtrain {

/// The right to write to a store: an exclusive flock on a file beside the
/// database, never on the database itself, whose locks are SQLite's. The
/// kernel frees it when its holder dies. One thread.
class WriteLock {
 public:
  /// Throws Error(kStore) if the file can neither be opened nor created.
  explicit WriteLock(std::filesystem::path path);

  /// Takes the lock if it is free. Never waits.
  [[nodiscard]] bool TryAcquire();
  /// Takes the lock, trying again every millisecond for up to 30 s; then
  /// throws Error(kStore) that names the holder.
  void Acquire();
  void Release();

  /// Process that holds the lock now: "pid 123 on host". Where the kernel
  /// lists none (another machine or container holds it, or no process any more)
  /// says so, and which process was the last to write.
  std::string Holder() const;

 private:
  std::filesystem::path path_;
  std::string note_;  // what this process writes as holder
  FileLock file_;
};

/// Process that keeps others from writing to the SQLite database at `path` by
/// SQLite's own locks: "pid 123 on host". Never this one; none where the kernel
/// lists none (another machine or container may hold them).
std::optional<std::string> DatabaseHolder(const std::filesystem::path& path);

}  // namespace dtrain
