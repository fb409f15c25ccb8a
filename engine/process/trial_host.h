#pragma once

#include "engine/base/clock.h"

namespace dtrain {

/// Time for a trial that is asked to stop to save a checkpoint and to end,
/// before SIGTERM: 30 s, or the duration in the environment variable
/// DTRAIN_STOP_GRACE. Throws Error(kUsage) if that is not a duration.
Duration StopGrace();

/// What a trial host is for; the launcher's tests give their own.
struct TrialHostHooks {
  /// Runs one trial, in its own process: reads its TrialSpec as the first line
  /// of the control socket, gives the exit code.
  int (*run_trial)(int control_fd) = nullptr;
};

/// In the environment of every trial host, hence (as /proc shows it) of every
/// trial and what it starts.
inline constexpr const char* kExperimentVariable = "DTRAIN_EXPERIMENT_ID";
/// Likewise; another value for each runner.
inline constexpr const char* kTokenVariable = "DTRAIN_RUNNER_TOKEN";

/// The whole life of a trial host: forks trials on request of the runner at
/// the other end of `socket` until that end is closed, then sees to it that no
/// trial outlives the runner. The trials are children of the runner. Gives the
/// exit code. REQUIRES: one thread, and whatever trials shall share is loaded.
int RunTrialHost(int socket, const TrialHostHooks& hooks);

}  // namespace dtrain
