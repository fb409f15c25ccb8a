// What Experiment tells its reporter.

#include <algorithm>

#include "engine/run/experiment.h"
#include "searchers/rehearsal_searcher.h"

namespace dtrain {
namespace {

// Progress of a search that has not ended is below 1.
constexpr double kMaxUnfinished = 0.999;

double SecondsBetween(Duration from, Duration to) {
  return std::chrono::duration<double>(to - from).count();
}

TrialStatus StatusOf(const TrialState& trial, Duration now) {
  const ProcessState& process = *trial.process;
  return {.id = trial.row.id,
          .hparams = trial.row.hparams,
          .batches = std::max(trial.position, process.progress.batches),
          .total_batches = process.progress.total,
          .batches_per_epoch = process.progress.batches_per_epoch,
          .rung = trial.row.rung,
          .training = process.training,
          .validation = process.validation,
          .seconds = SecondsBetween(process.started, now)};
}

}  // namespace

// Trained over planned length. An ended trial was planned for what it trained;
// those to come, for all of it. A search by halving is planned as if every
// result came at once. A search that failed stays where it was.
double Experiment::TotalProgress() const {
  if (state_.shutdown) {
    return EndState() == State::kCompleted ? 1 : progress_;
  }
  const double searched = state_.search.progress();
  const auto length = static_cast<double>(state_.searcher().max_length);
  if (length <= 0 || state_.searcher().name == kRehearsal) {
    return std::max(progress_, std::min(searched, kMaxUnfinished));
  }
  const TrialTable& trials = state_.trials;
  double planned = 0;
  if (plan_.brackets.empty()) {
    const auto count = static_cast<double>(plan_.rows.front().trials);
    planned = trials.ended_length() + count * (1 - searched) * length;
  } else {
    double wanted = trials.trained_length();
    for (const auto& [number, trial] : trials.live()) {
      if (!trial->has_work()) continue;
      wanted += static_cast<double>(trial->operations.front()) - trial->reached;
    }
    planned = std::max(static_cast<double>(plan_.total_length), wanted);
  }
  const double share =
      planned > 0 ? trials.trained_length() / planned : searched;
  return std::max(progress_, std::min(share, kMaxUnfinished));
}

RunStatus Experiment::Status() const {
  const Duration now = state_.Now();
  RunStatus status;
  status.progress = TotalProgress();
  status.trials = state_.trials.created();
  status.trials_ended = state_.trials.ended();
  status.waiting = static_cast<std::int64_t>(state_.queue.size());
  status.slots = state_.setup.slots;
  status.slot_wait = state_.doors.launcher.LongWait();
  status.best = state_.best.validation();
  status.best_trial = state_.best.trial();
  status.best_hparams = state_.best.hparams();
  status.seconds = earlier_seconds_ + SecondsBetween(start_, now);
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
