#pragma once

#include "engine/base/clock.h"

namespace dtrain {

/// Time between a stop request and SIGTERM, in which a trial saves a checkpoint
/// and exits: 30 s, or the duration in the environment variable
/// DTRAIN_STOP_GRACE. Throws Error(kUsage) if that is not a duration.
Duration StopGrace();

/// Functions that a trial host calls; the launcher's tests provide their own.
struct TrialHostHooks {
  /// Runs one trial in its own process. The first line of the control socket is
  /// its TrialSpec. Returns the exit code.
  int (*run_trial)(int control_fd) = nullptr;
};

/// Variable in the environment of every trial host, and so in the initial
/// environment (in /proc) of its trials and the processes that they start.
inline constexpr const char* kExperimentVariable = "DTRAIN_EXPERIMENT_ID";
/// Likewise, with a different value for each runner.
inline constexpr const char* kTokenVariable = "DTRAIN_RUNNER_TOKEN";

/// Main function of a trial host: forks trials on request of the runner at the
/// other end of `socket` until that end is closed, and then kills the trials
/// that outlive the runner. Trials are children of the runner. Returns the exit
/// code. REQUIRES: one thread, and the libraries of the trials are loaded.
int RunTrialHost(int socket, const TrialHostHooks& hooks);

}  // namespace dtrain
