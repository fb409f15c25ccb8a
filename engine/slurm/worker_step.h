#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include <sys/types.h>

#include "engine/os/spawn.h"
#include "engine/os/unique_fd.h"

namespace dtrain {

struct JobRequest;

/// The workers of an allocation that already exists, that of salloc or of a
/// batch script: one step of srun, with one worker on each node. Nothing is
/// submitted. One thread.
class WorkerStep {
 public:
  /// Executes the script of `request`, which exists, for all nodes of the
  /// allocation. Throws Error(kResources) if it cannot be started.
  explicit WorkerStep(const JobRequest& request);
  WorkerStep(const WorkerStep&) = delete;
  WorkerStep& operator=(const WorkerStep&) = delete;
  /// Waits for a while until the workers have ended, which the runner should
  /// have told to exit. Then asks them to end, and kills them.
  ~WorkerStep();

  /// Returns why the step has ended, with its last lines, if it has; once.
  std::optional<std::string> Failure();

 private:
  std::filesystem::path output_;
  pid_t pid_ = -1;  // until it is reaped
};

/// Returns the last lines of a text file, joined by "; ", for a message; empty
/// if it has none.
std::string LastLines(const std::filesystem::path& file);

}  // namespace dtrain
