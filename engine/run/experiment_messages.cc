// Experiment: messages of trials. A message is acknowledged once its record is
// written. Until then the trial keeps it, in its checkpoints too, from which a
// restarted process sends it again. A restarted trial repeats the steps since
// its checkpoint. Its new values replace the earlier ones batch by
// batch, and those it does not measure again are superseded once it has trained
// past them (see EarlierValues).

#include <algorithm>
#include <limits>
#include <utility>
#include <variant>
#include <vector>

#include "engine/base/text.h"
#include "engine/run/experiment.h"

namespace dtrain {
namespace {

using Urgency = Outbox::Urgency;

// A message that a checkpoint has brought was measured by an earlier run, which
// is taken to be the last one.
std::int64_t FindRun(const TrialState& trial, std::int64_t batches,
                     Timestamp time) {
  const bool earlier = trial.process->IsFromCheckpoint(batches, time);
  return earlier ? std::max<std::int64_t>(trial.row.runs - 1, 1)
                 : trial.row.runs;
}

// True if a report has not been shown to the user. One that is sent again after
// a restart may have been: it is older than the last one shown, or recorded by
// an earlier runner, which has shown it.
bool MarkShown(TrialState& trial, MetricKind kind, std::int64_t batches,
               Timestamp time, bool recorded = false) {
  Timestamp& shown = trial.shown.at(static_cast<std::size_t>(kind));
  if (trial.process->IsFromCheckpoint(batches, time) &&
      (recorded || time <= shown)) {
    return false;
  }
  shown = time;
  return true;
}

}  // namespace

void Experiment::On(const TrialStarted& event) {
  TrialState* trial = trials_.Find(event.trial.number);
  if (trial == nullptr || !trial->process) return;
  // The trial goes on, so it does not matter any more how its last process
  // ended.
  failures_.SetStarted(event.trial.number);
  trial->process->SetRunning(Now(), deps_.clock.now());
  trials_.Refile(*trial);
  ++trial->row.runs;
  trial->row.pid = event.pid;
  trial->row.slots = Join(event.slots, ",");
  SetState(*trial, State::kRunning, Remarks(*trial));
  outbox_.Add([id = event.trial,
               process = RecordedProcess{.pid = event.pid,
                                         .start_ticks = event.start_ticks,
                                         .boot_id = setup_.boot_id,
                                         .slots = trial->row.slots}](
                  StoreWriter& writer) { writer.SetTrialProcess(id, process); },
              Urgency::kBatched);
  ReportedAt from{.batches = trial->process->from()};
  const CheckpointRow* restored = keeper_.At(trial->row.id, from.batches);
  if (restored != nullptr) from.epoch = restored->epoch;
  outbox_.After([this, row = trial->row, from] {
    deps_.reporter.OnTrialStarted(row, from);
  });
}

void Experiment::On(const MessageReceived& event) {
  TrialState* trial = trials_.Find(event.trial.number);
  if (trial == nullptr || !trial->process) return;
  std::visit([&](const auto& message) { On(*trial, message); }, event.message);
}

void Experiment::Acknowledge(TrialState& trial, std::int64_t seq) {
  // The acknowledgement that is queued will cover this message, too.
  if (!trial.process->Receive(seq)) return;
  outbox_.After([this, id = trial.row.id] {
    TrialState* sender = trials_.Find(id.number);
    if (sender == nullptr || !sender->process) return;  // it has ended
    const std::int64_t recorded = sender->process->PopUnacknowledged();
    if (recorded == 0) return;
    deps_.launcher.Send(id, dtrain::Acknowledge{recorded});
  });
}

void Experiment::On(TrialState& trial, const Ready&) {
  trial.process->SetAlive(Now());
  trial.process->SetWorking(Now());
}

void Experiment::On(TrialState& trial, const Progress& progress) {
  trial.process->SetProgress(progress, Now());
  if (!trial.has_work()) return;
  const std::int64_t until = trial.operations.front();
  ReportUnit(lengths_.Detect(progress, until));
  trials_.Reach(trial, lengths_.Reached(progress, until));
}

// Tells the reporter the unit of the trials' counts after it was detected.
void Experiment::ReportUnit(bool has_changed) {
  if (!has_changed) return;
  outbox_.After([this, counted = lengths_.units().counted] {
    deps_.reporter.OnCounted(counted);
  });
}

// Sets the batches trained. After a restart lower numbers may come again.
void Experiment::SetBatches(TrialState& trial, std::int64_t batches) {
  trial.position = std::max(trial.position, batches);
  if (batches <= trial.row.batches) return;
  trial.row.batches = batches;
  unrecorded_batches_.insert(trial.row.id.number);
}

// Sets what a report tells of the trial's position, which comes before the next
// Progress.
void Experiment::SetPosition(TrialState& trial, const ReportedAt& at) {
  SetBatches(trial, at.batches);
  if (trial.has_work()) {
    trials_.Reach(trial, lengths_.Reached(at, trial.operations.front()));
  }
  ReportUnit(lengths_.Detect(at.batches, at.epoch));
}

void Experiment::On(TrialState& trial, const TrainingReport& report) {
  trial.process->SetAlive(Now());
  UpdateMetrics(trial.process->training, report.metrics);
  SetPosition(trial, {.batches = report.batches, .epoch = report.epoch});
  failures_.SetReported(/*measured=*/false);
  // A program that trains may still end without its result each time.
  if (!trial.last_failure.starts_with(kNoResult)) trial.last_failure.clear();
  // A report that is sent again for an earlier process lacks the names.
  if (report.unread) {
    WarnOfUnread(trial, *report.unread);
    unread_.Record(trial.row, *report.unread);
  }
  outbox_.Add(
      [id = trial.row.id, report,
       run = FindRun(trial, report.batches, report.time)](StoreWriter& writer) {
        writer.AddMetrics(id, MetricKind::kTraining, report.batches,
                          report.epoch, report.metrics, report.time, run);
      },
      Urgency::kBatched);
  // Behind the new values, so that a trial never has neither.
  SupersedeUntil(trial, MetricKind::kTraining, report.batches);
  Acknowledge(trial, report.seq);
  if (!MarkShown(trial, MetricKind::kTraining, report.batches, report.time)) {
    return;
  }
  outbox_.After([this, id = trial.row.id, report] {
    deps_.reporter.OnTraining(id, report);
  });
}

void Experiment::On(TrialState& trial, const ValidationReport& report) {
  trial.process->SetAlive(Now());
  trial.process->validation = report.metrics;
  const bool recorded =
      trial.row.latest && trial.row.latest->batches >= report.batches;
  SetPosition(trial, {.batches = report.batches, .epoch = report.epoch});
  failures_.SetReported(/*measured=*/false);
  CheckFirstValidation(trial, report.batches, report.unread);
  const ReportedAt at{.batches = report.batches, .epoch = report.epoch};
  const std::string far = lengths_.WarnOfFarCount(at);
  if (!far.empty()) {
    deps_.reporter.OnNotice(LogLevel::kWarning,
                            "trial " + ToString(trial.row.id) + ": " + far);
  }
  outbox_.Add(
      [id = trial.row.id, report,
       run = FindRun(trial, report.batches, report.time)](StoreWriter& writer) {
        writer.AddMetrics(id, MetricKind::kValidation, report.batches,
                          report.epoch, report.metrics, report.time, run);
      },
      Urgency::kBatched);
  SupersedeUntil(trial, MetricKind::kValidation, report.batches);
  Acknowledge(trial, report.seq);
  const auto value = SearcherMetric(trial, report.metrics);
  const std::string lacks = metrics_.CheckStopping(report.metrics);
  if (value && !lacks.empty()) Fail(trial, StopCause::kFailure, lacks);
  const bool best = value && RecordValidation(trial, *value, at);
  if (search_.ended() && trial.process->stop() == StopCause::kNone) {
    StopProcess(trial, StopCause::kPause);
  }
  if (!MarkShown(trial, MetricKind::kValidation, report.batches, report.time,
                 recorded)) {
    return;
  }
  outbox_.After([this, id = trial.row.id, report, best] {
    deps_.reporter.OnValidation(id, report, best);
  });
}

void Experiment::On(TrialState& trial, const CheckpointSaved& saved) {
  trial.process->SetAlive(Now());
  trial.process->SetSaved();
  ReportUnit(lengths_.Detect(saved.batches, saved.epoch));
  // It may be in the wrong place. The next run finds it if it is complete.
  if (StopIfLost()) return Acknowledge(trial, saved.seq);
  CheckpointRow row{.uuid = saved.uuid,
                    .trial = trial.row.id,
                    .state = "COMPLETED",
                    .batches = saved.batches,
                    .epoch = saved.epoch,
                    .bytes = saved.bytes,
                    .files = saved.files,
                    .storage = files_.storage(),
                    .time = saved.time};
  const auto& validated = trial.process->validated;
  if (validated && validated->batches == saved.batches) {
    row.metric = validated->value;
  }
  if (trial.process->Unblock(Now())) {
    SetState(trial, State::kRunning, Remarks(trial));
    deps_.reporter.OnNotice(
        LogLevel::kInfo,
        "trial " + ToString(trial.row.id) +
            ": disk space is available again; saved a checkpoint at " +
            PositionText(row.at(), lengths_.units()));
  }
  // The row must be on the disk before two things that depend on it: the
  // acknowledgement, after which the trial forgets the reports that the
  // checkpoint contains, and the deletion of older checkpoints.
  best_.SetCheckpoint(row.trial, row.batches, row.uuid);
  outbox_.Add([row](StoreWriter& writer) { writer.AddCheckpoint(row); },
              Urgency::kDurable);
  Acknowledge(trial, saved.seq);
  DeleteCheckpoints(keeper_.Add(std::move(row)));
  trial.row.latest_checkpoint = keeper_.Latest(trial.row.id)->uuid;
  outbox_.After([this, id = trial.row.id, saved] {
    deps_.reporter.OnCheckpoint(id, saved);
  });
}

void Experiment::On(TrialState& trial, const CheckpointFailed& failed) {
  TrialProcess& process = *trial.process;
  process.SetAlive(Now());
  if (failed.waits && process.Block(Now(), failed.message)) {
    SetState(trial, State::kRunning, "waits for disk space: " + failed.message);
  }
  if (!process.IsNewsOfDisk(failed.waits)) return;
  outbox_.After([this, id = trial.row.id, failed] {
    deps_.reporter.OnCheckpointFailed(id, failed);
  });
}

void Experiment::On(TrialState& trial, const OperationCompleted& completed) {
  Acknowledge(trial, completed.seq);
  // The checkpoint is in the wrong place.
  if (StopIfLost()) return;
  // A restarted process may send the completion again, from its checkpoint.
  const bool expected =
      trial.has_work() && trial.operations.front() == completed.length.count;
  if (!expected || trial.process->stop() == StopCause::kFailure) return;
  CheckFirstValidation(trial, completed.batches, completed.unread);
  const auto metric = FindResult(trial, completed);
  if (!metric) return;
  trial.last_failure.clear();
  SupersedeEarlierRuns(trial, *trial.process);
  if (completed.early) trial.SetEndedEarly(completed.why_early);
  const double seconds = DrainOperationSeconds(trial, completed.batches, Now());
  Post(ValidationCompleted{trial.index(), completed.length.count, *metric,
                           seconds});
}

// Returns the searcher's metric of a completed operation. Fails the trial and
// returns none if it was not reported.
std::optional<double> Experiment::FindResult(
    TrialState& trial, const OperationCompleted& completed) {
  const TrialProcess& process = *trial.process;
  const std::int64_t batches = completed.batches;
  const auto& latest = trial.row.latest;
  if (completed.metrics.empty()) {
    const auto& validated = process.validated;
    if (validated && validated->batches == batches) return validated->value;
    // An earlier process has validated it; this one had nothing to do. A still
    // earlier run may have got further.
    if (latest && latest->batches <= batches) return latest->value;
    if (latest) {
      return RecordedMetric(trial.row.id, {.from = 0, .until = batches + 1})
          .value_or(latest->value);
    }
  }
  const auto metric = SearcherMetric(trial, completed.metrics);
  if (!metric && metrics_.may_lack()) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  if (!metric) return std::nullopt;
  // The result of a process that found its work done is recorded already.
  const auto& recorded = batches > process.from() ? process.validated : latest;
  if (!recorded || recorded->batches != batches) {
    RecordValidation(trial, *metric, {.batches = batches});
  }
  return metric;
}

void Experiment::On(TrialState& trial, const ProfileReport& profile) {
  SetBatches(trial, profile.batches);
  outbox_.Add([id = trial.row.id, profile](
                  StoreWriter& writer) { writer.AddProfile(id, profile); },
              Urgency::kBatched);
  Acknowledge(trial, profile.seq);
}

// The samples of all trials of a machine arrive at once, and so share a
// transaction.
void Experiment::On(const SystemSampled& event) {
  if (trials_.Find(event.trial.number) == nullptr) return;
  outbox_.Add([id = event.trial, row = SystemRow{.rank = event.rank,
                                                 .time = deps_.clock.now(),
                                                 .sample = event.sample}](
                  StoreWriter& writer) { writer.AddSystemSample(id, row); },
              Urgency::kBatched);
}

void Experiment::On(TrialState& trial, const Finished& finished) {
  trial.process->SetFinished(finished);
  // A trial that failed may not have come to read them.
  if (finished.reason == EndReason::kCompleted ||
      finished.reason == EndReason::kStopped) {
    if (IsCommand(setup_.config)) WarnOfUnread(trial, finished.unread);
    unread_.RecordAtEnd(trial.row, finished.unread);
  }
  if (!finished.unread.empty()) {
    deps_.reporter.OnUnread(trial.row.id, finished.unread);
  }
}

// Warns of hyperparameters that the trial has not read so far.
void Experiment::WarnOfUnread(const TrialState& trial,
                              const std::vector<std::string>& unread) {
  const std::string warning = unread_.Warn(unread);
  if (warning.empty()) return;
  deps_.reporter.OnNotice(LogLevel::kWarning,
                          "trial " + ToString(trial.row.id) + " " + warning);
}

// Fails the experiment if its first validated trial has not read a searched
// hyperparameter: such a search trains one trial many times.
void Experiment::CheckFirstValidation(
    const TrialState& trial, std::int64_t batches,
    const std::optional<std::vector<std::string>>& unread) {
  // An initial validation precedes the reads of training.
  if (batches == 0 || !unread || !setup_.refuse_unread) return;
  const std::string why =
      unread_.CheckFirst(trial.row, *unread, setup_.options.may_read);
  if (!why.empty()) FailExperiment(why);
}

// Returns the searcher's metric. If it was not reported, warns or fails the
// trial.
std::optional<double> Experiment::SearcherMetric(TrialState& trial,
                                                 const MetricValues& metrics) {
  const auto value = metrics_.Find(metrics);
  if (value) return value;
  if (metrics_.may_lack()) {
    const std::string warning = metrics_.Warn(metrics);
    if (!warning.empty()) {
      deps_.reporter.OnNotice(LogLevel::kWarning, warning);
    }
    return std::nullopt;
  }
  const std::string why = metrics_.MissingText(metrics);
  Fail(trial, StopCause::kFailure, why);
  // All trials would fail so.
  if (searcher().name != "single" && !failures_.measured()) {
    FailExperiment("trial " + ToString(trial.row.id) + ": " + why);
  }
  return std::nullopt;
}

bool Experiment::RecordValidation(TrialState& trial, double value,
                                  const ReportedAt& at) {
  const std::int64_t batches = at.batches;
  auto& latest = trial.row.latest;
  failures_.SetReported(/*measured=*/true);
  if (!latest || latest->batches <= batches) {
    latest =
        BestValidation{.value = value, .batches = batches, .epoch = at.epoch};
  }
  trial.process->validated = BestValidation{.value = value, .batches = batches};
  SetBatches(trial, batches);
  outbox_.Add(
      [id = trial.row.id, value, batches, run = trial.row.runs,
       smaller = searcher().smaller_is_better](StoreWriter& writer) {
        writer.AddValidation(id, value, batches, smaller, run);
      },
      Urgency::kBatched);
  // The order of validation and checkpoint at one batch is not fixed, so each
  // looks for the other.
  const bool is_first = !best_.validation();
  const bool best = best_.Offer(trial.row, value, at);
  const CheckpointRow* there = keeper_.At(trial.row.id, batches);
  if (there != nullptr) {
    best_.SetCheckpoint(trial.row.id, batches, there->uuid);
    DeleteCheckpoints(keeper_.SetMetric(trial.row.id, batches, value));
  }
  if (best) Notify("best", nlohmann::json::object());
  // It may have replaced a better value of an earlier run.
  if (trial.process->earlier.Cover(batches)) RefreshBest(trial.row.id);
  // With repeats it is the point that reaches it.
  if (searcher().repeats == 1 && !search_.has_reached_target() &&
      ReachesTarget(searcher(), value)) {
    if (is_first) {
      deps_.reporter.OnNotice(
          LogLevel::kWarning,
          "the first validation of all reaches searcher.target; is it the "
          "right one for smaller_is_better: " +
              std::string(searcher().smaller_is_better ? "true" : "false") +
              "?");
    }
    EndAtTarget(trial.row.id, value);
  }
  return best;
}

// Supersedes the values of earlier runs that this run has trained past.
void Experiment::SupersedeUntil(TrialState& trial, MetricKind kind,
                                std::int64_t batches) {
  const auto range = trial.process->earlier.Pass(kind, batches);
  if (!range) return;
  Supersede(trial.row, kind, *range);
  if (kind == MetricKind::kValidation) RefreshBest(trial.row.id);
}

// Supersedes all values of earlier runs that this run, which has ended in an
// orderly way, did not measure.
void Experiment::SupersedeEarlierRuns(TrialState& trial,
                                      TrialProcess& process) {
  const auto range = process.earlier.PassAll();
  if (!range) return;
  Supersede(trial.row, MetricKind::kTraining, *range);
  Supersede(trial.row, MetricKind::kValidation, *range);
  trial.row.batches = trial.position;
  unrecorded_batches_.insert(trial.row.id.number);
  RefreshBest(trial.row.id);
}

void Experiment::Supersede(const TrialRow& trial, MetricKind kind,
                           const BatchRange& range) {
  outbox_.Add(
      [id = trial.id, run = trial.runs, kind, range,
       smaller = searcher().smaller_is_better](StoreWriter& writer) {
        writer.SupersedeMetrics(id, run, kind, range.from, range.until,
                                smaller);
      },
      Urgency::kBatched);
}

// Reads the best of the trial and of the experiment from the record, where a
// value of an earlier run may no longer count.
void Experiment::RefreshBest(TrialId id) {
  outbox_.After([this, id] {
    const Store& store = deps_.store;
    TrialState* trial = trials_.Find(id.number);
    const auto row = store.Trial(id);
    if (!row) return;
    if (trial != nullptr) {
      trial->row.best = row->best;
      trial->row.latest = row->latest;
    }
    if (best_.trial() == id.number) ReadBest();
  });
}

// Reads the best of the experiment from the record.
void Experiment::ReadBest() {
  best_.Clear();
  const Store& store = deps_.store;
  const auto experiment = store.Experiment(setup_.id);
  if (!experiment || !experiment->row.best) return;
  const auto holder = store.Trial({setup_.id, experiment->row.best_trial});
  if (holder) best_.Set(*experiment->row.best, *holder);
}

}  // namespace dtrain
