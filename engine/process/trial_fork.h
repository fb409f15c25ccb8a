#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/os/unique_fd.h"

namespace dtrain {

/// What a trial process is given: copies go to it, the host keeps none.
struct TrialForkRequest {
  UniqueFd control;
  UniqueFd standard_output;
  UniqueFd standard_error;
  std::vector<UniqueFd> locks;  // of its slots and others, held to its end
  UniqueFd meeting;  // what it meets its trial's other ranks by, or none
  std::vector<std::pair<std::string, std::string>> environment;
};

/// A trial process that the host forked.
struct ForkedTrial {
  std::int64_t pid = 0;
  UniqueFd pidfd;
};

/// Forks a trial as a child of this process's parent, which so reaps it. In it
/// `run_trial` is called with the control socket, and gives the exit code.
/// REQUIRES: this process has one thread. Throws Error(kFailed).
ForkedTrial ForkTrial(TrialForkRequest request, int (*run_trial)(int));

}  // namespace dtrain
