// The loop of an experiment: record, then act. A turn takes the events that the
// launcher has delivered, passes their results to the searcher, and ends with
// Tick: everything due is recorded in one transaction, the effects that depend
// on it are run, and trials are started. An effect (a message to a trial, a
// start, a deletion) is queued in the outbox behind the record of its cause, so
// a kill of the runner between any two instructions leaves a record from which
// experiment_recovery.cc can continue: at worst an effect is missing, and it
// follows from the record again.

#include "engine/run/experiment.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/rounding.h"
#include "engine/base/text.h"
#include "engine/config/environment.h"
#include "engine/config/read_config.h"
#include "engine/os/signals.h"
#include "engine/run/notifications.h"
#include "engine/run/points.h"
#include "engine/store/file_system.h"
#include "searchers/registry.h"
#include "searchers/search_plan.h"

namespace dtrain {
namespace {

using std::chrono::milliseconds;
using Urgency = Outbox::Urgency;

constexpr double kNoLimit = std::numeric_limits<double>::infinity();
// Maximum time between two turns of the loop.
constexpr Duration kMaxWait = milliseconds(200);
// A turn that is longer by this means that this process was stopped.
constexpr Duration kMaxDelay = std::chrono::seconds(1);
// Time for trials to save a checkpoint when the store has failed.
constexpr Duration kLastGrace = std::chrono::seconds(5);
// Maximum number of events that one transaction records.
constexpr int kMaxEventsAtOnce = 256;
// Calls `edit` with each text that a trial wrote for people. Names of metrics
// and of files identify data, and stay as they are.
void EditTexts(TrialMessage& message, const auto& edit) {
  if (auto* failed = std::get_if<CheckpointFailed>(&message)) {
    edit(failed->message);
  } else if (auto* completed = std::get_if<OperationCompleted>(&message)) {
    edit(completed->why_early);
  } else if (auto* finished = std::get_if<Finished>(&message)) {
    edit(finished->message);
  }
}

void EditTexts(TrialExited& event, const auto& edit) {
  edit(event.last_error_line);
  for (std::string& line : event.last_lines) edit(line);
  if (event.gpu_fault) edit(event.gpu_fault->reason);
}

// Removes the values of environment variables from a trial's texts. All of them
// come here before they are recorded or shown; only the log has them as they
// were written.
void Redact(LaunchEvent& event, const TrialEnvironment& environment) {
  const auto edit = [&](std::string& text) {
    if (text.empty()) return;
    text = WithoutValues(std::move(text), environment.All());
  };
  if (auto* received = std::get_if<MessageReceived>(&event)) {
    EditTexts(received->message, edit);
  } else if (auto* exited = std::get_if<TrialExited>(&event)) {
    EditTexts(*exited, edit);
  }
}

// Returns the configuration as it is recorded now; other processes may change
// some of its keys.
nlohmann::json RecordedConfig(const Store& store, std::int64_t experiment) {
  auto detail = store.Experiment(experiment);
  return detail ? std::move(detail->config) : nlohmann::json::object();
}

}  // namespace

Experiment::Experiment(ExperimentSetup setup, ExperimentDeps deps)
    : setup_(std::move(setup)),
      deps_(std::move(deps)),
      plan_(setup_.config.searcher),
      recorded_searcher_(
          setup_.config.effective.value("searcher", nlohmann::json::object())),
      outbox_(setup_.sync),
      files_(deps_.store, setup_.id, setup_.places),
      time_(setup_.options.timeout, setup_.config.time_limit),
      requests_(setup_.gpu_share, setup_.slots_per_trial,
                TrialsAtOnce(searcher(), setup_.config.hyperparameters)),
      search_(MakeSearcher(setup_.created.value_or(plan_),
                           setup_.config.hyperparameters, setup_.seed),
              setup_.id),
      progress_(searcher(), setup_.config.hyperparameters),
      rungs_(searcher(), setup_.config.length_unit),
      lengths_(setup_.config, setup_.info.units),
      keeper_(setup_.config.checkpoints, searcher().smaller_is_better),
      best_(searcher().smaller_is_better, searcher().repeats > 1),
      metrics_(setup_.config),
      unread_(setup_.config, !setup_.options.library.empty()) {}

SearchOutcome Experiment::Outcome() const {
  const bool compares = searcher().name != "single" && searcher().rules >= 2;
  std::string no_result;
  if (compares && search_.over() && trials_.measured() > 0 &&
      !best_.validation()) {
    no_result = "no trial has a finite '" + searcher().metric +
                "': every value is NaN or infinite";
  }
  return {.over = search_.over(),
          .failed = search_.failed(),
          .ended = trials_.ended(),
          .finished = trials_.finished(),
          .killed = trials_.killed(),
          .last_error = failures_.last_error(),
          .no_result = std::move(no_result)};
}

// Recovery comes before anything is reported or recorded: it may find that the
// search is over. The state RUNNING is recorded first of all, so that other
// processes see the runner before its trials.
RunResult Experiment::Run() {
  time_.Start(Now());
  Recover();
  // The slots of this machine were planned within that limit.
  const bool is_planned = setup_.slots > 0;
  (void)requests_.SetMaxSlots(
      FindMaxSlots(RecordedConfig(deps_.store, setup_.id)), !is_planned);
  outbox_.Add(
      [id = setup_.id, now = deps_.clock.now()](StoreWriter& writer) {
        writer.SetExperimentState(id, State::kRunning, now);
      },
      Urgency::kUrgent);
  // Failed trials are taken back together with that record, and before anybody
  // is told of the run: a kill in between would leave an experiment without
  // anything to run, and who waits for it would see the old end.
  if (setup_.options.retry_failed) RetryFailed();
  deps_.reporter.Begin(setup_.info);
  for (const std::string& warning : setup_.warnings) {
    deps_.reporter.OnNotice(LogLevel::kWarning, warning);
  }
  for (const std::string* text : {&setup_.advice, &setup_.options.notice}) {
    if (!text->empty()) deps_.reporter.OnNotice(LogLevel::kInfo, *text);
  }
  try {
    if (search_.seq() == 0) Post(Started{});
    RecoverRequests();
    HandleEvents();
    // A validation may have reached it while the last run was being stopped.
    CheckTarget();
    Tick();
    while (!IsOver()) Step();
    return Finish();
  } catch (const Error&) {
    StopAfterFailure();
    throw;
  }
}

void Experiment::Step() {
  const Duration now = Now();
  Duration wait = kMaxWait;
  if (const auto due = outbox_.due(now)) wait = std::min(wait, *due - now);
  if (const auto wake = queue_.next_wake()) {
    wait = std::min(wait, *wake - now);
  }
  // Records may be held back to share a transaction, and restarts wait for
  // their time: the loop must wake for both.
  wait = std::max(wait, Duration(0));
  // All events that have arrived are recorded in one transaction.
  for (int i = 0; i < kMaxEventsAtOnce; ++i) {
    LaunchEvent event = deps_.launcher.Wait(wait);
    Redact(event, setup_.config.environment);
    const Duration delay = Now() - now - wait;
    if (i == 0 && delay >= kMaxDelay) {
      // This process was stopped for a while (SIGSTOP, a frozen cgroup), and
      // messages of the trials from that time are still unread.
      for (const auto& [number, trial] : trials_.live()) {
        trial->process->ForgiveDelay(delay);
      }
    }
    std::visit([this](const auto& e) { On(e); }, event);
    HandleEvents();
    if (std::get_if<Idle>(&event) != nullptr) break;
    wait = Duration(0);
  }
  Tick();
}

void Experiment::Tick() {
  Flush();
  if (searcher().repeats > 1) CheckTarget();
  ExtendSearch();
  // A start depends on the record of what led to it. As long as another runner
  // holds the write lock, no trial is started.
  if (!outbox_.urgent()) Schedule();
  trials_.Sweep();
  CheckStall();
  const Duration now = Now();
  // What follows looks at all trials or at the store, which is too much for
  // every message.
  if (!time_.PopStatus(now)) return;
  CheckHangs();
  if (!stop_.stopping() && time_.IsOver(now)) {
    stop_.SetTimedOut();
    StopAll("stopped at its time limit");
  }
  const double until =
      search_.seconds_ended() + searcher().max_duration.value_or(kNoLimit);
  if (time_.Seconds(now) >= until) {
    EndSearch("max_duration reached");
  }
  CheckTrialTimes();
  CheckDiskWait();
  // A trial does not report that it could not write a checkpoint.
  if (!stop_.stopping() && time_.PopFilesCheck(now)) {
    StopIfLost(files_.watches_storage());
  }
  PollRequests();
  HandleEvents();
  deps_.reporter.OnStatus(Status());
}

void Experiment::Flush() {
  const Duration now = Now();
  const auto due = outbox_.due(now);
  const bool late = time_.IsRecordDue(now);
  if (!late && (!due || *due > now)) return;
  RecordAllBatches();
  if (late) {
    RecordTime(now);
    const double progress = TotalProgress();
    if (progress != progress_.recorded()) {
      progress_.Set(progress);
      outbox_.Add(
          [id = setup_.id, progress](StoreWriter& writer) {
            writer.SetExperimentProgress(id, progress);
          },
          Urgency::kBatched);
    }
  }
  WriteRecords(/*all=*/late);
}

void Experiment::RecordAllBatches() {
  while (!unrecorded_batches_.empty()) {
    const TrialState* trial = trials_.Find(*unrecorded_batches_.begin());
    RecordBatches(*trial);
  }
}

void Experiment::RecordBatches(const TrialState& trial) {
  if (unrecorded_batches_.erase(trial.row.id.number) == 0) return;
  outbox_.Add([id = trial.row.id, batches = trial.row.batches](
                  StoreWriter& writer) { writer.SetTrialBatches(id, batches); },
              Urgency::kBatched);
}

// Records the running time since the last record.
void Experiment::RecordTime(Duration now) {
  const double run = time_.Drain(now);
  std::vector<std::pair<TrialId, double>> trials;
  for (const auto& [number, trial] : trials_.live()) {
    if (!trial->process->running()) continue;
    trials.emplace_back(trial->row.id, trial->process->DrainSeconds(now));
  }
  outbox_.Add(
      [id = setup_.id, run, trials](StoreWriter& writer) {
        writer.AddExperimentSeconds(id, run);
        for (const auto& [trial, more] : trials) {
          writer.AddTrialSeconds(trial, more);
        }
      },
      Urgency::kBatched);
}

// If the disk is full, the reserve file is deleted, which leaves room to record
// the end.
void Experiment::WriteRecords(bool all) try {
  outbox_.Flush(deps_.store, Now(), all);
  deps_.store.MaybeCheckpointWal();
} catch (const Error& error) {
  if (error.kind() != ErrorKind::kDiskFull) throw;
  if (!FreeReserve(deps_.store.layout())) throw;
  StopOnError(error);
}

void Experiment::CheckHangs() {
  const Duration now = Now();
  const std::chrono::duration<double> limit(setup_.config.hang_timeout);
  for (const auto& [number, trial] : trials_.live()) {
    if (!trial->has_work() || !trial->process->IsHanging(now, limit)) continue;
    Fail(*trial, StopCause::kHang,
         "timeout: no step for " +
             FormatDuration(std::chrono::duration_cast<Duration>(limit)) +
             (IsCommand(setup_.config) ? ", no report and no output" : "") +
             " (hang_timeout)");
  }
}

// Throws if no trial is left that could cause the searcher's next event.
void Experiment::CheckStall() const {
  const bool waits =
      !trials_.live().empty() || !queue_.empty() || !outbox_.empty();
  if (waits || stop_.stopping() || search_.over()) return;
  throw Error(
      ErrorKind::kFailed,
      "experiment " + std::to_string(setup_.id) +
          ": the searcher waits for trials that do not exist; the store is "
          "damaged, or this is a bug of dtrain: please report it");
}

bool Experiment::IsOver() const {
  const bool is_over = search_.over() && !IsExtensionDue();
  return trials_.live().empty() && (stop_.stopping() || is_over);
}

RunResult Experiment::Finish() {
  // Whether there is a result, and whether it reaches the target, may depend on
  // the last trial.
  if (searcher().repeats > 1) {
    RecordBestPoint(/*point=*/0);
    RecordAll();
    CheckTarget();
  }
  RunResult result = stop_.Result(setup_.id, Outcome());
  result.unread = unread_.names();
  const Duration end = Now();
  result.seconds = time_.Seconds(end);
  // The outbox must be empty before the result is reported: a command that
  // waits for the end reads the store next.
  RecordTime(end);
  RecordEnd(result);
  const RunStatus status = Status();
  result.best = status.best;
  result.best_trial = status.best_trial;
  result.best_hparams = status.best_hparams;
  deps_.reporter.OnStatus(status);
  deps_.reporter.End(result);
  return result;
}

void Experiment::RecordEnd(RunResult& result) {
  const bool canceled = result.state == State::kCanceled;
  const bool failed = stop_.failed();
  const State left = failed || canceled ? State::kCanceled : State::kPaused;
  for (const auto& [number, trial] : trials_.trials()) {
    if (trial->row.state == left) continue;
    SetState(*trial, left,
             failed     ? stop_.why()
             : canceled ? std::string(kCanceledReason)
                        : PauseReason(*trial));
    if (IsFinal(left)) CleanWorkingTree(trial->row.id);
  }
  // Points that were not trained as often as planned count in the end.
  if (searcher().repeats > 1 && IsFinal(result.state)) {
    outbox_.Add(
        [this](StoreWriter& writer) {
          SetBestPoint(deps_.store, writer, setup_.id, /*over=*/true);
        },
        Urgency::kUrgent);
    outbox_.After([this] { ReadBest(); });
  }
  RecordAllBatches();
  for (const std::int64_t request : requests_.until_end()) {
    FinishRequest(request);
  }
  outbox_.Add(
      [this, &result, now = deps_.clock.now(),
       progress = TotalProgress()](StoreWriter& writer) {
        // Another process may have extended the search in the last moment.
        ReadPlan();
        if (result.state == State::kCompleted && IsExtensionDue()) {
          result.state = State::kPaused;
          result.error = "the search was extended as it ended";
          writer.SetExperimentState(result.experiment, result.state, now,
                                    result.error);
          // The extension has set the progress.
        } else {
          writer.SetExperimentProgress(result.experiment, progress);
          writer.SetExperimentState(result.experiment, result.state, now,
                                    result.error);
        }
        nlohmann::json facts = {
            {"state", StateName(result.state)},
            {"best", RecordedBestFact(deps_.store, setup_.id)}};
        if (!result.error.empty()) facts["error"] = result.error;
        AddNotifications(writer, setup_.config, setup_.id,
                         EndEvent(result.state), now, std::move(facts));
      },
      Urgency::kDurable);
  SendNotifications();
  RecordAll();
}

nlohmann::json Experiment::BestFact() const {
  return dtrain::BestFact({setup_.id, best_.trial()}, best_.validation(),
                          best_.hparams());
}

// Records the messages about an event of the running experiment.
void Experiment::Notify(std::string_view event, nlohmann::json facts) {
  const auto& notify = setup_.config.notify;
  if (!notify || std::ranges::find(notify->on, event) == notify->on.end()) {
    return;
  }
  facts["best"] = BestFact();
  facts["state"] = StateName(State::kRunning);
  outbox_.Add(
      [this, event, now = deps_.clock.now(),
       facts = std::move(facts)](StoreWriter& writer) {
        AddNotifications(writer, setup_.config, setup_.id, event, now, facts);
      },
      Urgency::kBatched);
  SendNotifications();
}

void Experiment::SendNotifications() {
  const auto& send = setup_.options.send_notifications;
  if (setup_.config.notify && send) outbox_.After(send);
}

// Writes the whole outbox, however long another runner holds the write lock.
void Experiment::RecordAll() {
  while (!outbox_.empty()) {
    WriteRecords(/*all=*/true);
    if (!outbox_.empty()) {
      (void)deps_.launcher.Wait(milliseconds(2));
    }
  }
}

void Experiment::StopAfterFailure() {
  // Nothing can be recorded any more. Trials may still save checkpoints, which
  // the next run adopts (experiment_recovery.cc).
  std::vector<TrialId> alive;
  for (const auto& [number, trial] : trials_.live()) {
    alive.push_back(trial->row.id);
    deps_.launcher.RequestStop(trial->row.id);
  }
  const Duration deadline = Now() + kLastGrace;
  while (!alive.empty() && Now() < deadline) {
    const LaunchEvent event = deps_.launcher.Wait(milliseconds(100));
    if (const auto* exited = std::get_if<TrialExited>(&event)) {
      std::erase(alive, exited->trial);
    }
  }
  deps_.launcher.Abort();
}

namespace {

TrialStatus MakeStatus(const TrialState& trial, Duration now) {
  const TrialProcess& process = *trial.process;
  return {.id = trial.row.id,
          .hparams = trial.row.hparams,
          .batches = std::max(trial.position, process.progress().batches),
          .total_batches = process.progress().total,
          .batches_per_epoch = process.progress().batches_per_epoch,
          .rung = trial.row.rung,
          .training = process.training,
          .validation = process.validation,
          .seconds =
              std::chrono::duration<double>(now - process.started()).count()};
}

}  // namespace

double Experiment::TotalProgress() const {
  if (!search_.over()) return progress_.Estimate(trials_, search_.progress());
  const bool completed = stop_.EndState(Outcome()) == State::kCompleted;
  return completed ? 1 : progress_.recorded();
}

RunStatus Experiment::Status() const {
  const Duration now = Now();
  RunStatus status;
  status.progress = TotalProgress();
  status.trials = trials_.created();
  status.trials_ended = trials_.ended();
  status.waiting = static_cast<std::int64_t>(queue_.size());
  status.slots = Slots();
  status.slot_wait = deps_.launcher.LongWait();
  status.best = best_.validation();
  status.best_trial = best_.trial();
  status.best_hparams = best_.hparams();
  status.seconds = time_.Seconds(now);
  std::map<std::int64_t, std::int64_t> lengths;
  for (const auto& [number, trial] : trials_.live()) {
    if (trial->process->running()) {
      status.running.push_back(MakeStatus(*trial, now));
      if (trial->has_work()) ++lengths[trial->operations.front()];
    } else {
      ++status.waiting;
    }
  }
  status.rungs = rungs_.Status(lengths);
  status.slots_in_use =
      static_cast<std::int64_t>(status.running.size()) * setup_.slots_per_trial;
  return status;
}

// ---- Stopping everything, because of a signal, a request of another process,
// a limit, a lost store or a failure. A stop asks every trial to save a
// checkpoint; the launcher enforces it after a grace period (see
// LaunchedTrial), and a second signal or a kill skips that. Trials that have
// exited are paused, and the experiment can be resumed unless it was canceled
// or has failed.

void Experiment::On(const Interrupted& event) {
  if (!stop_.SetSignal(event.signal)) return deps_.launcher.Abort();
  deps_.reporter.OnNotice(
      LogLevel::kInfo,
      "stopping: saving checkpoints; press Ctrl-C again to kill the trials");
  StopAll("stopped by " + SignalName(event.signal));
}

// Ends the run with the disk's error when a trial has been blocked on a full
// disk for longer than the option allows.
void Experiment::CheckDiskWait() {
  const auto& limit = setup_.options.disk_wait;
  if (stop_.stopping() || !limit) return;
  for (const auto& [number, trial] : trials_.live()) {
    const auto& since = trial->process->blocked_since();
    if (!since || Now() - *since < *limit) continue;
    return StopOnError(Error(ErrorKind::kDiskFull, trial->process->failure()));
  }
}

// Asks every process to end, and starts no more. `why` becomes the reason of
// the trials that are left.
void Experiment::StopAll(const std::string& why) {
  stop_.Stop(why);
  queue_.Clear();
  deps_.launcher.SetDemand(0);
  for (const auto& [number, trial] : trials_.live()) {
    StopProcess(*trial, StopCause::kRunner);
  }
}

// Stops because the machine lacks what the run needs, and tells the user.
void Experiment::StopOnError(const Error& problem) {
  if (!stop_.SetProblem(problem)) return;
  deps_.reporter.OnNotice(LogLevel::kError, std::string(problem.what()) +
                                                "; pausing the experiment");
  if (!stop_.stopping()) StopAll("stopped: " + std::string(problem.what()));
}

// Stops if the store or the checkpoint directory was moved or removed while the
// experiment runs. Returns false if they are in place.
bool Experiment::StopIfLost(bool with_storage) {
  const std::string why = files_.FindLoss(with_storage);
  if (why.empty()) return false;
  StopOnError(Error(ErrorKind::kStore, why));
  return true;
}

// Stops, and the experiment ends in ERROR.
void Experiment::FailExperiment(const std::string& why) {
  if (stop_.SetFailure(why)) StopAll("the experiment failed: " + why);
}

// Reads the plan of the search as it is recorded now.
void Experiment::ReadPlan() {
  const nlohmann::json config = RecordedConfig(deps_.store, setup_.id);
  const auto searcher = config.find("searcher");
  if (searcher == config.end() || *searcher == recorded_searcher_) return;
  recorded_searcher_ = *searcher;
  plan_ = ConfigFromJson(config).searcher;
}

// Executes new requests of other processes. Cheap if the store is unchanged.
void Experiment::PollRequests() {
  if (!deps_.store.ChangedByOthers()) return;
  ReadPlan();
  // Running trials are left alone if fewer may run now; as they end, fewer
  // start.
  const auto most = FindMaxSlots(RecordedConfig(deps_.store, setup_.id));
  if (requests_.SetMaxSlots(most, /*limit=*/true)) {
    deps_.reporter.OnNotice(LogLevel::kInfo,
                            "resources.max_slots is now " +
                                (most ? std::to_string(*most) : "null") +
                                ", by another process; this run uses at most " +
                                CountText(Slots(), "slot"));
  }
  for (const RequestRow& request : deps_.store.OpenRequests(setup_.id)) {
    Execute(request);
  }
}

// Returns the number of slots that the trials may use.
std::int64_t Experiment::Slots() const {
  const std::int64_t slots =
      setup_.slots > 0 ? setup_.slots
                       : static_cast<std::int64_t>(deps_.launcher.Capacity()) *
                             setup_.slots_per_trial;
  return requests_.LimitSlots(slots);
}

void Experiment::Execute(const RequestRow& request) {
  if (!requests_.Add(request)) return;
  if (request.trial) return KillTrial(request);
  // It stays open until the end is recorded. If this runner dies before that,
  // the next one executes it (RecoverRequests).
  deps_.reporter.OnNotice(LogLevel::kInfo,
                          "asked to " + std::string(RequestName(request.kind)) +
                              " from another process");
  switch (request.kind) {
    case RequestKind::kPause:
      if (!stop_.stopping()) StopAll(std::string(kPausedByRequest));
      return;
    case RequestKind::kCancel:
      return CancelAll(/*now=*/false);
    case RequestKind::kKill:
      return CancelAll(/*now=*/true);
  }
}

void Experiment::CancelAll(bool now) {
  // A cancellation may follow a pause. The trials are stopping then, and only
  // the state changes in which they are left.
  stop_.Cancel();
  if (!stop_.stopping()) StopAll("canceled");
  if (now) deps_.launcher.Abort();
}

void Experiment::KillTrial(const RequestRow& request) {
  // A trial that has ended keeps its state.
  TrialState* trial = trials_.Find(*request.trial);
  if (trial != nullptr) {
    if (trial->process) {
      trial->process->Cancel();
      trials_.Refile(*trial);
      deps_.launcher.Kill(trial->row.id);
    } else {
      Cancel(*trial);
    }
  }
  FinishRequest(request.id);
}

void Experiment::FinishRequest(std::int64_t request) {
  outbox_.Add([request](StoreWriter& writer) { writer.FinishRequest(request); },
              Outbox::Urgency::kUrgent);
}

}  // namespace dtrain
