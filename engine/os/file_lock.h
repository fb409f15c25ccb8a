#pragma once

#include <filesystem>
#include <utility>

#include <sys/types.h>

#include "engine/os/unique_fd.h"

namespace dtrain {

/// An open file that is locked as a whole, in one of the two ways that Linux
/// has for locks that belong to the open file:
///  - flock(2): exclusive or shared, and works on a file opened for reading.
///    Finding out whether it is held means taking it for a moment.
///  - a record lock (F_OFD_SETLK of fcntl(2)): exclusive, and can be probed
///    without taking it. Taking it requires a file opened for writing.
/// The kernel releases either when the last descriptor of the open file is
/// closed, so when its holder dies; processes that inherit the descriptor share
/// the lock. The two kinds do not see each other. Movable; not thread-safe.
class FileLock {
 public:
  enum class Mode { kExclusive, kShared };

  /// Holds no file.
  FileLock() = default;
  /// Holds an open file, not locked yet.
  explicit FileLock(UniqueFd file) : file_(std::move(file)) {}

  /// Opens `path` for reading and writing and creates it if missing; a
  /// symbolic link is not followed. Holds no file, with errno set, if it cannot
  /// be opened. `mode` as for open(2).
  static FileLock Open(const std::filesystem::path& path, mode_t mode = 0600);

  /// Takes the flock without waiting. False, with errno set, if it cannot:
  /// EWOULDBLOCK means that another open file holds it.
  [[nodiscard]] bool TryLock(Mode mode = Mode::kExclusive);
  /// Waits for the flock. False, with errno set, if it cannot be taken.
  [[nodiscard]] bool Lock();
  /// Releases the flock and keeps the file open.
  void Unlock();

  /// Takes the record lock without waiting. False, with errno set, as TryLock.
  [[nodiscard]] bool TryLockRecord();
  /// True if another open file holds the record lock. Takes nothing.
  bool IsRecordLocked() const;

  int fd() const { return file_.get(); }
  explicit operator bool() const { return static_cast<bool>(file_); }
  /// Returns the open file, which keeps its lock.
  UniqueFd Release() { return std::move(file_); }

 private:
  UniqueFd file_;
};

}  // namespace dtrain
