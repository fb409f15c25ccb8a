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

/// Who holds a runner lock, for messages.
struct RunnerIdentity {
  std::int64_t pid = 0;
  std::string host;
};

/// Held by the one process that runs an experiment: an OFD lock on a file of
/// the experiment, which the kernel frees when the process dies. The file's
/// content names the holder. Probing never disturbs a runner that starts.
class RunnerLock {
 public:
  /// Takes the lock. Throws Error(kStore) naming the holder if it is held; one
  /// that was killed and is about to go is waited for, 2 s at most.
  static RunnerLock Take(const std::filesystem::path& path);

  /// The holder, or none if nobody holds it (or there is no such file).
  static std::optional<RunnerIdentity> Holder(
      const std::filesystem::path& path);

 private:
  explicit RunnerLock(FileLock file) : file_(std::move(file)) {}

  FileLock file_;
};

/// The process of `trial` if it lives: by all that names one, since a pid alone
/// may be another's by now.
std::optional<Process> LivingProcess(const TrialRow& trial,
                                     const std::string& boot_id);

/// Held by an experiment's runner and, since they inherit it, by all processes
/// of its trials: whoever takes it knows that none of an earlier run lives. A
/// flock on a file of the experiment.
class TrialsLock {
 public:
  /// Waits for what is left of an earlier run, which has a moment to save what
  /// it has. What stays after `patience` and is one of `trials`, as recorded,
  /// is killed. Throws Error(kStore), naming processes, if some live even then.
  static TrialsLock Take(const std::filesystem::path& path,
                         const std::vector<TrialRow>& trials,
                         const std::string& boot_id, Duration patience);

  /// To be inherited by the trials.
  int fd() const { return file_.fd(); }

 private:
  explicit TrialsLock(FileLock file) : file_(std::move(file)) {}

  FileLock file_;
};

}  // namespace dtrain
