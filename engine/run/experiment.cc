#include "engine/run/experiment.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/store/reserve_file.h"

namespace dtrain {
namespace {

using std::chrono::milliseconds;
using Urgency = Outbox::Urgency;

constexpr Duration kStatusPeriod = milliseconds(100);
// Progress and running time are recorded at least this often.
constexpr Duration kRecordPeriod = std::chrono::seconds(1);
// That often somebody looks whether the store was moved.
constexpr Duration kPlacePeriod = std::chrono::seconds(1);
// The loop looks around at least this often.
constexpr Duration kLongestWait = milliseconds(200);
// A turn of the loop takes no longer unless the process stood still.
constexpr Duration kLongestDelay = std::chrono::seconds(1);
// How long trials may take to checkpoint when the store has failed.
constexpr Duration kLastGrace = std::chrono::seconds(5);
// Of the events that have come by now, so many are recorded together.
constexpr int kMostAtOnce = 256;

}  // namespace

Experiment::Experiment(ExperimentSetup setup, ExperimentDoors doors)
    : state_(std::move(setup), std::move(doors)),
      driver_(state_),
      starter_(state_),
      listener_(state_, driver_, starter_),
      requests_(state_, driver_, starter_),
      plan_(
          PlanSearch(state_.searcher(), state_.setup.config.hyperparameters)) {}

RunResult Experiment::Run() {
  start_ = recorded_at_ = state_.Now();
  Recover();
  state_.doors.reporter.Begin(state_.setup.info);
  if (!state_.setup.advice.empty()) {
    state_.doors.reporter.OnNotice(LogLevel::kInfo, state_.setup.advice);
  }
  state_.outbox.Add(
      [id = state_.setup.id,
       now = state_.doors.clock.now()](StoreWriter& writer) {
        writer.SetExperimentState(id, State::kRunning, now);
      },
      Urgency::kUrgent);
  try {
    if (state_.search.seq() == 0) driver_.Post(Started{});
    requests_.Recover();
    driver_.FeedAll();
    Tick();
    while (!Over()) Step();
    return Finish();
  } catch (const Error&) {
    StopAfterFailure();
    throw;
  }
}

void Experiment::Step() {
  const Duration now = state_.Now();
  Duration wait = kLongestWait;
  if (const auto due = state_.outbox.due(now))
    wait = std::min(wait, *due - now);
  if (const auto wake = state_.queue.next_wake()) {
    wait = std::min(wait, *wake - now);
  }
  wait = std::max(wait, Duration(0));
  // What has come already is recorded in one transaction.
  for (int i = 0; i < kMostAtOnce; ++i) {
    const LaunchEvent event = state_.doors.launcher.Wait(wait);
    if (i == 0) ForgiveDelay(state_.Now() - now - wait);
    std::visit([this](const auto& e) { listener_.On(e); }, event);
    driver_.FeedAll();
    if (std::get_if<Idle>(&event) != nullptr) break;
    wait = Duration(0);
  }
  Tick();
}

// Was this process stopped for a while (SIGSTOP, a frozen cgroup), then what
// the trials said meanwhile is still to be read: they are no later than it is.
void Experiment::ForgiveDelay(Duration delay) {
  if (delay < kLongestDelay) return;
  for (const auto& [number, trial] : state_.trials.live()) {
    trial->process->last_step += delay;
  }
}

void Experiment::Tick() {
  Flush();
  if (!state_.outbox.urgent()) starter_.Schedule();
  state_.trials.Sweep();
  CheckStall();
  const Duration now = state_.Now();
  if (now - last_status_ < kStatusPeriod) return;
  last_status_ = now;
  CheckHangs();
  CheckTimeLimit();
  CheckDiskWait();
  CheckPlaces(now);
  requests_.Look();
  driver_.FeedAll();
  state_.doors.reporter.OnStatus(Status());
}

void Experiment::Flush(bool all) {
  const Duration now = state_.Now();
  const auto due = state_.outbox.due(now);
  const bool late = now - recorded_at_ >= kRecordPeriod;
  if (!late && (!due || (!all && *due > now))) return;
  RecordChangedBatches();
  const double progress = TotalProgress();
  if (progress != progress_) {
    progress_ = progress;
    state_.outbox.Add(
        [id = state_.setup.id, progress](StoreWriter& writer) {
          writer.SetExperimentProgress(id, progress);
        },
        Urgency::kBatched);
  }
  RecordTime(now);
  Record(all || late);
}

void Experiment::RecordChangedBatches() {
  while (!state_.changed.empty()) {
    const TrialState* trial = state_.trials.Find(*state_.changed.begin());
    state_.RecordBatches(*trial);
  }
}

// So that readers see time pass, and a crash of the runner loses little of it.
void Experiment::RecordTime(Duration now) {
  const auto seconds = [](Duration time) {
    return std::chrono::duration<double>(time).count();
  };
  recorded_at_ = now;
  const double run = seconds(now - start_) - recorded_seconds_;
  recorded_seconds_ += run;
  std::vector<std::pair<TrialId, double>> trials;
  for (const auto& [number, trial] : state_.trials.live()) {
    ProcessState& process = *trial->process;
    if (!process.running) continue;
    const double more =
        seconds(now - process.started) - process.recorded_seconds;
    process.recorded_seconds += more;
    trials.emplace_back(trial->row.id, more);
  }
  state_.outbox.Add(
      [id = state_.setup.id, run, trials](StoreWriter& writer) {
        writer.AddExperimentSeconds(id, run);
        for (const auto& [trial, more] : trials) {
          writer.AddTrialSeconds(trial, more);
        }
      },
      Urgency::kBatched);
}

// Where the disk is full the reserve makes room for the last words.
void Experiment::Record(bool all) try {
  state_.outbox.Flush(state_.doors.store, state_.Now(), all);
  state_.doors.store.MaybeCheckpointWal();
} catch (const Error& error) {
  if (error.kind() != ErrorKind::kDiskFull) throw;
  if (!GiveUpReserve(state_.doors.store.layout())) throw;
  starter_.StopBecauseOf(error);
}

void Experiment::CheckHangs() {
  const Duration now = state_.Now();
  const std::chrono::duration<double> limit(state_.setup.config.hang_timeout);
  for (const auto& [number, trial] : state_.trials.live()) {
    const ProcessState& process = *trial->process;
    // Waiting for the store is no hang.
    const bool busy = process.running && trial->has_work() &&
                      process.unacknowledged == 0 && !process.disk_wait &&
                      process.stop == StopCause::kNone;
    if (!busy || now - process.last_step < limit) continue;
    listener_.Fail(
        *trial, StopCause::kHang,
        "timeout: no step for " +
            FormatDuration(std::chrono::duration_cast<Duration>(limit)) +
            " (hang_timeout)");
  }
}

void Experiment::CheckTimeLimit() {
  std::optional<Duration> limit = state_.setup.options.timeout;
  if (state_.setup.config.time_limit) {
    const auto own = std::chrono::duration_cast<Duration>(
        std::chrono::duration<double>(*state_.setup.config.time_limit));
    limit = limit ? std::min(*limit, own) : own;
  }
  if (state_.stopping || !limit || state_.Now() - start_ < *limit) return;
  timed_out_ = true;
  starter_.StopAll("stopped at its time limit");
}

// Trials that wait for disk space do so until the user is told in another way:
// by the end of the run.
void Experiment::CheckDiskWait() {
  const auto& limit = state_.setup.options.disk_wait;
  if (state_.stopping || !limit) return;
  for (const auto& [number, trial] : state_.trials.live()) {
    const auto& since = trial->process->disk_wait;
    if (!since || state_.Now() - *since < *limit) continue;
    return starter_.StopBecauseOf(
        Error(ErrorKind::kDiskFull, trial->process->failure));
  }
}

// A checkpoint that could not be written somewhere is not heard of.
void Experiment::CheckPlaces(Duration now) {
  if (state_.stopping || now - checked_at_ < kPlacePeriod) return;
  checked_at_ = now;
  starter_.StopIfLost(state_.setup.watches_storage);
}

// A search that can never go on must not wait for ever without a word.
void Experiment::CheckStall() const {
  const bool waits = !state_.trials.live().empty() || !state_.queue.empty() ||
                     !state_.outbox.empty();
  if (waits || state_.stopping || state_.shutdown) return;
  throw Error(
      ErrorKind::kFailed,
      "experiment " + std::to_string(state_.setup.id) +
          ": the searcher waits for trials that are not there; the store is "
          "damaged, or this is a bug of dtrain: please report it");
}

bool Experiment::Over() const {
  return state_.trials.live().empty() && (state_.stopping || state_.shutdown);
}

State Experiment::EndState() const {
  if (!state_.failure.empty()) return State::kError;
  if (state_.shutdown) {
    if (state_.failed) return State::kError;
    const bool killed =
        state_.trials.killed() > 0 && state_.trials.finished() == 0;
    return killed ? State::kCanceled : State::kCompleted;
  }
  return state_.canceled ? State::kCanceled : State::kPaused;
}

// Why it ends CANCELED though nobody asked for that; else empty.
std::string Experiment::WhyCanceled() const {
  if (!state_.shutdown) return "";
  if (state_.trials.ended() == 1) return "its trial was killed";
  const bool all = state_.trials.killed() == state_.trials.ended();
  return all ? "every trial was killed" : "every trial was killed or failed";
}

RunResult Experiment::Finish() {
  RunResult result{.experiment = state_.setup.id, .state = EndState()};
  if (result.state == State::kError) {
    result.error = state_.failure.empty() ? state_.last_error : state_.failure;
  }
  if (result.state == State::kCanceled) result.error = WhyCanceled();
  result.unread = state_.unread.names();
  if (result.state == State::kPaused) {
    result.signal = state_.signal;
    result.timed_out = timed_out_;
    if (state_.problem) {
      result.error = state_.problem->what();
      result.error_kind = state_.problem->kind();
    }
  }
  const Duration end = state_.Now();
  result.seconds =
      earlier_seconds_ + std::chrono::duration<double>(end - start_).count();
  RecordTime(end);
  RecordEnd(result);
  const RunStatus status = Status();
  result.best = status.best;
  result.best_trial = status.best_trial;
  result.best_hparams = status.best_hparams;
  state_.doors.reporter.OnStatus(status);
  state_.doors.reporter.End(result);
  return result;
}

void Experiment::RecordEnd(const RunResult& result) {
  const bool canceled = result.state == State::kCanceled;
  const bool failed = !state_.failure.empty();
  const State left = failed || canceled ? State::kCanceled : State::kPaused;
  for (const auto& [number, trial] : state_.trials.trials()) {
    if (trial->row.state == left) continue;
    state_.SetState(*trial, left,
                    failed     ? state_.why_stopping
                    : canceled ? "canceled"
                               : driver_.WhyPaused(*trial));
    if (IsFinal(left)) state_.TidyTree(trial->row.id);
  }
  RecordChangedBatches();
  requests_.RecordDone();
  state_.outbox.Add(
      [result, now = state_.doors.clock.now(),
       progress = TotalProgress()](StoreWriter& writer) {
        writer.SetExperimentProgress(result.experiment, progress);
        writer.SetExperimentState(result.experiment, result.state, now,
                                  result.error);
      },
      Urgency::kDurable);
  while (!state_.outbox.empty()) {
    Record(/*all=*/true);
    // Another runner writes: wait a moment for it.
    if (!state_.outbox.empty()) {
      (void)state_.doors.launcher.Wait(milliseconds(2));
    }
  }
}

void Experiment::StopAfterFailure() {
  std::vector<TrialId> alive;
  for (const auto& [number, trial] : state_.trials.live()) {
    alive.push_back(trial->row.id);
    state_.doors.launcher.RequestStop(trial->row.id);
  }
  const Duration deadline = state_.Now() + kLastGrace;
  while (!alive.empty() && state_.Now() < deadline) {
    const LaunchEvent event = state_.doors.launcher.Wait(milliseconds(100));
    if (const auto* exited = std::get_if<TrialExited>(&event)) {
      std::erase(alive, exited->trial);
    }
  }
  state_.doors.launcher.Abort();
}

}  // namespace dtrain
