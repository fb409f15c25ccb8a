#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/clock.h"
#include "engine/os/file_lock.h"
#include "engine/os/process.h"
#include "engine/store/rows.h"

namespace dtrain {

/// Holder of a runner lock, for messages.
struct RunnerIdentity {
  std::int64_t pid = 0;
  std::string host;
};

/// Lock held by the one process that runs an experiment: an OFD lock on a file
/// of the experiment, which the kernel releases when the process dies. The file
/// names the holder. Probing the lock never disturbs a runner that starts.
class RunnerLock {
 public:
  /// Takes the lock. Waits up to 2 s for a holder that was killed and is
  /// exiting. Throws Error(kStore), naming the holder, if it is held.
  static RunnerLock Acquire(const std::filesystem::path& path);

  /// Returns the holder; none if the lock is free or the file does not exist. A
  /// file that may not be read, of another user, counts as held by a process
  /// without a name: its runner may live.
  static std::optional<RunnerIdentity> Holder(
      const std::filesystem::path& path);

 private:
  explicit RunnerLock(FileLock file) : file_(std::move(file)) {}

  FileLock file_;
};

/// Returns the process of `trial` if it lives. Compares start time and boot id
/// too, since the pid may have been reused.
std::optional<Process> LivingProcess(const TrialRow& trial,
                                     const std::string& boot_id);

/// Lock held by an experiment's runner and inherited by all processes of its
/// trials: a runner that takes it knows that no process of an earlier run
/// lives. A flock on a file of the experiment.
class TrialsLock {
 public:
  /// Waits up to `patience` for processes of an earlier run, which may be
  /// saving checkpoints. Then kills those of `trials`, as recorded. Throws
  /// Error(kStore), naming processes, if some are left after that.
  static TrialsLock Acquire(const std::filesystem::path& path,
                            const std::vector<TrialRow>& trials,
                            const std::string& boot_id, Duration patience);

  /// Descriptor to be inherited by the trials.
  int fd() const { return file_.fd(); }

 private:
  explicit TrialsLock(FileLock file) : file_(std::move(file)) {}

  FileLock file_;
};

}  // namespace dtrain
