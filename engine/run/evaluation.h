#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/process/launcher.h"
#include "engine/wire/trial_spec.h"

namespace dtrain {

/// Result of an evaluation.
struct Evaluation {
  MetricValues metrics;
  double seconds = 0;                   // from the start of the process
  std::vector<std::string> last_lines;  // of its log
  int signal = 0;  // signal to this process that interrupted it, or 0
};

/// Runs the process that `spec` describes (Task::kEvaluate) and returns the
/// metrics that it reports. Calls `on_progress` from time to time. Throws
/// Error(kFailed) with the trial's message if it fails, Error(kNotFound) if its
/// data has no such split, Error(kResources) if it cannot be started.
Evaluation RunEvaluation(
    Launcher& launcher, const TrialSpec& spec,
    const std::function<void(const Progress&)>& on_progress);

}  // namespace dtrain
