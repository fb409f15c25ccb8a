#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "engine/os/unique_fd.h"

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
  explicit RunnerLock(UniqueFd file) : file_(std::move(file)) {}

  UniqueFd file_;
};

}  // namespace dtrain
