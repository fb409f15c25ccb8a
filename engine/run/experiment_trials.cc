// Experiment: what the searcher asks of the trials, and their slots. An event
// is recorded in one transaction with the operations that the searcher returned
// for it and with the changes that caused it, so that after a crash the
// searcher has missed none. Trials get slots in the order of their turns; a
// trial without an operation keeps its process, and so its warm start, until
// another trial needs the slot.

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/base/metric_order.h"
#include "engine/base/rounding.h"
#include "engine/base/text.h"
#include "engine/run/experiment.h"
#include "engine/run/points.h"
#include "searchers/hparam_space.h"
#include "searchers/repeats.h"
#include "searchers/search_plan.h"

namespace dtrain {
namespace {

using Urgency = Outbox::Urgency;

// Beginning of the reason of a trial that has trained for as long as it may.
constexpr std::string_view kTimeLimit = "trial_time_limit";
// Seconds by which NCCL's timeout is longer than the runner's.
constexpr double kNcclTimeoutMargin = 60;

// "ended early: the loss is below 0.1".
std::string EarlyReason(const std::string& why) {
  return std::string(kEndedEarly) + (why.empty() ? " by itself" : ": " + why);
}

// Returns what the next process of a trial, which resumes from `latest`, is to
// do, without the paths of its files. REQUIRES: it has an operation.
TrialSpec MakeSpec(const ExperimentSetup& setup, const TrialState& trial,
                   const CheckpointRow* latest) {
  const ExperimentConfig& config = setup.config;
  TrialSpec spec;
  spec.id = trial.row.id;
  spec.run = trial.row.runs;
  spec.entrypoint = EntrypointText(config);
  spec.library = setup.options.library;
  spec.rules = config.rules;
  if (const auto* words =
          std::get_if<std::vector<std::string>>(&config.entrypoint)) {
    spec.command = *words;
    spec.placeholders = config.placeholders;
    spec.metrics = config.metrics;
    spec.max_length = Length{config.searcher.max_length, config.length_unit};
    spec.stops_trials = config.searcher.stop_once;
    spec.alternatives =
        Alternatives(config.hyperparameters, config.searcher.name == "grid");
  }
  spec.hparams = trial.row.hparams;
  spec.data = config.data;
  spec.seed = trial.row.seed;
  spec.world_size = setup.ranks;
  // The runner is to act first, because it reports the cause.
  spec.nccl_timeout = config.hang_timeout + kNcclTimeoutMargin;
  spec.threads = setup.threads;
  if (latest != nullptr) spec.restore = latest->uuid;
  for (const std::int64_t length : trial.completed) {
    spec.completed.push_back({length, config.length_unit});
  }
  spec.until = Length{trial.operations.front(), config.length_unit};
  spec.settings = config.training;
  spec.settings.searcher_metric = config.searcher.metric;
  spec.settings.smaller_is_better = config.searcher.smaller_is_better;
  return spec;
}

}  // namespace

void Experiment::HandleEvents() {
  while (!events_.empty()) {
    const Event event = std::move(events_.front());
    events_.pop_front();
    ApplyEvent(event);
    const bool goes_on = std::get_if<Extended>(&event) != nullptr ||
                         std::get_if<Retried>(&event) != nullptr;
    TrialState* subject = nullptr;
    if (const auto* done = std::get_if<ValidationCompleted>(&event)) {
      subject = trials_.Find(done->trial + 1);
      if (subject != nullptr) RecordResult(*subject);
    }
    if (search_.ended() && !goes_on) {
      if (subject != nullptr) Advance(*subject);
      continue;
    }
    // Handle also queues the record of the event with its operations.
    const std::vector<Operation> operations = search_.Handle(event, outbox_);
    if (goes_on) {
      Reopen(operations, std::get_if<Retried>(&event) != nullptr);
    }
    for (const Operation& operation : operations) {
      if (const auto* create = std::get_if<Create>(&operation)) {
        AddTrial(*create);
      }
      TrialState* trial = trials_.ApplyOperation(event, operation);
      if (trial != nullptr) Advance(*trial);
    }
    // An earlier event may have made this its last operation.
    if (subject != nullptr) Advance(*subject);
    if (search_.over()) CloseAll();
  }
}

// Ends all trials, those with an operation once it is complete.
void Experiment::CloseAll() {
  std::vector<TrialState*> left;
  for (const auto& [number, trial] : trials_.trials()) {
    left.push_back(trial.get());
  }
  for (TrialState* trial : left) {
    trial->close_requested = true;
    Advance(*trial);
  }
}

void Experiment::ApplyEvent(const Event& event) {
  trials_.ApplyEvent(event);
  if (const auto* done = std::get_if<ValidationCompleted>(&event)) {
    rungs_.Count(done->length);
  }
}

namespace {

// Returns the trials that can train no further from where they were: all their
// checkpoints were deleted.
std::vector<TrialIndex> FindLost(const Store& store, std::int64_t experiment) {
  std::map<std::int64_t, bool> has_checkpoint;
  for (const CheckpointRow& row : store.Checkpoints(experiment, true)) {
    has_checkpoint[row.trial.number] |= row.state == "COMPLETED";
  }
  std::vector<TrialIndex> lost;
  for (const auto& [number, has] : has_checkpoint) {
    if (!has) lost.push_back(number - 1);
  }
  return lost;
}

}  // namespace

// True if the recorded plan is not that of the searcher.
bool Experiment::IsExtensionDue() const {
  const auto get_plan = [](const auto& plan) {
    return std::tuple(plan.max_trials, plan.budget, plan.budget_seconds);
  };
  if (search_.extension()) {
    return get_plan(plan_) != get_plan(*search_.extension());
  }
  return get_plan(plan_) !=
         get_plan(setup_.created.value_or(setup_.config.searcher));
}

// Passes a recorded extension of the plan to the searcher. What happened before
// must be recorded: trials that have ended are restored from the record.
void Experiment::ExtendSearch() {
  if (!IsExtensionDue() || stop_.stopping() || !outbox_.empty()) return;
  // After an early end, once all trials have ended.
  if (search_.ended() && !trials_.trials().empty()) return;
  const nlohmann::json& space = setup_.config.hyperparameters;
  progress_ = SearchProgress(plan_, space);
  const auto detail = deps_.store.Experiment(setup_.id);
  if (detail) progress_.Set(detail->row.progress);
  requests_.SetMostTrials(TrialsAtOnce(plan_, space));
  Post(Extended{plan_.max_trials, plan_.budget, plan_.budget_seconds,
                FindLost(deps_.store, setup_.id)});
  HandleEvents();
  if (search_.over() && IsModelBased(plan_)) {
    deps_.reporter.OnNotice(
        LogLevel::kWarning,
        "the budget of the search is spent, so nothing more is trained; "
        "extend it with --budget");
  }
}

// Ends the search before its plan. A trial without a process ends at once; one
// with a process when that exits, which a target asks it to at once and a
// duration after its next validation.
void Experiment::EndSearch(std::string reason, TrialIndex trial) {
  const bool is_over = search_.over() && searcher().repeats == 1;
  if (is_over || search_.ended() || stop_.stopping()) return;
  deps_.reporter.OnNotice(LogLevel::kInfo, reason + "; the search ends");
  (void)search_.Handle(Ended{std::move(reason), time_.Seconds(Now()), trial},
                       outbox_);
  queue_.Clear();
  CloseAll();
}

// Asks all processes to end.
void Experiment::EndAtTarget(TrialId trial, double value) {
  const auto& plan = searcher();
  const std::string subject =
      plan.repeats > 1
          ? "point " +
                std::to_string(
                    FindRepeatPlace(trial.number, plan.repeats).first) +
                ", " + plan.repeat_metric + " "
          : "trial " + ToString(trial) + ", ";
  EndSearch("target reached: " + subject + plan.metric + " " +
                FormatRounded(value, 6),
            trial.number - 1);
  for (const auto& [number, other] : trials_.live()) {
    if (other->process->stop() == StopCause::kNone) {
      StopProcess(*other, StopCause::kPause);
    }
  }
}

// Ends the search if its best so far reaches the target.
void Experiment::CheckTarget() {
  const auto& best = best_.validation();
  // With repeats, the last trial of the search may complete what reaches it.
  const bool is_over = search_.over() && (searcher().repeats == 1 ||
                                          search_.ended() || search_.failed());
  if (!best || is_over || search_.has_reached_target() ||
      !ReachesTarget(searcher(), best->value)) {
    return;
  }
  EndAtTarget({setup_.id, best_.trial()}, best->value);
}

// Records the best point, which may be the one that a repeat of has ended; 0:
// compares all again.
void Experiment::RecordBestPoint(std::int64_t point) {
  outbox_.Add(
      [this, point](StoreWriter& writer) {
        const auto& plan = searcher();
        const Store& store = deps_.store;
        const std::int64_t id = setup_.id;
        const bool over = search_.over();
        const auto present = store.Experiment(id);
        if (point == 0 ||
            FindRepeatPlace(present->row.best_trial, plan.repeats).first ==
                point) {
          SetBestPoint(store, writer, id, over);
          return;
        }
        std::vector<TrialRow> rows;
        for (std::int64_t i = 0; i < plan.repeats; ++i) {
          const auto row =
              store.Trial({id, (point - 1) * plan.repeats + 1 + i});
          if (row) rows.push_back(*row);
        }
        const auto points =
            ListPoints(rows, plan.repeat_metric, plan.smaller_is_better);
        const PointRow* best =
            FindBestPoint(points, plan.repeats, over, plan.smaller_is_better);
        const auto& before = present->row.best;
        if (best == nullptr || (before && !IsBetter(*best->value, before->value,
                                                    plan.smaller_is_better))) {
          return;
        }
        BestValidation value = best->best;
        value.value = *best->value;
        writer.SetExperimentBest(id, best->best_trial, value);
      },
      Urgency::kUrgent);
  outbox_.After([this, known = best_.validation()] {
    ReadBest();
    const auto& best = best_.validation();
    if (best && (!known || IsBetter(best->value, known->value,
                                    searcher().smaller_is_better))) {
      Notify("best", nlohmann::json::object());
    }
  });
}

// Ends a trial that the end of the search has cut off. REQUIRES: it has no
// process.
void Experiment::EndCutOff(TrialState& trial) {
  const std::string remarks = Remarks(trial);
  const auto& [why, seconds, reached_by] = *search_.ended();
  End(trial, reached_by == trial.index() ? State::kCompleted : State::kStopped,
      remarks.empty() ? why : why + "; " + remarks);
}

namespace {

// What the searcher knows of a trial, by the record of its events.
struct KnownTrial {
  bool open = true;                // neither closed nor exited
  std::int64_t length = 0;         // completed
  std::optional<ExitReason> exit;  // the last one
};

std::map<TrialIndex, KnownTrial> FindKnownTrials(
    const std::vector<SearcherEventRow>& events) {
  std::map<TrialIndex, KnownTrial> known;
  for (const SearcherEventRow& row : events) {
    const Event event = EventFromJson(row.event);
    if (const auto* done = std::get_if<ValidationCompleted>(&event)) {
      known[done->trial].length = done->length;
    } else if (const auto* closed = std::get_if<Closed>(&event)) {
      known[closed->trial].open = false;
    } else if (const auto* early = std::get_if<ExitedEarly>(&event)) {
      known[early->trial].open = false;
      known[early->trial].exit = early->reason;
    }
    for (const nlohmann::json& json : row.operations) {
      const Operation operation = OperationFromJson(json);
      if (const auto* create = std::get_if<Create>(&operation)) {
        known[create->trial] = {};
      } else if (const auto* reopen = std::get_if<Reopen>(&operation)) {
        known[reopen->trial].open = true;
        known[reopen->trial].exit.reset();
      }
    }
  }
  return known;
}

// Returns how a trial exited after an early end of the search, which the
// searcher has not heard of; none if it continues when the search does. A trial
// that failed does so only if failed trials run again.
std::optional<ExitReason> FindUnknownExit(const TrialRow& row, bool retries) {
  if (row.state == State::kInvalid) return ExitReason::kInvalidHp;
  if (row.state == State::kError && !retries) return ExitReason::kErrored;
  const bool is_killed =
      row.state == State::kCanceled && row.reason == kKilledReason;
  return is_killed ? std::optional(ExitReason::kUserStop) : std::nullopt;
}

}  // namespace

// Has the searcher run trials in ERROR again. Those whose error it does not
// know, since the search had ended, continue in any case (see Reopen).
void Experiment::RetryFailed() {
  const auto known = FindKnownTrials(deps_.store.SearcherEvents(setup_.id, 0));
  const std::vector<TrialRow> rows = deps_.store.Trials(setup_.id);
  Retried retried{.trials = {}, .lost = FindLost(deps_.store, setup_.id)};
  double failed = 0;
  for (const TrialRow& row : rows) {
    if (row.state != State::kError) continue;
    ++failed;
    const TrialIndex trial = row.id.number - 1;
    const KnownTrial& of = known.at(trial);
    if (of.exit == ExitReason::kErrored) {
      retried.trials.push_back({trial, of.length});
    }
  }
  if (failed == 0) return;
  const double progress =
      progress_.recorded() * (1 - failed / static_cast<double>(rows.size()));
  progress_.Set(progress);
  outbox_.Add(
      [id = setup_.id, progress](StoreWriter& writer) {
        writer.SetExperimentProgress(id, progress);
      },
      Urgency::kUrgent);
  failures_.Reset();
  Post(std::move(retried));
  HandleEvents();
  RecordAll();
}

// Restores the trials that have ended and that the search has more for: those
// of Reopen operations, and those that an early end of the search, or the
// failure of the experiment, has cut off.
void Experiment::Reopen(const std::vector<Operation>& operations,
                        bool retries) {
  const auto events = deps_.store.SearcherEvents(setup_.id, 0);
  const auto known = FindKnownTrials(events);
  std::set<TrialIndex> reopened;
  for (const Operation& operation : operations) {
    if (const auto* reopen = std::get_if<dtrain::Reopen>(&operation)) {
      reopened.insert(reopen->trial);
    }
  }
  std::vector<TrialRow> rows;
  for (TrialRow& row : deps_.store.Trials(setup_.id)) {
    const TrialIndex trial = row.id.number - 1;
    const auto found = known.find(trial);
    const bool is_open = found != known.end() && found->second.open;
    if (!IsFinal(row.state) || !(is_open || reopened.contains(trial))) continue;
    const auto exit = FindUnknownExit(row, retries);
    if (is_open && exit) {
      Post(ExitedEarly{trial, *exit});
    } else {
      rows.push_back(std::move(row));
    }
  }
  if (rows.empty()) {
    if (searcher().repeats > 1) RecordBestPoint(/*point=*/0);
    return;
  }
  trials_.Reopen(rows, events);
  std::set<TrialId> ids;
  for (const TrialRow& row : rows) ids.insert(row.id);
  for (CheckpointRow& row : deps_.store.Checkpoints(setup_.id)) {
    if (row.state == "COMPLETED" && ids.contains(row.trial)) {
      DeleteCheckpoints(keeper_.Add(std::move(row)));
    }
  }
  for (const TrialRow& row : rows) {
    TrialState& trial = *trials_.Find(row.id.number);
    trial.row.failures = 0;
    if (retries) trial.seconds_forgiven = trial.row.seconds;
    const bool is_cut_off = !reopened.contains(trial.index());
    if (is_cut_off) trial.RecoverEarlyEnd(row.reason);
    SetState(trial, State::kPaused, is_cut_off ? Remarks(trial) : "");
    outbox_.Add(
        [row = trial.row](StoreWriter& writer) {
          writer.SetTrialRestarts(row.id, row.restarts, row.failures);
        },
        Urgency::kUrgent);
    if (!is_cut_off) continue;
    // It may have completed its operation after the end of the search.
    if (trial.has_work() &&
        row.rung > static_cast<std::int64_t>(trial.completed.size())) {
      Post(ValidationCompleted{trial.index(), trial.operations.front(),
                               row.latest
                                   ? row.latest->value
                                   : std::numeric_limits<double>::quiet_NaN()});
    } else {
      Advance(trial);
    }
  }
  if (searcher().repeats > 1) RecordBestPoint(/*point=*/0);
}

void Experiment::AddTrial(const Create& create) {
  TrialRow row;
  row.id = {setup_.id, create.trial + 1};
  row.request_id = create.request_id;
  row.hparams = create.hparams;
  row.seed = create.seed;
  const auto place = FindRepeatPlace(row.id.number, searcher().repeats);
  if (searcher().repeats > 1) std::tie(row.point, row.repeat) = place;
  if (const auto& first = setup_.config.trial_seed) {
    row.seed = RepeatSeed(*first, place.second);
  }
  row.created = deps_.clock.now();
  outbox_.Add([row](StoreWriter& writer) { writer.AddTrial(row); },
              Urgency::kUrgent);
  trials_.Add(std::move(row));
  Post(Created{create.trial});
}

void Experiment::RecordResult(TrialState& trial) {
  outbox_.Add([id = trial.row.id, rung = trial.row.rung](
                  StoreWriter& writer) { writer.SetTrialRung(id, rung); },
              Urgency::kUrgent);
  const std::string remarks = Remarks(trial);
  if (remarks != trial.row.reason) {
    SetState(trial, trial.row.state, remarks);
  }
}

// Takes the trial's next step: queues it for a slot, sends its process the next
// operation, or ends it.
void Experiment::Advance(TrialState& trial) {
  if (trial.ended) return;
  if (trial.has_work() && trial.ended_early) {
    // The searcher asks for more than the trial wants to train.
    trial.operations.clear();
    trial.close_requested = trial.exit_reported = true;
    Post(ExitedEarly{trial.index(), ExitReason::kUserStop});
  }
  if (trial.has_work() && !trial.process) {
    if (search_.ended()) return EndCutOff(trial);
    if (IsOverTime(trial)) return EndByTime(trial);
  }
  if (trial.process) return SendNext(trial);
  if (trial.has_work()) {
    if (!stop_.stopping()) queue_.Add(trial.turn, trial.row.id.number);
  } else if (trial.close_requested) {
    CloseFinished(trial);
  }
}

void Experiment::SendNext(TrialState& trial) {
  TrialProcess& process = *trial.process;
  // A process that is being stopped gets nothing; its exit is handled later.
  if (process.stop() != StopCause::kNone) return;
  const TrialId id = trial.row.id;
  Launcher& launcher = deps_.launcher;
  if (trial.has_work() && !process.operation_sent()) {
    // A process has one operation at a time; it gets the next one when the
    // completion of this one was handled.
    process.SetOperationSent(true);
    process.SetAlive(Now());
    process.SetWorking(Now());
    const Length until{trial.operations.front(), setup_.config.length_unit};
    outbox_.After(
        [&launcher, id, until] { launcher.Send(id, RunOperation{until}); });
  } else if (!trial.has_work() && trial.close_requested &&
             !process.close_sent()) {
    process.SetCloseSent();
    outbox_.After([&launcher, id] { launcher.Send(id, CloseTrial{}); });
  }
  trials_.Refile(trial);
}

void Experiment::CloseFinished(TrialState& trial) {
  const bool is_cut = trial.why_early.starts_with(kTimeLimit);
  const auto& ended = search_.ended();
  const bool has_reached = ended && ended->reached_by == trial.index();
  const bool whole = trial.trained() >= searcher().max_length && !is_cut;
  std::string reason = Remarks(trial);
  if (has_reached || (!whole && !trial.ended_early)) {
    const std::string why =
        ended ? ended->reason
              : rungs_.StopReason(trial.row.rung, trial.trained());
    reason = reason.empty() ? why : why + "; " + reason;
  }
  if (!trial.exit_reported) Post(Closed{trial.index()});
  const bool is_done = whole || has_reached || (trial.ended_early && !is_cut);
  End(trial, is_done ? State::kCompleted : State::kStopped, reason);
}

// True if the trial has trained for as long as it may, in all its runs.
bool Experiment::IsOverTime(const TrialState& trial) const {
  const auto& limit = setup_.config.trial_time_limit;
  if (!limit) return false;
  double seconds = trial.row.seconds - trial.seconds_forgiven;
  if (trial.process && trial.process->running()) {
    seconds +=
        std::chrono::duration<double>(Now() - trial.process->started()).count();
  }
  return seconds >= *limit;
}

// Asks trials that have trained for as long as they may to save a checkpoint
// and end.
void Experiment::CheckTrialTimes() {
  std::vector<TrialState*> over;
  for (const auto& [number, trial] : trials_.live()) {
    if (trial->has_work() && trial->process->stop() == StopCause::kNone &&
        IsOverTime(*trial)) {
      over.push_back(trial);
    }
  }
  for (TrialState* trial : over) StopProcess(*trial, StopCause::kTime);
}

// Completes the operation of a trial that may train no longer by its last
// validation. REQUIRES: it has an operation and no process.
void Experiment::EndByTime(TrialState& trial) {
  const std::string why =
      std::string(kTimeLimit) + " of " +
      FormatDuration(std::chrono::duration_cast<Duration>(
          std::chrono::duration<double>(*setup_.config.trial_time_limit))) +
      " reached";
  if (!trial.row.latest) {
    return Abandon(trial, ExitReason::kErrored, why + " without a validation");
  }
  trial.SetEndedEarly(why);
  Post(ValidationCompleted{trial.index(), trial.operations.front(),
                           trial.row.latest->value,
                           std::exchange(trial.worked, 0.0)});
}

// Ends a trial in ERROR or INVALID. The text of the reason tells them apart in
// the record.
void Experiment::Abandon(TrialState& trial, ExitReason why,
                         const std::string& text) {
  const bool invalid = why == ExitReason::kInvalidHp;
  const bool clash = !invalid && text.starts_with(kInvalidReason);
  const std::string reason = clash ? "failed: " + text : text;
  if (!trial.exit_reported) Post(ExitedEarly{trial.index(), why});
  End(trial, invalid ? State::kInvalid : State::kError, reason);
  if (!invalid) {
    Notify("trial_error", {{"trial",
                            {{"id", ToString(trial.row.id)},
                             {"reason", reason},
                             {"hyperparameters", trial.row.hparams}}}});
  }
  failures_.SetEnded(trial.row);
}

// Ends a trial that a user has killed. REQUIRES: it has no process.
void Experiment::Cancel(TrialState& trial) {
  if (!trial.exit_reported) {
    Post(ExitedEarly{trial.index(), ExitReason::kUserStop});
  }
  End(trial, State::kCanceled, std::string(kKilledReason));
}

void Experiment::End(TrialState& trial, State state,
                     const std::string& reason) {
  trial.operations.clear();
  RecordBatches(trial);
  SetState(trial, state, reason);
  DeleteCheckpoints(keeper_.End(trial.row.id));
  CleanWorkingTree(trial.row.id);
  if (searcher().repeats > 1) {
    RecordBestPoint(
        FindRepeatPlace(trial.row.id.number, searcher().repeats).first);
  }
  ReportEnd(trial);
  trials_.End(trial);
}

// Changes a trial's state, in the record too.
void Experiment::SetState(TrialState& trial, State state,
                          const std::string& reason) {
  trial.row.state = state;
  trial.row.reason = reason;
  outbox_.Add(
      [id = trial.row.id, state, reason,
       now = deps_.clock.now()](StoreWriter& writer) {
        writer.SetTrialState(id, state, now, reason);
      },
      IsFinal(state) ? Urgency::kDurable : Urgency::kBatched);
}

// Reports the end of a trial or of its process.
void Experiment::ReportEnd(const TrialState& trial) {
  TrialRow row = trial.row;
  // It resumes from there, not from where it was before it failed.
  if (!IsFinal(row.state)) row.batches = trial.position;
  outbox_.After(
      [this, row = std::move(row), lines = trial.last_lines]() mutable {
        // The store computes best and latest, from values that are not
        // superseded.
        if (const auto recorded = deps_.store.Trial(row.id)) {
          row.best = recorded->best;
          row.latest = recorded->latest;
          row.started = recorded->started;
          row.ended = recorded->ended;
        }
        deps_.reporter.OnTrialEnded(row, lines);
      });
}

// Records checkpoints as deleted, and then deletes them.
void Experiment::DeleteCheckpoints(const CheckpointKeeper::Rows& checkpoints) {
  for (const CheckpointRow& row : checkpoints) {
    best_.ClearCheckpoint(row.uuid);
    outbox_.Add(
        [uuid = row.uuid](StoreWriter& writer) {
          writer.SetCheckpointState(uuid, "DELETED");
        },
        // A power cut must not restore the row of files that are gone.
        Urgency::kDurable);
    const auto path = deps_.store.CheckpointPath(row);
    outbox_.After([path] { RemoveQuietly(path); });
  }
}

// Removes from the working tree of an ended program the files that it did not
// write, once its end is recorded.
void Experiment::CleanWorkingTree(TrialId trial) {
  if (!files_.has_working_trees()) return;
  outbox_.After([this, trial] { files_.CleanWorkingTree(trial); });
}

// Returns facts about the trial that a user should know in any state.
std::string Experiment::Remarks(const TrialState& trial) const {
  std::vector<std::string> remarks;
  if (trial.ended_early) remarks.push_back(EarlyReason(trial.why_early));
  if (trial.bad_metric) {
    const std::string& metric = searcher().metric;
    const std::string remark =
        (metric.starts_with("validation") ? "" : "validation ") + metric +
        (metrics_.may_lack() && !trial.row.latest
             ? " was not reported"
             : " was " + FormatNumber(*trial.bad_metric));
    // A recovered reason contains it already.
    if (!trial.why_early.ends_with(remark)) remarks.push_back(remark);
  }
  const std::string late = failures_.late(trial.row.id.number);
  if (!late.empty()) remarks.push_back(late);
  return Join(remarks, "; ");
}

// Returns the remarks and, if all trials are being paused, the reason for that.
std::string Experiment::PauseReason(const TrialState& trial) const {
  const std::string remarks = Remarks(trial);
  // A trial without an operation is only pending on the others.
  if (!trial.has_work() || stop_.why().empty()) return remarks;
  return remarks.empty() ? stop_.why() : remarks + "; " + stop_.why();
}

std::size_t Experiment::FreeSlots() const {
  const std::size_t live = trials_.live().size();
  const std::size_t most = requests_.MaxTrials();
  const std::size_t allowed = most > live ? most - live : 0;
  const std::size_t free = std::min(allowed, deps_.launcher.FreeSlots());
  // Slots of trials that restart in a moment are kept for them.
  const std::size_t held = queue_.held();
  return free > held ? free - held : 0;
}

// Starts pending trials. REQUIRES: nothing urgent is unrecorded.
void Experiment::Schedule() {
  if (stop_.stopping()) return;
  // The searcher creates deferred trials if there are more slots than before:
  // another one is pending whenever a slot becomes free.
  const std::size_t places =
      std::min(requests_.MaxTrials(),
               trials_.live().size() + deps_.launcher.FreeSlots());
  const auto ahead = 2 * static_cast<std::int64_t>(places);
  if (search_.creates_ahead() < ahead) {
    Post(PlacesAdded{ahead});
    HandleEvents();
  }
  queue_.Wake(Now());
  while (queue_.size() > 0 && FreeSlots() > 0 && !outbox_.urgent()) {
    TrialState* trial = trials_.Find(queue_.Pop());
    if (trial == nullptr || !trial->has_work()) continue;
    // A trial that starts in a directory that was moved away would write where
    // nobody looks.
    if (StopIfLost()) return;
    Start(*trial);
  }
  if (!outbox_.urgent()) {
    // As many idle processes are stopped as there are pending trials. The slots
    // of those that are ending are about to be free anyway.
    const std::size_t pending = queue_.size();
    for (std::size_t i = trials_.ending();
         i < pending && !trials_.idle().empty(); ++i) {
      StopProcess(*trials_.Find(*trials_.idle().begin()), StopCause::kPause);
    }
  }
  // What trials could use now, also those that have a slot: a launcher that can
  // get machines follows it.
  deps_.launcher.SetDemand(
      std::min(requests_.MaxTrials(), trials_.live().size() + queue_.size()));
}

// Asks the trial's process to save a checkpoint and end.
void Experiment::StopProcess(TrialState& trial, StopCause cause) {
  trial.process->Stop(cause);
  trials_.Refile(trial);
  deps_.launcher.RequestStop(trial.row.id);
}

void Experiment::Start(TrialState& trial) {
  const CheckpointRow* latest = keeper_.Latest(trial.row.id);
  TrialSpec spec = MakeSpec(setup_, trial, latest);
  files_.SetPaths(spec, setup_.config.source_checkpoint_uuid);
  const std::int64_t from = latest == nullptr ? 0 : latest->batches;
  // Trials without checkpoints repeat their training, which a run says once.
  const bool repeats = !trial.completed.empty() && latest == nullptr;
  if (repeats && !std::exchange(explained_repeat_, true)) {
    deps_.reporter.OnNotice(
        LogLevel::kInfo,
        "trial " + ToString(trial.row.id) +
            " has saved no checkpoint, so it trains from its beginning again, "
            "to " +
            LengthText(trial.operations.front(), setup_.config.length_unit) +
            "; other trials may do so too");
  }
  const TrialProcess& process = trials_.StartProcess(trial, spec.restore, from);
  if (!process.earlier.empty()) {
    outbox_.Add([id = trial.row.id, from](
                    StoreWriter& writer) { writer.TruncateProfile(id, from); },
                Outbox::Urgency::kBatched);
  }
  if (!outbox_.urgent()) return deps_.launcher.Start(spec);
  outbox_.After([this, spec] {
    deps_.launcher.Start(spec);
    // All trials may have been asked to stop since.
    if (stop_.stopping()) deps_.launcher.RequestStop(spec.id);
  });
}

}  // namespace dtrain
