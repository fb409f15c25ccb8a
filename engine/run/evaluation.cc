// An evaluation is one process without an experiment around it: no searcher, no
// restarts and nothing recorded. Run therefore waits for the launcher's events
// by itself and acknowledges a report at once, since there is no record to wait
// for. The last message of the process says how it ended; only a process
// without one is judged by its exit.

#include "engine/run/evaluation.h"

#include <chrono>
#include <optional>
#include <utility>

#include "engine/base/error.h"

namespace dtrain {
namespace {

constexpr Duration kWait = std::chrono::seconds(1);

// Runs one process.
class Run {
 public:
  Run(Launcher& launcher, const TrialSpec& spec,
      const std::function<void(const Progress&)>& on_progress)
      : launcher_(launcher), trial_(spec.id), on_progress_(on_progress) {
    launcher_.Start(spec);
  }

  Evaluation Finish() {
    while (!over_) {
      std::visit([this](const auto& event) { On(event); },
                 launcher_.Wait(kWait));
    }
    if (result_.signal == 0 && !failure_.empty()) {
      throw Error(failure_kind_, failure_);
    }
    return std::move(result_);
  }

 private:
  void On(const TrialStarted&) {}
  void On(const MessageReceived& said) {
    std::visit([this](const auto& message) { HandleMessage(message); },
               said.message);
  }
  void On(const Interrupted& interrupted) {
    result_.signal = interrupted.signal;
    launcher_.Kill(trial_);
  }
  void On(const SystemSampled&) {}
  void On(const GpuRestored&) {}
  void On(const WorkersFailed&) {}
  void On(const Idle&) {}
  void On(const TrialExited& exited) {
    over_ = true;
    result_.seconds = exited.seconds;
    result_.last_lines = exited.last_lines;
    if (!exited.not_started.empty()) {
      throw Error(ErrorKind::kResources, exited.not_started);
    }
    if (finished_ || !failure_.empty()) return;
    failure_ = exited.signal != 0
                   ? "it was killed by signal " + std::to_string(exited.signal)
                   : "it exited with code " + std::to_string(exited.exit_code);
    if (exited.out_of_memory) failure_ += ", out of memory";
    if (!exited.last_lines.empty()) failure_ += ": " + exited.last_lines.back();
  }

  void HandleMessage(const Progress& progress) { on_progress_(progress); }
  void HandleMessage(const ValidationReport& report) {
    result_.metrics = report.metrics;
    launcher_.Send(trial_, Acknowledge{report.seq});
  }
  void HandleMessage(const Finished& finished) {
    finished_ = finished.reason == EndReason::kCompleted;
    if (finished_) return;
    failure_ = finished.message;
    if (finished.reason == EndReason::kNotFound) {
      failure_kind_ = ErrorKind::kNotFound;
    }
  }
  // Only training trials send other messages.
  template <typename Other>
  void HandleMessage(const Other&) {}

  Launcher& launcher_;
  const TrialId trial_;
  const std::function<void(const Progress&)>& on_progress_;
  Evaluation result_;
  std::string failure_;
  ErrorKind failure_kind_ = ErrorKind::kFailed;
  bool finished_ = false;
  bool over_ = false;
};

}  // namespace

Evaluation RunEvaluation(
    Launcher& launcher, const TrialSpec& spec,
    const std::function<void(const Progress&)>& on_progress) {
  return Run(launcher, spec, on_progress).Finish();
}

}  // namespace dtrain
