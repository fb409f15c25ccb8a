#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/process/launcher.h"
#include "engine/wire/trial_spec.h"

namespace dtrain {

/// What an evaluation measured.
struct Evaluation {
  MetricValues metrics;
  double seconds = 0;                   // from the start of the process
  std::vector<std::string> last_lines;  // of what it logged
  int signal = 0;  // that this process was sent; then it was broken off
};

/// Starts the process that `spec` describes (Task::kEvaluate) and waits for
/// what it measures. `on_progress` is called now and then. Throws
/// Error(kFailed) with what the trial said if it fails, Error(kNotFound) if its
/// data has no such split, Error(kResources) if it cannot be started.
Evaluation RunEvaluation(
    Launcher& launcher, const TrialSpec& spec,
    const std::function<void(const Progress&)>& on_progress);

}  // namespace dtrain
