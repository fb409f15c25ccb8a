// The loop of an experiment. A turn takes the events that have come from the
// launcher, lets SearchDriver feed the searcher, and ends with Tick: record
// what is due in one transaction, run what had to wait for it, start trials.
// Nothing is sent to a trial before its cause is recorded, so a kill between
// any two lines leaves a record that Recover can continue from: it replays the
// searcher's events, which gives the trials' operations, and then takes in the
// checkpoints that trials wrote after the runner's death. That takes O(events).

#include "engine/run/experiment.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/checkpoint/checkpoint_files.h"
#include "engine/run/experiment_state.h"
#include "engine/run/search_results.h"
#include "engine/store/file_system.h"
#include "engine/store/file_tree.h"
#include "searchers/rehearsal_searcher.h"

namespace dtrain {
namespace {

using std::chrono::milliseconds;
using Urgency = Outbox::Urgency;

constexpr Duration kStatusPeriod = milliseconds(100);
// Progress and running time are recorded at least this often.
constexpr Duration kRecordPeriod = std::chrono::seconds(1);
// Period of the check whether the store was moved.
constexpr Duration kPlacePeriod = std::chrono::seconds(1);
// The loop takes a turn at least this often.
constexpr Duration kMaxWait = milliseconds(200);
// A turn of the loop takes no longer unless the process stood still.
constexpr Duration kMaxDelay = std::chrono::seconds(1);
// How long trials may take to checkpoint when the store has failed.
constexpr Duration kLastGrace = std::chrono::seconds(5);
// Limit of events that one transaction records.
constexpr int kMaxEventsAtOnce = 256;

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
  Duration wait = kMaxWait;
  if (const auto due = state_.outbox.due(now))
    wait = std::min(wait, *due - now);
  if (const auto wake = state_.queue.next_wake()) {
    wait = std::min(wait, *wake - now);
  }
  wait = std::max(wait, Duration(0));
  // What has come already is recorded in one transaction.
  for (int i = 0; i < kMaxEventsAtOnce; ++i) {
    const LaunchEvent event = state_.doors.launcher.Wait(wait);
    if (i == 0) ForgiveDelay(state_.Now() - now - wait);
    std::visit([this](const auto& e) { listener_.On(e); }, event);
    driver_.FeedAll();
    if (std::get_if<Idle>(&event) != nullptr) break;
    wait = Duration(0);
  }
  Tick();
}

// If this process was stopped for a while (SIGSTOP, a frozen cgroup), messages
// of the trials from that time are still unread, so their hang timers are moved
// by the delay.
void Experiment::ForgiveDelay(Duration delay) {
  if (delay < kMaxDelay) return;
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

// Records running time as it passes: other processes read it, and a crash of
// the runner loses at most kRecordPeriod of it.
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

// If the disk is full, the reserve file is deleted, which leaves room to record
// the end.
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
    // A trial that waits for the store does not hang.
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

// Ends the run with the disk's error when a trial has waited for disk space for
// longer than the option allows.
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

// Checks the store and the checkpoint directory: a trial does not report that
// it could not write a checkpoint.
void Experiment::CheckPlaces(Duration now) {
  if (state_.stopping || now - checked_at_ < kPlacePeriod) return;
  checked_at_ = now;
  starter_.StopIfLost(state_.setup.watches_storage);
}

// Throws if the search waits for an event that cannot come.
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

// Reason of a CANCELED that no user requested; otherwise empty.
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
    // Another runner holds the write lock.
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

void Experiment::Recover() {
  const std::int64_t id = state_.setup.id;
  const Store& store = state_.doors.store;
  const auto events = store.SearcherEvents(id, 0);
  state_.search.Recover(store.LatestSnapshot(id), events);
  for (TrialRow& row : store.Trials(id)) {
    state_.validated =
        state_.validated || (row.latest && row.latest->batches > 0);
    driver_.Recover(std::move(row));
  }
  for (const SearcherEventRow& row : events) driver_.Replay(row);
  RecoverBest();
  RecoverCheckpoints();
  std::vector<TrialState*> unfinished;
  for (const auto& [number, trial] : state_.trials.trials()) {
    unfinished.push_back(trial.get());
  }
  for (TrialState* trial : unfinished) {
    driver_.Advance(*trial);
    if (trial->ended || trial->row.state != State::kRunning) continue;
    // Its process went with the runner.
    state_.SetState(*trial, State::kPaused, driver_.Remarks(*trial));
    state_.outbox.Add(
        [trial = trial->row.id](StoreWriter& writer) {
          writer.ClearTrialProcess(trial, /*seconds=*/0);
        },
        Outbox::Urgency::kBatched);
  }
}

void Experiment::RecoverBest() {
  const Store& store = state_.doors.store;
  const std::int64_t id = state_.setup.id;
  const auto experiment = store.Experiment(id);
  if (!experiment) return;
  progress_ = experiment->row.progress;
  earlier_seconds_ = experiment->row.seconds;
  const auto& best = experiment->row.best;
  if (!best) return;
  const auto trial = store.Trial({id, experiment->row.best_trial});
  if (trial) state_.best.Set(*best, *trial);
}

void Experiment::RecoverCheckpoints() {
  const auto recorded =
      state_.doors.store.Checkpoints(state_.setup.id, /*deleted=*/true);
  std::vector<TrialId> ended;
  for (const CheckpointRow& row : recorded) {
    if (row.state != "COMPLETED") continue;
    const TrialId trial = row.trial;
    const bool is_ended = state_.trials.Find(trial.number) == nullptr;
    if (is_ended && (ended.empty() || ended.back() != trial)) {
      ended.push_back(trial);
    }
    state_.Delete(state_.keeper.Add(row));
  }
  for (const TrialId trial : ended) state_.Delete(state_.keeper.End(trial));
  RecoverFiles(recorded);
}

// A trial that outlived its runner for a moment may have finished a checkpoint
// that nobody recorded, or left one half done. What was being deleted goes.
void Experiment::RecoverFiles(const std::vector<CheckpointRow>& recorded) {
  std::map<std::string, std::string> states;
  for (const CheckpointRow& row : recorded) states[row.uuid] = row.state;
  const StoreLayout& layout = state_.doors.store.layout();
  for (const auto& path : TrashIn(layout.Experiment(state_.setup.id))) {
    RemoveQuietly(path);
  }
  for (const auto& [number, trial] : state_.trials.trials()) {
    const TrialId id = trial->row.id;
    const std::filesystem::path directory = state_.CheckpointsOf(id);
    // A power cut takes the metrics that were recorded last, but not the files
    // of the checkpoint after them: who went on from there would not measure
    // them again.
    const bool saw_no_reboot = trial->row.boot_id == state_.setup.boot_id;
    for (const std::string& uuid : TidyCheckpoints(directory)) {
      const auto state = states.find(uuid);
      if (state == states.end() && saw_no_reboot) {
        Adopt(id, uuid);
      } else if (state == states.end() || state->second == "DELETED") {
        RemoveQuietly(directory / uuid);
      }
    }
  }
}

// What the trial's validation at `batches` gave, if that is recorded. The trial
// does not report it again, so the keeper learns it here.
std::optional<double> Experiment::RecordedMetric(TrialId trial,
                                                 std::int64_t batches) const {
  std::optional<double> value;
  state_.doors.store.ForEachMetric({.experiment = trial.experiment,
                                    .trial = trial.number,
                                    .kind = MetricKind::kValidation,
                                    .name = state_.searcher().metric},
                                   [&](const MetricRow& row) {
                                     if (row.batches == batches) {
                                       value = row.value;
                                     }
                                   });
  return value;
}

void Experiment::Adopt(TrialId trial, const std::string& uuid) try {
  const CheckpointSummary found =
      SummarizeCheckpoint((state_.CheckpointsOf(trial) / uuid).string());
  CheckpointRow row{.uuid = uuid,
                    .trial = trial,
                    .state = "COMPLETED",
                    .batches = found.batches,
                    .epoch = found.epoch,
                    .bytes = found.bytes,
                    .files = found.files,
                    .metric = RecordedMetric(trial, found.batches),
                    .storage = state_.setup.storage,
                    .time = state_.doors.clock.now()};
  state_.outbox.Add([row](StoreWriter& writer) { writer.AddCheckpoint(row); },
                    Outbox::Urgency::kDurable);
  state_.doors.reporter.OnNotice(
      LogLevel::kInfo, "trial " + ToString(trial) + ": has a checkpoint at " +
                           PositionText(row.batches, state_.counted) +
                           " from after the end of its runner, " + uuid);
  state_.Delete(state_.keeper.Add(std::move(row)));
} catch (const Error&) {
  // Not whole: of no use, and `dtrain gc` removes it.
}

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
