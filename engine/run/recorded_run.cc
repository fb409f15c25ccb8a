// A run as others see it. The runner records every event before it has an
// effect, so that the store has all that a display needs: searcher events give
// the lengths that trials train to, rows of trials their processes and ends,
// metrics the reports. What changed between two reads is reported in the order
// in which it can have happened: starts, reports by time, ends. Of a trial that
// started and ended several times in between, only the last start and end are
// reported.

#include "engine/run/recorded_run.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/metric_order.h"
#include "engine/base/rounding.h"
#include "engine/base/text.h"
#include "searchers/searcher.h"

namespace dtrain {

struct RecordedRun::Report {
  TrialId trial;
  MetricKind kind = MetricKind::kTraining;
  std::int64_t run = 0;
  std::int64_t batches = 0;
  double epoch = 0;
  Timestamp time{0};
  MetricValues values;
};

namespace {

bool HasProcess(const TrialRow& row) {
  return row.state == State::kRunning && row.pid != 0;
}

bool IsOver(State state) { return IsFinal(state) || state == State::kPaused; }

void AddCount(std::int64_t count, const std::string& what,
              std::vector<std::string>& parts) {
  if (count > 0) parts.push_back(std::to_string(count) + " " + what);
}

}  // namespace

RunInfo MakeRunInfo(const ExperimentRow& experiment,
                    const ExperimentConfig& config) {
  return {
      .experiment = experiment.id,
      .name = experiment.name,
      .entrypoint = EntrypointText(config),
      .searcher = experiment.searcher,
      .repeats = config.searcher.repeats,
      .metric = experiment.metric,
      .smaller_is_better = experiment.smaller_is_better,
      .seed = experiment.seed,
      .hyperparameters = config.hyperparameters,
      .units = Units{.searched = config.length_unit,
                     .records_per_epoch = config.training.records_per_epoch}};
}

RecordedRun::RecordedRun(const ExperimentRow& experiment,
                         const ExperimentConfig& config)
    : info_(MakeRunInfo(experiment, config)),
      rungs_(config.searcher, config.length_unit) {}

void RecordedRun::Apply(const RunRecords& records, const RunLookups& lookups,
                        Reporter& reporter) {
  ApplyEvents(records.events);
  if (!began_) {
    Begin(records, reporter);
  } else {
    if (records.counted != info_.units.counted) {
      info_.units.counted = records.counted;
      reporter.OnCounted(records.counted);
    }
    std::map<std::int64_t, State> before;
    for (const TrialRow& row : records.trials) {
      const auto known = trials_.find(row.id.number);
      before[row.id.number] =
          known == trials_.end() ? State::kPending : known->second.row.state;
      ApplyStart(row, lookups, reporter);
    }
    ApplyReports(records.metrics, &reporter);
    for (const TrialRow& row : records.trials) {
      ApplyEnd(row, before[row.id.number], lookups, reporter);
    }
  }
  SetStatus(records);
  reporter.OnStatus(status_);
}

void RecordedRun::Begin(const RunRecords& records, Reporter& reporter) {
  began_ = true;
  info_.units.counted = records.counted;
  constexpr auto kAll = std::numeric_limits<std::int64_t>::max();
  for (const TrialRow& row : records.trials) {
    // Whatever earlier runs reported is not news.
    const Position past{row.runs, HasProcess(row) ? -1 : kAll};
    Trial& trial = trials_[row.id.number];
    trial.row = row;
    trial.reported = {{MetricKind::kTraining, past},
                      {MetricKind::kValidation, past}};
  }
  if (records.experiment.best) best_ = records.experiment.best->value;
  ApplyReports(records.metrics, nullptr);
  reporter.Begin(info_);
  reporter.OnNotice(LogLevel::kInfo, StateText(records));
}

std::string RecordedRun::StateText(const RunRecords& records) const {
  const ExperimentRow& row = records.experiment;
  const auto running = std::ranges::count_if(records.trials, HasProcess);
  const auto pending =
      std::ranges::count(records.trials, State::kPending, &TrialRow::state);
  std::vector<std::string> parts;
  AddCount(running, running == 1 ? "trial runs" : "trials run", parts);
  AddCount(pending, "pending", parts);
  AddCount(row.trials_ended, "ended", parts);
  std::string text = "experiment " + std::to_string(row.id) + " is " +
                     std::string(StateName(row.state));
  if (!parts.empty()) text += ": " + Join(parts, ", ");
  if (!row.best) return text;
  return text + (IsFinal(row.state) ? "; best " : "; best so far ") +
         ToString(TrialId{row.id, row.best_trial}) + ", " + row.metric + " " +
         FormatRounded(row.best->value, 6) + " at " +
         PositionText(row.best->at(), info_.units);
}

void RecordedRun::ApplyEvents(const std::vector<SearcherEventRow>& events) {
  for (const SearcherEventRow& event : events) {
    if (event.seq <= last_event_) continue;
    last_event_ = event.seq;
    try {
      const Event cause = EventFromJson(event.event);
      if (const auto* done = std::get_if<ValidationCompleted>(&cause)) {
        rungs_.Count(done->length);
        auto& lengths = lengths_[done->trial + 1];
        if (!lengths.empty()) lengths.pop_front();
      } else if (const auto* closed = std::get_if<Closed>(&cause)) {
        lengths_.erase(closed->trial + 1);
      } else if (const auto* exited = std::get_if<ExitedEarly>(&cause)) {
        lengths_.erase(exited->trial + 1);
      }
      for (const nlohmann::json& json : event.operations) {
        const Operation operation = OperationFromJson(json);
        if (const auto* more = std::get_if<ValidateAfter>(&operation)) {
          lengths_[more->trial + 1].push_back(more->length);
        }
      }
    } catch (const std::exception& error) {
      throw Error(ErrorKind::kStore,
                  "experiment " + std::to_string(info_.experiment) +
                      ": searcher event " + std::to_string(event.seq) +
                      " is damaged: " + error.what() +
                      "; check the store with 'dtrain doctor'");
    }
  }
}

void RecordedRun::ApplyStart(const TrialRow& row, const RunLookups& lookups,
                             Reporter& reporter) {
  const bool is_new = !trials_.contains(row.id.number);
  Trial& trial = trials_[row.id.number];
  const TrialRow before = std::exchange(trial.row, row);
  // A restart implies an end that may have been overwritten in the row since.
  if (row.restarts > before.restarts) {
    TrialRow failed = row;
    failed.state = State::kRunning;
    reporter.OnTrialEnded(failed, lookups.last_lines(row.id));
  } else if (!is_new && row.runs > before.runs && HasProcess(before)) {
    // It was paused and started again between two reads.
    TrialRow paused = before;
    paused.state = State::kPaused;
    reporter.OnTrialEnded(paused, {});
  }
  if (row.runs == before.runs && !is_new) return;
  trial.history.clear();
  if (row.runs == 0) return;
  const std::string& checkpoint =
      is_new ? row.latest_checkpoint : before.latest_checkpoint;
  const bool resumed = row.runs > 1 && !checkpoint.empty();
  reporter.OnTrialStarted(
      row, resumed ? lookups.checkpoint_at(checkpoint) : ReportedAt());
}

void RecordedRun::ApplyReports(const std::vector<MetricRow>& rows,
                               Reporter* reporter) {
  std::vector<Report> reports;
  for (const MetricRow& row : rows) {
    const bool same = !reports.empty() && reports.back().trial == row.trial &&
                      reports.back().kind == row.kind &&
                      reports.back().batches == row.batches;
    if (!same) {
      reports.push_back({.trial = row.trial,
                         .kind = row.kind,
                         .run = row.run,
                         .batches = row.batches,
                         .epoch = row.epoch,
                         .time = row.time});
    }
    reports.back().values.emplace_back(row.name, row.value);
  }
  std::ranges::stable_sort(reports, {}, &Report::time);
  for (const Report& report : reports) ApplyReport(report, reporter);
}

void RecordedRun::ApplyReport(const Report& report, Reporter* reporter) {
  const auto found = trials_.find(report.trial.number);
  if (found == trials_.end()) return;
  Trial& trial = found->second;
  const bool validation = report.kind == MetricKind::kValidation;
  std::optional<double> value;
  for (const auto& [name, number] : report.values) {
    if (validation && name == info_.metric) value = number;
  }
  if (value) trial.history[report.batches] = *value;
  // Reports of an earlier run, or for batches that were reported before, only
  // complete the history.
  Position& last = trial.reported[report.kind];
  if (report.run < last.run ||
      (report.run == last.run && report.batches <= last.batches)) {
    return;
  }
  last = {report.run, report.batches};
  UpdateMetrics(trial.values[report.kind], report.values);
  if (report.epoch > 0 && info_.units.counted == Unit::kBatches) {
    trial.batches_per_epoch =
        std::llround(static_cast<double>(report.batches) / report.epoch);
  }
  const bool best =
      value && std::isfinite(*value) &&
      (!best_ || IsBetter(*value, *best_, info_.smaller_is_better));
  if (best) best_ = value;
  if (reporter == nullptr) return;
  if (!validation) {
    return reporter->OnTraining(report.trial, {.batches = report.batches,
                                               .epoch = report.epoch,
                                               .metrics = report.values,
                                               .time = report.time});
  }
  reporter->OnValidation(report.trial,
                         {.batches = report.batches,
                          .epoch = report.epoch,
                          .metrics = report.values,
                          .time = report.time},
                         best);
}

void RecordedRun::ApplyEnd(const TrialRow& row, State before,
                           const RunLookups& lookups, Reporter& reporter) {
  if (!IsOver(row.state) || row.state == before) return;
  const bool failed = row.state == State::kError;
  reporter.OnTrialEnded(
      row, failed ? lookups.last_lines(row.id) : std::vector<std::string>());
}

void RecordedRun::SetStatus(const RunRecords& records) {
  const ExperimentRow& row = records.experiment;
  status_ = {.progress = row.progress,
             .trials = row.trials,
             .trials_ended = row.trials_ended,
             .slot_wait = records.slot_wait,
             .best = row.best,
             .best_trial = row.best_trial,
             .seconds = records.seconds};
  std::map<std::int64_t, std::int64_t> lengths;
  for (const TrialRow& trial : records.trials) {
    if (trial.id.number == row.best_trial) status_.best_hparams = trial.hparams;
    if (HasProcess(trial)) {
      status_.running.push_back(MakeStatus(trial));
      const auto& left = lengths_[trial.id.number];
      if (!left.empty()) ++lengths[left.front()];
    } else if (trial.state == State::kPending ||
               trial.state == State::kRunning) {
      ++status_.waiting;
    }
  }
  status_.rungs = rungs_.Status(lengths);
}

TrialStatus RecordedRun::MakeStatus(const TrialRow& row) {
  Trial& trial = trials_[row.id.number];
  const auto& lengths = lengths_[row.id.number];
  TrialStatus status{.id = row.id,
                     .hparams = row.hparams,
                     .batches = row.batches,
                     .batches_per_epoch = trial.batches_per_epoch,
                     .rung = row.rung,
                     .training = trial.values[MetricKind::kTraining],
                     .validation = trial.values[MetricKind::kValidation]};
  for (const auto& [kind, position] : trial.reported) {
    // The row is written less often than reports are.
    if (position.run == row.runs &&
        position.batches != std::numeric_limits<std::int64_t>::max()) {
      status.batches = std::max(status.batches, position.batches);
    }
  }
  if (lengths.empty()) return status;
  const std::int64_t length = lengths.front();
  if (info_.units.searched == info_.units.counted)
    status.total_batches = length;
  if (info_.units.searched == Unit::kEpochs &&
      info_.units.counted == Unit::kBatches) {
    status.total_batches = length * trial.batches_per_epoch;
  }
  return status;
}

bool RecordedRun::MayHaveReports(const TrialRow& row) const {
  if (HasProcess(row)) return true;
  if (!began_) return false;
  const auto trial = trials_.find(row.id.number);
  if (trial == trials_.end()) return row.runs > 0;
  const TrialRow& before = trial->second.row;
  return row.runs != before.runs || row.state != before.state;
}

std::int64_t RecordedRun::ReadUntil(const TrialRow& row,
                                    MetricKind kind) const {
  const auto trial = trials_.find(row.id.number);
  if (trial == trials_.end()) return -1;
  const auto last = trial->second.reported.find(kind);
  const bool same_run =
      last != trial->second.reported.end() && last->second.run == row.runs;
  return same_run ? last->second.batches : -1;
}

std::vector<double> RecordedRun::History(TrialId id) const {
  std::vector<double> values;
  const auto trial = trials_.find(id.number);
  if (trial == trials_.end()) return values;
  for (const auto& [batches, value] : trial->second.history) {
    values.push_back(value);
  }
  return values;
}

}  // namespace dtrain
