// What trials say; how they end is in trial_exits.cc.

#include "engine/run/trial_listener.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <variant>
#include <vector>

#include "engine/base/text.h"
#include "engine/run/runner.h"

namespace dtrain {
namespace {

using Urgency = Outbox::Urgency;

std::string NamesOf(const MetricValues& metrics) {
  std::vector<std::string> names;
  for (const auto& [name, value] : metrics) names.push_back(name);
  return names.empty() ? "none" : Join(names, ", ");
}

// A report may have some of the metrics only.
void UpdateMetrics(MetricValues& known, const MetricValues& report) {
  for (const auto& [name, value] : report) {
    const auto old =
        std::ranges::find(known, name, &MetricValues::value_type::first);
    if (old == known.end()) {
      known.emplace_back(name, value);
    } else {
      old->second = value;
    }
  }
}

}  // namespace

void TrialListener::On(const TrialStarted& event) {
  TrialState* trial = state_.trials.Find(event.trial.number);
  if (trial == nullptr || !trial->process) return;
  ProcessState& process = *trial->process;
  state_.failed_starts = 0;
  process.running = true;
  process.started = process.last_step = state_.Now();
  ++trial->row.runs;
  trial->row.pid = event.pid;
  state_.SetState(*trial, State::kRunning, driver_.Remarks(*trial));
  state_.outbox.Add(
      [event, boot = state_.setup.boot_id](StoreWriter& writer) {
        writer.SetTrialProcess(event.trial, event.pid, event.start_ticks, boot);
      },
      Urgency::kBatched);
  state_.outbox.After([this, row = trial->row, from = process.from] {
    state_.doors.reporter.OnTrialStarted(row, from);
  });
}

void TrialListener::On(const TrialSaid& event) {
  TrialState* trial = state_.trials.Find(event.trial.number);
  if (trial == nullptr || !trial->process) return;
  std::visit([&](const auto& message) { On(*trial, message); }, event.message);
}

void TrialListener::Acknowledge(TrialState& trial, std::int64_t seq) {
  std::int64_t& waiting = trial.process->unacknowledged;
  // One message acknowledges all that a transaction made durable.
  if (waiting == 0) {
    state_.outbox.After([this, id = trial.row.id] {
      TrialState* sender = state_.trials.Find(id.number);
      if (sender == nullptr || !sender->process) return;  // it has ended
      const std::int64_t recorded =
          std::exchange(sender->process->unacknowledged, 0);
      if (recorded == 0) return;
      state_.doors.launcher.Send(id, dtrain::Acknowledge{recorded});
    });
  }
  waiting = std::max(waiting, seq);
}

void TrialListener::On(TrialState& trial, const Ready&) {
  trial.process->last_step = state_.Now();
}

void TrialListener::On(TrialState& trial, const Progress& progress) {
  ProcessState& process = *trial.process;
  if (progress.batches != process.progress.batches) {
    process.last_step = state_.Now();
  }
  process.progress = progress;
  NoteCounted(trial, progress);
  if (!trial.has_work() || progress.total <= 0) return;
  const double share = static_cast<double>(progress.batches) /
                       static_cast<double>(progress.total);
  state_.trials.Reach(trial, std::min(share, 1.0) *
                                 static_cast<double>(trial.operations.front()));
}

// A program that reports no batches reports there what the search counts; its
// total is the operation's length then.
void TrialListener::NoteCounted(const TrialState& trial,
                                const Progress& progress) {
  const ExperimentConfig& config = state_.setup.config;
  const bool known = trial.has_work() && progress.batches > 0 &&
                     progress.total > 0 && IsCommand(config);
  if (!known || config.length_unit == Unit::kBatches) return;
  SetCounted(progress.total == trial.operations.front() ? config.length_unit
                                                        : Unit::kBatches);
}

// A report tells how far a trial is before the next progress does.
void TrialListener::NoteReach(TrialState& trial, std::int64_t batches,
                              double epoch) {
  const ExperimentConfig& config = state_.setup.config;
  if (!trial.has_work() || config.searcher.max_length == 0) return;
  double reached = 0;
  if (config.length_unit == Unit::kBatches) {
    reached = static_cast<double>(batches);
  } else if (config.length_unit == Unit::kEpochs) {
    reached = epoch;
  }
  const auto until = static_cast<double>(trial.operations.front());
  state_.trials.Reach(trial, std::min(reached, until));
}

// Without max_length only what a program reports tells what it counts.
void TrialListener::NoteCounted(std::int64_t batches, double epoch) {
  const ExperimentConfig& config = state_.setup.config;
  if (config.searcher.max_length > 0 || !IsCommand(config)) return;
  SetCounted(CountedUnit(config, batches, epoch));
}

void TrialListener::SetCounted(Unit counted) {
  if (std::exchange(state_.counted, counted) == counted) return;
  state_.outbox.After(
      [this, counted] { state_.doors.reporter.OnCounted(counted); });
}

// What was reported before may come again after a restart.
void TrialListener::NoteBatches(TrialState& trial, std::int64_t batches) {
  trial.position = std::max(trial.position, batches);
  if (batches <= trial.row.batches) return;
  trial.row.batches = batches;
  state_.changed.insert(trial.row.id.number);
}

void TrialListener::On(TrialState& trial, const TrainingReport& report) {
  trial.process->last_step = state_.Now();
  UpdateMetrics(trial.process->training, report.metrics);
  NoteBatches(trial, report.batches);
  NoteReach(trial, report.batches, report.epoch);
  NoteCounted(report.batches, report.epoch);
  trial.last_failure.clear();
  // Reports of an earlier process, which are sent again, do not say.
  if (report.unread) {
    WarnOfUnread(trial, *report.unread);
    RecordUnread(trial, *report.unread);
  }
  state_.outbox.Add(
      [id = trial.row.id, report, run = trial.row.runs](StoreWriter& writer) {
        writer.AddMetrics(id, MetricKind::kTraining, report.batches,
                          report.epoch, report.metrics, report.time, run);
      },
      Urgency::kBatched);
  SupersedeUntil(trial, MetricKind::kTraining, report.batches);
  Acknowledge(trial, report.seq);
  state_.outbox.After([this, id = trial.row.id, report] {
    state_.doors.reporter.OnTraining(id, report);
  });
}

void TrialListener::On(TrialState& trial, const ValidationReport& report) {
  trial.process->last_step = state_.Now();
  trial.process->validation = report.metrics;
  NoteBatches(trial, report.batches);
  NoteReach(trial, report.batches, report.epoch);
  NoteCounted(report.batches, report.epoch);
  CheckFirstValidation(trial, report.batches, report.unread);
  state_.outbox.Add(
      [id = trial.row.id, report, run = trial.row.runs](StoreWriter& writer) {
        writer.AddMetrics(id, MetricKind::kValidation, report.batches,
                          report.epoch, report.metrics, report.time, run);
      },
      Urgency::kBatched);
  SupersedeUntil(trial, MetricKind::kValidation, report.batches);
  Acknowledge(trial, report.seq);
  const auto value = SearcherMetric(trial, report.metrics);
  if (value) RequireStoppingMetric(trial, report.metrics);
  const bool best = value && RecordValidation(trial, *value, report.batches);
  state_.outbox.After([this, id = trial.row.id, report, best] {
    state_.doors.reporter.OnValidation(id, report, best);
  });
}

void TrialListener::On(TrialState& trial, const CheckpointSaved& saved) {
  trial.process->last_step = state_.Now();
  // It may lie anywhere; one that is good is found by the next run.
  if (starter_.StopIfLost()) return Acknowledge(trial, saved.seq);
  CheckpointRow row{.uuid = saved.uuid,
                    .trial = trial.row.id,
                    .state = "COMPLETED",
                    .batches = saved.batches,
                    .epoch = saved.epoch,
                    .bytes = saved.bytes,
                    .files = saved.files,
                    .storage = state_.setup.storage,
                    .time = saved.time};
  const auto& validated = trial.process->validated;
  if (validated && validated->batches == saved.batches) {
    row.metric = validated->value;
  }
  if (trial.process->disk_wait) {
    trial.process->disk_wait.reset();
    state_.SetState(trial, State::kRunning, driver_.Remarks(trial));
    state_.doors.reporter.OnNotice(
        LogLevel::kInfo, "trial " + ToString(trial.row.id) +
                             ": there is space again, and a checkpoint at " +
                             PositionText(saved.batches, state_.counted));
  }
  trial.process->told_of_disk = 0;
  state_.best.NoteSaved(row.trial, row.batches, row.uuid);
  state_.outbox.Add([row](StoreWriter& writer) { writer.AddCheckpoint(row); },
                    Urgency::kDurable);
  Acknowledge(trial, saved.seq);
  state_.Delete(state_.keeper.Add(std::move(row)));
  trial.row.latest_checkpoint = state_.keeper.Latest(trial.row.id)->uuid;
  state_.outbox.After([this, id = trial.row.id, saved] {
    state_.doors.reporter.OnCheckpoint(id, saved);
  });
}

void TrialListener::On(TrialState& trial, const CheckpointFailed& failed) {
  ProcessState& process = *trial.process;
  process.last_step = state_.Now();
  if (failed.waits && !process.disk_wait) {
    process.disk_wait = state_.Now();
    process.failure = failed.message;
    state_.SetState(trial, State::kRunning,
                    "waits for disk space: " + failed.message);
  }
  const int told = failed.waits ? 2 : 1;
  if (std::exchange(process.told_of_disk, told) >= told) return;
  state_.outbox.After([this, id = trial.row.id, failed] {
    state_.doors.reporter.OnCheckpointFailed(id, failed);
  });
}

void TrialListener::On(TrialState& trial, const OperationCompleted& completed) {
  Acknowledge(trial, completed.seq);
  // Its checkpoint is not where it will be looked for.
  if (starter_.StopIfLost()) return;
  const bool expected =
      trial.has_work() && trial.operations.front() == completed.length.count;
  if (!expected || trial.process->stop == StopCause::kFailure) return;
  CheckFirstValidation(trial, completed.batches, completed.unread);
  const auto& latest = trial.row.latest;
  // A resumed program of no planned length may have had nothing left to do.
  const bool is_known = completed.metrics.empty() &&
                        completed.length.count == 0 && latest.has_value();
  const auto metric = is_known ? LastValidation(trial, completed.batches)
                               : SearcherMetric(trial, completed.metrics);
  if (!metric) return;
  ProcessState& process = *trial.process;
  // A process that finds its work done already validates nothing.
  const auto& validated =
      completed.batches > process.from ? process.validated : latest;
  if (!is_known && (!validated || validated->batches != completed.batches)) {
    RecordValidation(trial, *metric, completed.batches);
  }
  SupersedeEarlierRuns(trial, process);
  if (completed.early) driver_.NoteEarlyEnd(trial, completed.why_early);
  driver_.Post(
      ValidationCompleted{trial.index(), completed.length.count, *metric});
}

void TrialListener::On(TrialState& trial, const ProfileReport& profile) {
  NoteBatches(trial, profile.batches);
  state_.outbox.Add(
      [id = trial.row.id, profile](StoreWriter& writer) {
        writer.AddProfile(id, profile);
      },
      Urgency::kBatched);
  Acknowledge(trial, profile.seq);
}

void TrialListener::On(TrialState& trial, const Finished& finished) {
  trial.process->last_word = finished;
  // Of one that failed it was not asked.
  if (finished.reason == EndReason::kCompleted ||
      finished.reason == EndReason::kStopped) {
    RecordUnread(trial, finished.unread);
  }
  if (!finished.unread.empty()) {
    state_.doors.reporter.OnUnread(trial.row.id, finished.unread);
  }
}

// Of a program nothing is known. A built-in trial may well read one only beside
// certain values of others, so only what is searched counts.
void TrialListener::RecordUnread(const TrialState& trial,
                                 const std::vector<std::string>& unread) {
  if (!std::holds_alternative<std::string>(state_.setup.config.entrypoint)) {
    return;
  }
  state_.unread.Record(IsOwnModel()
                           ? unread
                           : state_.unread.Searched(trial.row.hparams, unread));
}

// Once for each set of names: trials of a search have the same.
void TrialListener::WarnOfUnread(const TrialState& trial,
                                 const std::vector<std::string>& unread) {
  if (!IsOwnModel() || unread.empty()) return;
  const std::string names = Join(unread, ", ");
  if (std::exchange(warned_of_, names) == names) return;
  const bool one = unread.size() == 1;
  state_.doors.reporter.OnNotice(LogLevel::kWarning,
                                 "trial " + ToString(trial.row.id) +
                                     " has not read the hyperparameter" +
                                     (one ? " " : "s ") + names + "; correct " +
                                     (one ? "its name" : "their names") +
                                     " in the configuration, or read " +
                                     (one ? "it" : "them") + " in the model");
}

// A search over what is never read trains one trial many times.
void TrialListener::CheckFirstValidation(
    const TrialState& trial, std::int64_t batches,
    const std::optional<std::vector<std::string>>& unread) {
  // perform_initial_validation comes before anything was read to train.
  if (batches == 0 || !unread || std::exchange(state_.validated, true)) return;
  const bool asked = state_.setup.refuse_unread && IsOwnModel() &&
                     state_.searcher().name != "single";
  if (!asked) return;
  const auto searched = state_.unread.Searched(trial.row.hparams, *unread);
  if (searched.empty()) return;
  const bool one = searched.size() == 1;
  starter_.FailBecauseOf(
      "trial " + ToString(trial.row.id) + " was validated and has not read " +
      Join(searched, ", ") + ", which " + (one ? "is" : "are") +
      " searched: all trials would be the same; correct " +
      (one ? "its name" : "their names") + " in the configuration, read " +
      (one ? "it" : "them") +
      " in the model, or create it with --allow-unread");
}

std::optional<double> TrialListener::SearcherMetric(
    TrialState& trial, const MetricValues& metrics) {
  const std::string& wanted = state_.searcher().metric;
  for (const auto& [name, value] : metrics) {
    if (name == wanted) return value;
  }
  Fail(trial, StopCause::kFailure,
       "searcher.metric '" + wanted + "' was not reported; reported: " +
           NamesOf(metrics) + "; set searcher.metric to one of these");
  return std::nullopt;
}

void TrialListener::RequireStoppingMetric(TrialState& trial,
                                          const MetricValues& metrics) {
  const auto& rule = state_.setup.config.training.early_stopping;
  if (!rule) return;
  for (const auto& [name, value] : metrics) {
    if (name == rule->metric) return;
  }
  Fail(trial, StopCause::kFailure,
       "early_stopping.metric '" + rule->metric +
           "' was not reported; reported: " + NamesOf(metrics) +
           "; set early_stopping.metric to one of these");
}

bool TrialListener::RecordValidation(TrialState& trial, double value,
                                     std::int64_t batches) {
  auto& latest = trial.row.latest;
  if (!latest || latest->batches <= batches) {
    latest = BestValidation{.value = value, .batches = batches};
  }
  trial.process->validated = BestValidation{.value = value, .batches = batches};
  NoteBatches(trial, batches);
  state_.outbox.Add(
      [id = trial.row.id, value, batches, run = trial.row.runs,
       smaller = state_.searcher().smaller_is_better](StoreWriter& writer) {
        writer.AddValidation(id, value, batches, smaller, run);
      },
      Urgency::kBatched);
  const bool best = state_.best.Offer(trial.row, value, batches);
  const CheckpointRow* there = state_.keeper.At(trial.row.id, batches);
  if (there != nullptr) {
    state_.best.NoteSaved(trial.row.id, batches, there->uuid);
    state_.Delete(state_.keeper.SetMetric(trial.row.id, batches, value));
  }
  // It may have replaced a better value of an earlier run.
  if (batches <= trial.process->earlier) RefreshBest(trial.row.id);
  return best;
}

// The searcher's metric where the trial was validated last, at `batches` at
// most: an earlier run may have come further than the trial does now.
std::optional<double> TrialListener::LastValidation(
    const TrialState& trial, std::int64_t batches) const {
  if (trial.row.latest->batches <= batches) return trial.row.latest->value;
  std::optional<double> last;
  state_.doors.store.ForEachMetric({.experiment = trial.row.id.experiment,
                                    .trial = trial.row.id.number,
                                    .kind = MetricKind::kValidation,
                                    .name = state_.searcher().metric},
                                   [&](const MetricRow& row) {
                                     if (row.batches <= batches) {
                                       last = row.value;
                                     }
                                   });
  return last ? last : trial.row.latest->value;
}

// The trial has trained beyond what this run measured last, and so past what
// earlier runs measured in between.
void TrialListener::SupersedeUntil(TrialState& trial, MetricKind kind,
                                   std::int64_t batches) {
  ProcessState& process = *trial.process;
  std::int64_t& passed = process.passed.at(static_cast<std::size_t>(kind));
  if (process.earlier < passed || batches <= passed) return;
  state_.outbox.Add(
      [id = trial.row.id, run = trial.row.runs, kind, passed, batches,
       smaller = state_.searcher().smaller_is_better](StoreWriter& writer) {
        writer.SupersedeMetrics(id, run, kind, passed, batches, smaller);
      },
      Urgency::kBatched);
  passed = batches;
  if (kind == MetricKind::kValidation) RefreshBest(trial.row.id);
}

// The run came to an orderly end: what earlier runs measured, and it did not,
// counts no more, wherever that lies.
void TrialListener::SupersedeEarlierRuns(TrialState& trial,
                                         ProcessState& process) {
  if (process.earlier == 0) return;
  state_.outbox.Add(
      [id = trial.row.id, run = trial.row.runs, from = process.from + 1,
       smaller = state_.searcher().smaller_is_better](StoreWriter& writer) {
        for (const auto kind :
             {MetricKind::kTraining, MetricKind::kValidation}) {
          writer.SupersedeMetrics(id, run, kind, from,
                                  std::numeric_limits<std::int64_t>::max(),
                                  smaller);
        }
      },
      Urgency::kBatched);
  process.earlier = 0;
  trial.row.batches = trial.position;
  state_.changed.insert(trial.row.id.number);
  RefreshBest(trial.row.id);
}

// Takes the best of the trial and of all from the record, where a value of an
// earlier run may have gone.
void TrialListener::RefreshBest(TrialId id) {
  state_.outbox.After([this, id] {
    const Store& store = state_.doors.store;
    TrialState* trial = state_.trials.Find(id.number);
    const auto row = store.Trial(id);
    const auto experiment = store.Experiment(id.experiment);
    if (!row || !experiment) return;
    if (trial != nullptr) {
      trial->row.best = row->best;
      trial->row.latest = row->latest;
    }
    if (state_.best.trial() != id.number) return;
    state_.best.Clear();
    if (!experiment->row.best) return;
    const auto holder =
        store.Trial({id.experiment, experiment->row.best_trial});
    if (holder) state_.best.Set(*experiment->row.best, *holder);
  });
}

}  // namespace dtrain
