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

/// The directory through which all runners of this user on this machine share
/// slots: $DTRAIN_RUNTIME_DIR, or dtrain-UID in it if other users have access
/// to it; by default one in /var/tmp, which neither a logout nor a reboot
/// clears, or, if another user has taken its name, in $XDG_RUNTIME_DIR.
/// Contains a file for each slot, locked by its holder, and one for each
/// waiting runner.
class SlotDirectory {
 public:
  static std::filesystem::path Path();

  /// Creates it if it is missing. Throws Error(kResources) if it is not a
  /// directory of this user alone.
  static SlotDirectory Open();
  /// Returns nothing if it is missing; otherwise as `Open`.
  static std::optional<SlotDirectory> OpenExisting();

  /// Opens a file in it for reading and writing; creates it if missing.
  /// Throws Error(kResources).
  UniqueFd OpenFile(const std::string& name) const;
  /// Opens a file for reading; holds none if it is missing.
  UniqueFd OpenToRead(const std::string& name) const;
  void Remove(const std::string& name) const;
  /// Returns the names that begin with `prefix`, ascending.
  std::vector<std::string> List(const std::string& prefix) const;

 private:
  explicit SlotDirectory(UniqueFd directory)
      : directory_(std::move(directory)) {}

  UniqueFd directory_;
};

/// Returns the names in the open directory that begin with `prefix`, ascending.
std::vector<std::string> ListNames(int directory, const std::string& prefix);

/// Replaces the contents of `file`. A full disk leaves it empty: the contents
/// only explain to users who waits for whom.
void WriteContent(int file, const std::string& text);
std::string ReadContent(int file);

/// Shares per GPU.
inline constexpr int kQuarters = 4;

/// Name of a GPU's file in the slot directory. A trial with the whole GPU holds
/// an exclusive lock, as versions without shares do; a trial with a share holds
/// a shared lock, which keeps those versions away.
inline std::string GpuFile(std::int64_t index) {
  return "gpu-" + std::to_string(index);
}

/// Name of the file of one of its quarters, 0 to 3, which one trial holds.
inline std::string QuarterFile(std::int64_t index, int quarter) {
  return GpuFile(index) + "." + std::to_string(quarter);
}

/// Name of a CPU's file.
inline constexpr std::string_view kCpuFiles = "cpu-";
inline std::string CpuFile(std::int64_t index) {
  return std::string(kCpuFiles) + std::to_string(index);
}

/// The slot files that a runner has opened to try their locks. Files that it
/// could not lock, or unlocked again, stay open: closing one would wake all
/// waiting runners. REQUIRES: the queue is locked. One thread.
class SlotFiles {
 public:
  explicit SlotFiles(const SlotDirectory& directory) : directory_(directory) {}

  /// Locks the file `name` without waiting; false if another runner holds it.
  /// Throws Error(kResources) if it cannot be opened.
  [[nodiscard]] bool TryLock(const std::string& name,
                             FileLock::Mode mode = FileLock::Mode::kExclusive);
  void Unlock(const std::string& name);
  /// Returns the locked file. REQUIRES: TryLock(name) was true.
  UniqueFd Release(const std::string& name);

 private:
  const SlotDirectory& directory_;
  std::map<std::string, FileLock> files_;
};

/// This runner's position in the queue for slots. A runner takes slots only
/// under the lock of the file `queue`, and only if no runner that waits longer
/// wants one of them. A waiting runner holds a lock on its ticket, so the
/// ticket of a dead one is recognized; a runner without a sign of life for a
/// while (it is stopped) is skipped.
class SlotQueue {
 public:
  SlotQueue(const SlotDirectory& directory, Clock clock)
      : directory_(directory), clock_(std::move(clock)) {}
  ~SlotQueue() { Leave(); }
  SlotQueue(const SlotQueue&) = delete;
  SlotQueue& operator=(const SlotQueue&) = delete;

  /// Takes the queue's lock for as long as the result lives; none if another
  /// runner holds it, which it does only briefly.
  std::optional<FileLock> Lock() const;

  /// True if no runner that waits longer wants one of `slots`. REQUIRES:
  /// locked.
  bool IsMyTurn(const std::vector<std::string>& slots) const;
  /// Takes a ticket for `slots`, or renews its sign of life. `waiter` is a line
  /// that describes the waiting trials. REQUIRES: locked.
  void Wait(const std::vector<std::string>& slots, const std::string& waiter);
  /// Returns the ticket, if there is one.
  void Leave();

  bool waiting() const { return static_cast<bool>(ticket_); }
  /// Returns the lines of each ticket with a living holder: slots and waiter.
  /// REQUIRES: locked.
  std::vector<std::vector<std::string>> Tickets() const;

 private:
  const SlotDirectory& directory_;
  Clock clock_;
  std::string name_;     // of the ticket
  std::string content_;  // of the ticket
  FileLock ticket_;
};

}  // namespace dtrain
