#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/clock.h"
#include "engine/os/file_lock.h"
#include "engine/os/unique_fd.h"

namespace dtrain {

/// The directory in which all runners of this user on this machine agree on
/// slots: $DTRAIN_RUNTIME_DIR, or dtrain-UID in it if others may use it too;
/// else one in /var/tmp, which neither a logout nor a reboot clears, or, where
/// another user has taken its name, in $XDG_RUNTIME_DIR. Holds a file for each
/// slot, locked by who uses it, and one for each runner that waits.
class SlotDirectory {
 public:
  static std::filesystem::path Path();

  /// Makes it where it is missing. Throws Error(kResources) if it is not a
  /// directory that belongs to this user alone.
  static SlotDirectory Open();
  /// None where there is none; otherwise as `Open`.
  static std::optional<SlotDirectory> OpenExisting();

  /// Opens a file in it for reading and writing, and makes it if need be.
  /// Throws Error(kResources).
  UniqueFd OpenFile(const std::string& name) const;
  /// Opens a file that must be there for reading; holds none if it is not.
  UniqueFd OpenToRead(const std::string& name) const;
  void Remove(const std::string& name) const;
  /// The names that begin with `prefix`, ascending.
  std::vector<std::string> List(const std::string& prefix) const;

 private:
  explicit SlotDirectory(UniqueFd directory)
      : directory_(std::move(directory)) {}

  UniqueFd directory_;
};

/// Replaces what is in `file`. A full disk leaves it empty: what is in these
/// files only helps people to understand who waits for whom.
void WriteContent(int file, const std::string& text);
std::string ReadContent(int file);

/// In so many parts a GPU can be shared out.
inline constexpr int kQuarters = 4;

/// The file of a GPU in the slot directory. Who has the GPU for itself locks it
/// for itself, as versions did that knew no shares; who has a share locks it
/// together with others, so that those versions keep away.
inline std::string GpuFile(std::int64_t index) {
  return "gpu-" + std::to_string(index);
}

/// The file of a quarter of it, from 0 on, which only one trial has.
inline std::string QuarterFile(std::int64_t index, int quarter) {
  return GpuFile(index) + "." + std::to_string(quarter);
}

/// The file of a CPU.
inline std::string CpuFile(std::int64_t index) {
  return "cpu-" + std::to_string(index);
}

/// The slot files that a runner has opened to see whether it can lock them.
/// Those of others, and those that were its own in vain, stay open: closing
/// one would wake everyone who waits. REQUIRES: the queue is locked. One
/// thread.
class SlotFiles {
 public:
  explicit SlotFiles(const SlotDirectory& directory) : directory_(directory) {}

  /// Locks the file `name` if that is possible; never waits. Throws
  /// Error(kResources) if it cannot be opened.
  [[nodiscard]] bool TryLock(const std::string& name,
                             FileLock::Mode mode = FileLock::Mode::kExclusive);
  void Unlock(const std::string& name);
  /// Gives the lock away. REQUIRES: TryLock(name) was true.
  UniqueFd Take(const std::string& name);

 private:
  const SlotDirectory& directory_;
  std::map<std::string, FileLock> files_;
};

/// This runner's place among those that wait for slots. Slots are taken only
/// under the `queue` file's lock, and by nobody who competes with one that has
/// waited longer. A waiter holds a lock on its ticket, so that a dead one
/// vanishes; one that has shown no life for a while (it is stopped) is passed
/// over.
class SlotQueue {
 public:
  SlotQueue(const SlotDirectory& directory, Clock clock)
      : directory_(directory), clock_(std::move(clock)) {}
  ~SlotQueue() { Leave(); }
  SlotQueue(const SlotQueue&) = delete;
  SlotQueue& operator=(const SlotQueue&) = delete;

  /// Holds the queue's lock as long as the result lives; none if another has
  /// it, which is never for long.
  std::optional<FileLock> Lock() const;

  /// Whether nobody who waits longer wants one of `slots`. REQUIRES: locked.
  bool IsMyTurn(const std::vector<std::string>& slots) const;
  /// Takes a ticket for `slots`, or shows that its holder still lives.
  /// `waiter` is a line that says for whom. REQUIRES: locked.
  void Wait(const std::vector<std::string>& slots, const std::string& waiter);
  /// Gives the ticket back. Does nothing where there is none.
  void Leave();

  bool waiting() const { return static_cast<bool>(ticket_); }
  /// The lines of every ticket whose holder lives: its slots and its waiter.
  /// REQUIRES: locked.
  std::vector<std::vector<std::string>> Tickets() const;

 private:
  bool Competes(const std::string& ticket,
                const std::vector<std::string>& slots) const;

  const SlotDirectory& directory_;
  Clock clock_;
  std::string name_;     // of the ticket
  std::string content_;  // of the ticket
  FileLock ticket_;
};

}  // namespace dtrain
