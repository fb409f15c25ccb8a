// What Experiment tells its reporter.

#include <algorithm>

#include "engine/run/experiment.h"

namespace dtrain {
namespace {

double SecondsBetween(Duration from, Duration to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

double Experiment::TotalProgress() const {
  double progress = search_.progress();
  // With one trial the searcher knows nothing until all is done; its batches
  // tell more.
  if (trials_.size() == 1 && setup_.config.searcher.name == "single") {
    const TrialState& trial = *trials_.begin()->second;
    const Progress& at = trial.progress;
    if (at.total > 0) {
      progress = std::max(progress, static_cast<double>(trial.row.batches) /
                                        static_cast<double>(at.total));
    }
  }
  return std::max(progress_, std::min(progress, 1.0));
}

RunStatus Experiment::Status() const {
  const Duration now = Now();
  RunStatus status;
  status.progress = TotalProgress();
  status.trials = static_cast<std::int64_t>(trials_.size());
  status.waiting = static_cast<std::int64_t>(ready_.size());
  status.slots = setup_.slots;
  status.best = best_;
  status.best_trial = best_trial_;
  status.seconds = SecondsBetween(start_, now);
  for (const auto& [number, trial] : trials_) {
    status.trials_ended += trial->ended ? 1 : 0;
    if (number == best_trial_) {
      status.best_hparams = trial->row.hparams;
      for (const CheckpointRow& row : trial->checkpoints) {
        if (row.batches == best_->batches) status.best->checkpoint = row.uuid;
      }
    }
    if (trial->process == ProcessState::kNone) continue;
    if (trial->process == ProcessState::kQueued) {
      ++status.waiting;
      continue;
    }
    ++status.slots_in_use;
    status.running.push_back(
        {.id = trial->row.id,
         .hparams = trial->row.hparams,
         .batches = std::max(trial->row.batches, trial->progress.batches),
         .total_batches = trial->progress.total,
         .batches_per_epoch = trial->progress.batches_per_epoch,
         .rung = trial->row.rung,
         .training = trial->training,
         .validation = trial->validation,
         .seconds = SecondsBetween(trial->started, now)});
  }
  return status;
}

}  // namespace dtrain
