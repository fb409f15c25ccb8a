#include "engine/run/experiment.h"

#include <algorithm>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "searchers/registry.h"

namespace dtrain {
namespace {

using std::chrono::milliseconds;

constexpr Duration kStatusPeriod = milliseconds(100);
// The loop looks around at least this often.
constexpr Duration kLongestWait = milliseconds(200);
// How long trials may take to checkpoint when the store has failed.
constexpr Duration kLastGrace = std::chrono::seconds(5);

}  // namespace

Experiment::Experiment(ExperimentSetup setup, ExperimentDoors doors)
    : setup_(std::move(setup)),
      doors_(std::move(doors)),
      search_(MakeSearcher(setup_.config.searcher,
                           setup_.config.hyperparameters, setup_.seed),
              setup_.id) {}

RunResult Experiment::Run() {
  start_ = Now();
  Recover();
  doors_.reporter.Begin(setup_.info);
  outbox_.Add(
      [id = setup_.id, now = doors_.clock.now()](StoreWriter& writer) {
        writer.SetExperimentState(id, State::kRunning, now);
      },
      Urgency::kUrgent);
  try {
    if (search_.seq() == 0) Feed(Started{});
    Tick();
    while (!Over()) Step();
    return Finish();
  } catch (const Error&) {
    StopAfterFailure();
    throw;
  }
}

void Experiment::Step() {
  const Duration now = Now();
  Duration wait = kLongestWait;
  if (const auto due = outbox_.due(now)) wait = std::min(wait, *due - now);
  for (const auto& [number, trial] : trials_) {
    if (trial->restart_at) wait = std::min(wait, *trial->restart_at - now);
  }
  const LaunchEvent event = doors_.launcher.Wait(std::max(wait, Duration(0)));
  std::visit([this](const auto& e) { On(e); }, event);
  Tick();
}

void Experiment::Tick() {
  while (!events_.empty()) {
    const Event event = std::move(events_.front());
    events_.pop_front();
    Feed(event);
  }
  Flush();
  if (!outbox_.urgent()) Schedule();
  const Duration now = Now();
  if (now - last_status_ < kStatusPeriod) return;
  last_status_ = now;
  CheckHangs();
  CheckTimeLimit();
  doors_.reporter.OnStatus(Status());
  doors_.store.MaybeCheckpointWal();
}

void Experiment::Flush(bool all) {
  const Duration now = Now();
  if (const auto due = outbox_.due(now); due && (all || *due <= now)) {
    for (const std::int64_t number : std::exchange(changed_, {})) {
      const TrialState& trial = *trials_.at(number);
      outbox_.Add(
          [id = trial.row.id, batches = trial.row.batches](
              StoreWriter& writer) { writer.SetTrialBatches(id, batches); },
          Urgency::kBatched);
    }
    const double progress = TotalProgress();
    if (progress != progress_) {
      progress_ = progress;
      outbox_.Add(
          [id = setup_.id, progress](StoreWriter& w) {
            w.SetExperimentProgress(id, progress);
          },
          Urgency::kBatched);
    }
  }
  outbox_.Flush(doors_.store, now, all);
}

void Experiment::Schedule() {
  if (stopping_) return;
  const Duration now = Now();
  for (auto& [number, trial] : trials_) {
    if (trial->restart_at && *trial->restart_at <= now) {
      trial->restart_at.reset();
      Enqueue(*trial);
    }
  }
  while (!ready_.empty() && doors_.launcher.FreeSlots() > 0 &&
         !outbox_.urgent()) {
    TrialState& trial = *trials_.at(ready_.front());
    ready_.pop_front();
    StartTrial(trial);
  }
  if (ready_.empty() || doors_.launcher.FreeSlots() > 0) return;
  // A trial without an operation gives its slot to one that has work.
  for (auto& [number, trial] : trials_) {
    const bool has_work = !trial->operations.empty() || trial->close_sent;
    if (trial->process != ProcessState::kRunning || has_work) continue;
    if (trial->stop == StopCause::kPause) return;
    if (trial->stop != StopCause::kNone) continue;
    trial->stop = StopCause::kPause;
    doors_.launcher.RequestStop(trial->row.id);
    return;
  }
}

void Experiment::CheckHangs() {
  const Duration now = Now();
  const std::chrono::duration<double> limit(setup_.config.hang_timeout);
  for (auto& [number, trial] : trials_) {
    const bool busy = trial->process == ProcessState::kRunning &&
                      !trial->operations.empty() && trial->unacknowledged == 0;
    if (!busy || trial->stop != StopCause::kNone) continue;
    if (now - trial->last_step < limit) continue;
    Fail(*trial, StopCause::kHang,
         "timeout: no step for " +
             FormatDuration(std::chrono::duration_cast<Duration>(limit)) +
             " (hang_timeout)");
  }
}

void Experiment::CheckTimeLimit() {
  std::optional<Duration> limit = setup_.options.timeout;
  if (setup_.config.time_limit) {
    const auto own = std::chrono::duration_cast<Duration>(
        std::chrono::duration<double>(*setup_.config.time_limit));
    limit = limit ? std::min(*limit, own) : own;
  }
  if (stopping_ || !limit || Now() - start_ < *limit) return;
  timed_out_ = true;
  StopAll();
}

void Experiment::StopAll() {
  stopping_ = true;
  ready_.clear();
  for (auto& [number, trial] : trials_) {
    trial->restart_at.reset();
    if (trial->process == ProcessState::kNone) continue;
    if (trial->stop == StopCause::kNone) trial->stop = StopCause::kRunner;
    doors_.launcher.RequestStop(trial->row.id);
  }
}

bool Experiment::Alive() const {
  return std::ranges::any_of(trials_, [](const auto& entry) {
    return entry.second->process != ProcessState::kNone;
  });
}

bool Experiment::Over() const {
  if (!events_.empty() || Alive()) return false;
  return stopping_ || shutdown_;
}

RunResult Experiment::Finish() {
  const bool paused = !shutdown_;
  if (paused) {
    for (auto& [number, trial] : trials_) {
      if (!trial->ended) SetState(*trial, State::kPaused);
    }
  }
  RunResult result{.experiment = setup_.id,
                   .state = paused    ? State::kPaused
                            : failed_ ? State::kError
                                      : State::kCompleted,
                   .error = failed_ ? last_error_ : "",
                   .signal = paused ? signal_ : 0,
                   .timed_out = paused && timed_out_};
  result.seconds = std::chrono::duration<double>(Now() - start_).count();
  outbox_.Add(
      [result, now = doors_.clock.now(),
       progress = TotalProgress()](StoreWriter& writer) {
        writer.SetExperimentProgress(result.experiment, progress);
        writer.SetExperimentState(result.experiment, result.state, now,
                                  result.error);
        writer.AddExperimentSeconds(result.experiment, result.seconds);
      },
      Urgency::kDurable);
  while (!outbox_.empty()) {
    Flush(/*all=*/true);
    // Another runner writes: wait a moment for it.
    if (!outbox_.empty()) (void)doors_.launcher.Wait(milliseconds(2));
  }
  const RunStatus status = Status();
  result.best = status.best;
  result.best_trial = status.best_trial;
  result.best_hparams = status.best_hparams;
  doors_.reporter.OnStatus(status);
  doors_.reporter.End(result);
  return result;
}

void Experiment::StopAfterFailure() {
  for (const auto& [number, trial] : trials_) {
    if (trial->process == ProcessState::kNone) continue;
    doors_.launcher.RequestStop(trial->row.id);
  }
  const Duration deadline = Now() + kLastGrace;
  while (Alive() && Now() < deadline) {
    const LaunchEvent event = doors_.launcher.Wait(milliseconds(100));
    if (const auto* exited = std::get_if<TrialExited>(&event)) {
      Find(exited->trial).process = ProcessState::kNone;
    }
  }
  doors_.launcher.Abort();
}

}  // namespace dtrain
