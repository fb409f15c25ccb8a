#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/clock.h"
#include "engine/os/process.h"
#include "engine/os/unique_fd.h"
#include "engine/store/rows.h"

namespace dtrain {

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
  int fd() const { return file_.get(); }

 private:
  explicit TrialsLock(UniqueFd file) : file_(std::move(file)) {}

  UniqueFd file_;
};

}  // namespace dtrain
