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
#include "engine/config/environment.h"
#include "engine/run/experiment.h"
#include "engine/run/runner.h"

namespace dtrain {
namespace {

using Urgency = Outbox::Urgency;

std::string NamesOf(const MetricValues& metrics) {
  std::vector<std::string> names;
  for (const auto& [name, value] : metrics) names.push_back(name);
  return names.empty() ? "none" : Join(names, ", ");
}

// Returns "; did you mean 'acc'?" for "val_acc", or an empty string.
std::string SimilarMetric(const std::string& wanted,
                          const MetricValues& metrics) {
  std::vector<std::string> names;
  for (const auto& [name, value] : metrics) names.push_back(name);
  const std::string similar = DidYouMean(wanted, names);
  if (!similar.empty()) return similar;
  const auto part = std::ranges::find_if(names, [&](const std::string& name) {
    return name.find(wanted) != name.npos || wanted.find(name) != wanted.npos;
  });
  return part == names.end() ? "" : "; did you mean '" + *part + "'?";
}

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

}  // namespace

// Removes the values of environment variables from a trial's texts. All of them
// come here before they are recorded or shown; only the log has them as they
// were written.
void Experiment::Redact(LaunchEvent& event) const {
  const auto edit = [this](std::string& text) {
    if (text.empty()) return;
    text = WithoutValues(std::move(text), setup_.config.environment.All());
  };
  if (auto* received = std::get_if<MessageReceived>(&event)) {
    EditTexts(received->message, edit);
  } else if (auto* exited = std::get_if<TrialExited>(&event)) {
    EditTexts(*exited, edit);
  }
}

void Experiment::On(const TrialStarted& event) {
  TrialState* trial = trials_.Find(event.trial.number);
  if (trial == nullptr || !trial->process) return;
  failed_starts_ = 0;
  // The trial goes on, so it does not matter any more how its last process
  // ended.
  late_failures_.erase(event.trial.number);
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

std::int64_t Experiment::RunOf(const TrialState& trial, std::int64_t batches,
                               Timestamp time) {
  const bool earlier = trial.process->IsFromCheckpoint(batches, time);
  return earlier ? std::max<std::int64_t>(trial.row.runs - 1, 1)
                 : trial.row.runs;
}

bool Experiment::TakeUnshown(TrialState& trial, MetricKind kind,
                             std::int64_t batches, Timestamp time,
                             bool recorded) {
  Timestamp& shown = trial.shown.at(static_cast<std::size_t>(kind));
  if (trial.process->IsFromCheckpoint(batches, time) &&
      (recorded || time <= shown)) {
    return false;
  }
  shown = time;
  return true;
}

void Experiment::Acknowledge(TrialState& trial, std::int64_t seq) {
  // The acknowledgement that is queued will cover this message, too.
  if (!trial.process->Receive(seq)) return;
  outbox_.After([this, id = trial.row.id] {
    TrialState* sender = trials_.Find(id.number);
    if (sender == nullptr || !sender->process) return;  // it has ended
    const std::int64_t recorded = sender->process->TakeUnacknowledged();
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
  DetectUnit(trial, progress);
  if (!trial.has_work() || progress.total <= 0) return;
  const bool counts_lengths =
      IsCommand(setup_.config) && units_.counted == setup_.config.length_unit;
  // Sent before the program got its present length.
  if (counts_lengths && progress.total != trial.operations.front()) return;
  const double share = static_cast<double>(progress.batches) /
                       static_cast<double>(progress.total);
  trials_.Reach(trial, std::min(share, 1.0) *
                           static_cast<double>(trial.operations.front()));
}

// Detects the unit of a program's `batches`. A program that counts in the unit
// of the search reports the length of its operation as the total. Another total
// that a length of the search can be is one that the program had before.
void Experiment::DetectUnit(const TrialState& trial, const Progress& progress) {
  const ExperimentConfig& config = setup_.config;
  const bool known = trial.has_work() && progress.batches > 0 &&
                     progress.total > 0 && IsCommand(config);
  if (!known || config.length_unit == Unit::kBatches) return;
  if (progress.total == trial.operations.front()) {
    SetUnit(config.length_unit);
  } else if (progress.total > config.searcher.max_length) {
    SetUnit(Unit::kBatches);
  }
}

// Updates the length reached from a report, which comes before the next
// Progress.
void Experiment::SetReached(TrialState& trial, std::int64_t batches,
                            double epoch) {
  const ExperimentConfig& config = setup_.config;
  if (!trial.has_work() || config.searcher.max_length == 0) return;
  double reached = 0;
  if (config.length_unit == Unit::kBatches) {
    reached = static_cast<double>(batches);
  } else if (config.length_unit == Unit::kEpochs) {
    reached = epoch;
  }
  const auto until = static_cast<double>(trial.operations.front());
  trials_.Reach(trial, std::min(reached, until));
}

// Warns of a program that counts something else than the search, such as
// batches in place of epochs: its first validation ends each length.
void Experiment::WarnOfFarCount(const TrialState& trial, std::int64_t batches,
                                double epoch) {
  const ExperimentConfig& config = setup_.config;
  const std::int64_t longest = config.searcher.max_length;
  if (!IsCommand(config) || longest == 0 || warned_of_far_) return;
  const bool is_epochs = config.length_unit == Unit::kEpochs;
  const double count = is_epochs ? epoch : static_cast<double>(batches);
  const bool is_known = is_epochs || config.length_unit == units_.counted;
  if (!is_known || count <= 2 * static_cast<double>(longest)) return;
  warned_of_far_ = true;
  const std::string unit(UnitName(config.length_unit));
  deps_.reporter.OnNotice(
      LogLevel::kWarning,
      "trial " + ToString(trial.row.id) + ": a validation at " +
          LengthText(count, config.length_unit) + ", far beyond the " +
          LengthText(longest, config.length_unit) +
          " of the search, counts as its result; the counts of its reports "
          "must be in " +
          unit);
}

// Without max_length, the unit can only be detected from a report. So can
// batches at epoch 0, of which no total can be estimated, and beside records.
void Experiment::DetectUnit(std::int64_t batches, double epoch) {
  const ExperimentConfig& config = setup_.config;
  if (batches <= 0 || !IsCommand(config)) return;
  const bool planned = config.searcher.max_length > 0;
  if (planned && config.length_unit == Unit::kBatches) return;
  SetUnit(CountedUnit(config, batches, epoch));
}

void Experiment::SetUnit(Unit counted) {
  if (std::exchange(units_.counted, counted) == counted) return;
  outbox_.After([this, counted] { deps_.reporter.OnCounted(counted); });
}

// Sets the batches trained. After a restart lower numbers may come again.
void Experiment::SetBatches(TrialState& trial, std::int64_t batches) {
  trial.position = std::max(trial.position, batches);
  if (batches <= trial.row.batches) return;
  trial.row.batches = batches;
  unrecorded_batches_.insert(trial.row.id.number);
}

void Experiment::On(TrialState& trial, const TrainingReport& report) {
  trial.process->SetAlive(Now());
  UpdateMetrics(trial.process->training, report.metrics);
  SetBatches(trial, report.batches);
  SetReached(trial, report.batches, report.epoch);
  DetectUnit(report.batches, report.epoch);
  reported_ = true;
  // A program that trains may still end without its result each time.
  if (!trial.last_failure.starts_with(kNoResult)) trial.last_failure.clear();
  // A report that is sent again for an earlier process lacks the names.
  if (report.unread) {
    WarnOfUnread(trial, *report.unread);
    RecordUnread(trial, *report.unread);
  }
  outbox_.Add(
      [id = trial.row.id, report,
       run = RunOf(trial, report.batches, report.time)](StoreWriter& writer) {
        writer.AddMetrics(id, MetricKind::kTraining, report.batches,
                          report.epoch, report.metrics, report.time, run);
      },
      Urgency::kBatched);
  // Behind the new values, so that a trial never has neither.
  SupersedeUntil(trial, MetricKind::kTraining, report.batches);
  Acknowledge(trial, report.seq);
  if (!TakeUnshown(trial, MetricKind::kTraining, report.batches, report.time)) {
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
  SetBatches(trial, report.batches);
  SetReached(trial, report.batches, report.epoch);
  DetectUnit(report.batches, report.epoch);
  reported_ = true;
  CheckFirstValidation(trial, report.batches, report.unread);
  WarnOfFarCount(trial, report.batches, report.epoch);
  outbox_.Add(
      [id = trial.row.id, report,
       run = RunOf(trial, report.batches, report.time)](StoreWriter& writer) {
        writer.AddMetrics(id, MetricKind::kValidation, report.batches,
                          report.epoch, report.metrics, report.time, run);
      },
      Urgency::kBatched);
  SupersedeUntil(trial, MetricKind::kValidation, report.batches);
  Acknowledge(trial, report.seq);
  const auto value = SearcherMetric(trial, report.metrics);
  if (value) RequireStoppingMetric(trial, report.metrics);
  const bool best = value && RecordValidation(trial, *value,
                                              {.batches = report.batches,
                                               .epoch = report.epoch});
  if (!TakeUnshown(trial, MetricKind::kValidation, report.batches, report.time,
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
  DetectUnit(saved.batches, saved.epoch);
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
            PositionText(row.at(), units_));
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
  const auto metric = ResultOf(trial, completed);
  if (!metric) return;
  trial.last_failure.clear();
  SupersedeEarlierRuns(trial, *trial.process);
  if (completed.early) SetEndedEarly(trial, completed.why_early);
  const double seconds =
      TakeSecondsOfOperation(trial, completed.batches, Now());
  Post(ValidationCompleted{trial.index(), completed.length.count, *metric,
                           seconds});
}

// Returns the searcher's metric of a completed operation. Fails the trial and
// returns none if it was not reported.
std::optional<double> Experiment::ResultOf(
    TrialState& trial, const OperationCompleted& completed) {
  const TrialProcess& process = *trial.process;
  const std::int64_t batches = completed.batches;
  const auto& latest = trial.row.latest;
  if (completed.metrics.empty()) {
    const auto& validated = process.validated;
    if (validated && validated->batches == batches) return validated->value;
    // An earlier process has validated it; this one had nothing to do.
    if (latest) return LastValidation(trial, batches);
  }
  const auto metric = SearcherMetric(trial, completed.metrics);
  if (!metric && MayLackMetric()) {
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

void Experiment::On(TrialState& trial, const Finished& finished) {
  trial.process->SetFinished(finished);
  // A trial that failed may not have come to read them.
  if (finished.reason == EndReason::kCompleted ||
      finished.reason == EndReason::kStopped) {
    if (IsCommand(setup_.config)) RecordUnreadOfProgram(trial, finished.unread);
    RecordUnread(trial, finished.unread);
  }
  if (!finished.unread.empty()) {
    deps_.reporter.OnUnread(trial.row.id, finished.unread);
  }
}

// A program may say what it has not used. If it names nothing, it has used all,
// or cannot say: then no hyperparameter counts as unread by all trials.
void Experiment::RecordUnreadOfProgram(const TrialState& trial,
                                       const std::vector<std::string>& unread) {
  WarnOfUnread(trial, unread);
  if (unread.empty() && !unread_.names()) {
    may_have_read_all_ = true;
  } else if (!may_have_read_all_) {
    unread_.Record(unread);
  }
}

// Those of a program are recorded apart. A built-in model may read some
// hyperparameters only for certain values of others, so only searched ones
// count.
void Experiment::RecordUnread(const TrialState& trial,
                              const std::vector<std::string>& unread) {
  if (!std::holds_alternative<std::string>(setup_.config.entrypoint)) {
    return;
  }
  unread_.Record(IsUserModel() ? unread
                               : unread_.Searched(trial.row.hparams, unread));
}

// Warns once for each set of names, which is usually the same in all trials.
void Experiment::WarnOfUnread(const TrialState& trial,
                              const std::vector<std::string>& unread) {
  const bool is_command = IsCommand(setup_.config);
  if (!(IsUserModel() || is_command) || unread.empty()) return;
  const std::string names = Join(unread, ", ");
  if (std::exchange(warned_of_, names) == names) return;
  const bool one = unread.size() == 1;
  deps_.reporter.OnNotice(
      LogLevel::kWarning,
      "trial " + ToString(trial.row.id) + " has not read the hyperparameter" +
          (one ? " " : "s ") + names + "; correct " +
          (one ? "its name" : "their names") +
          " in the configuration, or read " + (one ? "it" : "them") +
          (is_command ? " in the script" : " in the model"));
}

// Fails the experiment if its first validated trial has not read a searched
// hyperparameter: such a search trains one trial many times.
void Experiment::CheckFirstValidation(
    const TrialState& trial, std::int64_t batches,
    const std::optional<std::vector<std::string>>& unread) {
  // An initial validation precedes the reads of training.
  if (batches == 0 || !unread || std::exchange(validated_, true)) return;
  const bool is_command = IsCommand(setup_.config) && setup_.config.rules > 1;
  const bool applies = setup_.refuse_unread && (IsUserModel() || is_command) &&
                       searcher().name != "single";
  if (!applies) return;
  auto searched = unread_.Searched(trial.row.hparams, *unread);
  if (const auto& may_read = setup_.options.may_read) {
    std::erase_if(searched, may_read);
  }
  if (searched.empty()) return;
  const bool one = searched.size() == 1;
  FailBecauseOf("trial " + ToString(trial.row.id) +
                " was validated and has not read " + Join(searched, ", ") +
                ", which " + (one ? "is" : "are") +
                " searched: all trials would be the same; correct " +
                (one ? "its name" : "their names") +
                " in the configuration, read " + (one ? "it" : "them") +
                (is_command ? " in the script" : " in the model") +
                ", or create it with --allow-unread");
}

// True if trials train on without the searcher's metric, since nothing is
// searched.
bool Experiment::MayLackMetric() const {
  return !setup_.config.training.requires_metric;
}

std::optional<double> Experiment::SearcherMetric(TrialState& trial,
                                                 const MetricValues& metrics) {
  const std::string& wanted = searcher().metric;
  for (const auto& [name, value] : metrics) {
    if (name == wanted) return value;
  }
  if (MayLackMetric()) {
    if (!std::exchange(warned_of_metric_, true)) {
      deps_.reporter.OnNotice(
          LogLevel::kWarning,
          "no best: searcher.metric '" + wanted + "' was not reported" +
              (metrics.empty() ? "; no metric was"
                               : "; reported: " + NamesOf(metrics) +
                                     "; set searcher.metric to one of these"));
    }
    return std::nullopt;
  }
  const std::string why = "searcher.metric '" + wanted +
                          "' was not reported; reported: " + NamesOf(metrics) +
                          "; set searcher.metric to one of these" +
                          SimilarMetric(wanted, metrics);
  Fail(trial, StopCause::kFailure, why);
  // All trials would fail so.
  if (searcher().name != "single" && !has_metric_) {
    FailBecauseOf("trial " + ToString(trial.row.id) + ": " + why);
  }
  return std::nullopt;
}

void Experiment::RequireStoppingMetric(TrialState& trial,
                                       const MetricValues& metrics) {
  const auto& rule = setup_.config.training.early_stopping;
  if (!rule) return;
  for (const auto& [name, value] : metrics) {
    if (name == rule->metric) return;
  }
  Fail(trial, StopCause::kFailure,
       "early_stopping.metric '" + rule->metric +
           "' was not reported; reported: " + NamesOf(metrics) +
           "; set early_stopping.metric to one of these");
}

bool Experiment::RecordValidation(TrialState& trial, double value,
                                  const ReportedAt& at) {
  const std::int64_t batches = at.batches;
  auto& latest = trial.row.latest;
  invalid_ = 0;
  has_metric_ = true;
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
  const bool best = best_.Offer(trial.row, value, at);
  const CheckpointRow* there = keeper_.At(trial.row.id, batches);
  if (there != nullptr) {
    best_.SetCheckpoint(trial.row.id, batches, there->uuid);
    DeleteCheckpoints(keeper_.SetMetric(trial.row.id, batches, value));
  }
  // It may have replaced a better value of an earlier run.
  if (trial.process->earlier.Cover(batches)) RefreshBest(trial.row.id);
  return best;
}

// Returns the searcher's metric of the trial's last validation up to `batches`.
// An earlier run may have got further.
std::optional<double> Experiment::LastValidation(const TrialState& trial,
                                                 std::int64_t batches) const {
  if (trial.row.latest->batches <= batches) return trial.row.latest->value;
  std::optional<double> last;
  deps_.store.ForEachMetric({.experiment = trial.row.id.experiment,
                             .trial = trial.row.id.number,
                             .kind = MetricKind::kValidation,
                             .name = searcher().metric},
                            [&](const MetricRow& row) {
                              if (row.batches <= batches) {
                                last = row.value;
                              }
                            });
  return last ? last : trial.row.latest->value;
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
    const auto experiment = store.Experiment(id.experiment);
    if (!row || !experiment) return;
    if (trial != nullptr) {
      trial->row.best = row->best;
      trial->row.latest = row->latest;
    }
    if (best_.trial() != id.number) return;
    best_.Clear();
    if (!experiment->row.best) return;
    const auto holder =
        store.Trial({id.experiment, experiment->row.best_trial});
    if (holder) best_.Set(*experiment->row.best, *holder);
  });
}

}  // namespace dtrain
