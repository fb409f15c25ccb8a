// What Experiment tells its reporter.

#include <algorithm>

#include "engine/run/experiment.h"

namespace dtrain {
namespace {

double SecondsBetween(Duration from, Duration to) {
  return std::chrono::duration<double>(to - from).count();
}

TrialStatus StatusOf(const TrialState& trial, Duration now) {
  const ProcessState& process = *trial.process;
  return {.id = trial.row.id,
          .hparams = trial.row.hparams,
          .batches = std::max(trial.row.batches, process.progress.batches),
          .total_batches = process.progress.total,
          .batches_per_epoch = process.progress.batches_per_epoch,
          .rung = trial.row.rung,
          .training = process.training,
          .validation = process.validation,
          .seconds = SecondsBetween(process.started, now)};
}

}  // namespace

double Experiment::TotalProgress() const {
  double progress = state_.search.progress();
  // With one trial the searcher knows nothing until all is done; its batches
  // tell more.
  const auto& live = state_.trials.live();
  if (state_.searcher().name == "single" && !live.empty()) {
    const TrialState& trial = *live.begin()->second;
    const Progress& at = trial.process->progress;
    if (at.total > 0) {
      progress = std::max(progress, static_cast<double>(trial.row.batches) /
                                        static_cast<double>(at.total));
    }
  }
  return std::max(progress_, std::min(progress, 1.0));
}

RunStatus Experiment::Status() const {
  const Duration now = state_.Now();
  RunStatus status;
  status.progress = TotalProgress();
  status.trials = state_.trials.created();
  status.trials_ended = state_.trials.ended();
  status.waiting = static_cast<std::int64_t>(state_.queue.size());
  status.slots = state_.setup.slots;
  status.best = state_.best.validation();
  status.best_trial = state_.best.trial();
  status.best_hparams = state_.best.hparams();
  status.seconds = SecondsBetween(start_, now);
  status.rungs = state_.rungs.Status(state_.trials.live());
  for (const auto& [number, trial] : state_.trials.live()) {
    if (trial->process->running) {
      status.running.push_back(StatusOf(*trial, now));
    } else {
      ++status.waiting;
    }
  }
  status.slots_in_use = static_cast<std::int64_t>(status.running.size()) *
                        state_.setup.slots_per_trial;
  return status;
}

}  // namespace dtrain
