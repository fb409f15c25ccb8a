// Experiment: what the searcher asks of the trials, and their slots. An event
// is recorded in one transaction with the operations that the searcher returned
// for it and with the changes that caused it, so that after a crash the
// searcher has missed none. Trials get slots in the order of their turns; a
// trial without an operation keeps its process, and so its warm start, until
// another trial needs the slot.

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/base/text.h"
#include "engine/run/experiment.h"
#include "searchers/hparam_space.h"

namespace dtrain {
namespace {

using Urgency = Outbox::Urgency;

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
    TrialState* subject = nullptr;
    if (const auto* done = std::get_if<ValidationCompleted>(&event)) {
      subject = trials_.Find(done->trial + 1);
      if (subject != nullptr) RecordResult(*subject);
    }
    // Handle also queues the record of the event with its operations.
    for (const Operation& operation : search_.Handle(event, outbox_)) {
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

void Experiment::AddTrial(const Create& create) {
  TrialRow row;
  row.id = {setup_.id, create.trial + 1};
  row.request_id = create.request_id;
  row.hparams = create.hparams;
  row.seed = setup_.config.trial_seed.value_or(create.seed);
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
  const bool whole = trial.trained() >= searcher().max_length;
  std::string reason = Remarks(trial);
  if (!whole && !trial.ended_early) {
    const std::string why = rungs_.StopReason(trial.row.rung, trial.trained());
    reason = reason.empty() ? why : why + "; " + reason;
  }
  if (!trial.exit_reported) Post(Closed{trial.index()});
  End(trial, whole || trial.ended_early ? State::kCompleted : State::kStopped,
      reason);
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
