// What Experiment makes of what trials say.

#include <algorithm>
#include <cmath>

#include "engine/base/text.h"
#include "engine/run/experiment.h"

namespace dtrain {
namespace {

std::string NamesOf(const MetricValues& metrics) {
  std::vector<std::string> names;
  for (const auto& [name, value] : metrics) names.push_back(name);
  return names.empty() ? "none" : Join(names, ", ");
}

}  // namespace

void Experiment::On(const TrialStarted& event) {
  TrialState& trial = Find(event.trial);
  trial.process = ProcessState::kRunning;
  trial.started = trial.last_step = Now();
  const std::int64_t from = trial.restart_batches();
  ++trial.row.runs;
  trial.row.pid = event.pid;
  SetState(trial, State::kRunning);
  outbox_.Add(
      [event, boot = setup_.boot_id](StoreWriter& writer) {
        writer.SetTrialProcess(event.trial, event.pid, event.start_ticks, boot);
      },
      Urgency::kBatched);
  outbox_.After([this, row = trial.row, from] {
    doors_.reporter.OnTrialStarted(row, from);
  });
}

void Experiment::On(const TrialSaid& event) {
  TrialState& trial = Find(event.trial);
  std::visit([&](const auto& message) { On(trial, message); }, event.message);
}

void Experiment::Acknowledge(TrialState& trial, std::int64_t seq) {
  // One message acknowledges all that a transaction made durable.
  if (trial.unacknowledged == 0) {
    outbox_.After([this, &trial] {
      if (trial.unacknowledged == 0) return;  // its process has ended
      doors_.launcher.Send(trial.row.id,
                           dtrain::Acknowledge{trial.unacknowledged});
      trial.unacknowledged = 0;
    });
  }
  trial.unacknowledged = std::max(trial.unacknowledged, seq);
}

void Experiment::On(TrialState& trial, const Ready&) {
  trial.last_step = Now();
}

void Experiment::On(TrialState& trial, const Progress& progress) {
  if (progress.batches != trial.progress.batches) trial.last_step = Now();
  trial.progress = progress;
}

void Experiment::On(TrialState& trial, const TrainingReport& report) {
  trial.last_step = Now();
  trial.row.batches = report.batches;
  trial.training = report.metrics;
  trial.last_failure.clear();
  changed_.insert(trial.row.id.number);
  outbox_.Add(
      [id = trial.row.id, report](StoreWriter& writer) {
        writer.AddMetrics(id, MetricKind::kTraining, report.batches,
                          report.epoch, report.metrics, report.time);
      },
      Urgency::kBatched);
  Acknowledge(trial, report.seq);
  outbox_.After([this, id = trial.row.id, report] {
    doors_.reporter.OnTraining(id, report);
  });
}

void Experiment::On(TrialState& trial, const ValidationReport& report) {
  trial.last_step = Now();
  trial.row.batches = report.batches;
  trial.validation = report.metrics;
  trial.validated_batches = report.batches;
  changed_.insert(trial.row.id.number);
  outbox_.Add(
      [id = trial.row.id, report](StoreWriter& writer) {
        writer.AddMetrics(id, MetricKind::kValidation, report.batches,
                          report.epoch, report.metrics, report.time);
      },
      Urgency::kBatched);
  Acknowledge(trial, report.seq);
  const auto value = SearcherMetric(trial, report.metrics);
  const bool best = value && RecordValidation(trial, *value, report.batches);
  outbox_.After([this, id = trial.row.id, report, best] {
    doors_.reporter.OnValidation(id, report, best);
  });
}

void Experiment::On(TrialState& trial, const CheckpointSaved& saved) {
  trial.last_step = Now();
  CheckpointRow row{.uuid = saved.uuid,
                    .trial = trial.row.id,
                    .state = "COMPLETED",
                    .batches = saved.batches,
                    .epoch = saved.epoch,
                    .bytes = saved.bytes,
                    .files = saved.files,
                    .time = saved.time};
  if (trial.row.latest && trial.row.latest->batches == saved.batches) {
    row.metric = trial.row.latest->value;
  }
  trial.row.latest_checkpoint = saved.uuid;
  trial.checkpoints.push_back(row);
  outbox_.Add([row](StoreWriter& writer) { writer.AddCheckpoint(row); },
              Urgency::kDurable);
  Acknowledge(trial, saved.seq);
  CollectCheckpoints();
  outbox_.After([this, id = trial.row.id, saved] {
    doors_.reporter.OnCheckpoint(id, saved);
  });
}

void Experiment::On(TrialState& trial, const OperationCompleted& completed) {
  Acknowledge(trial, completed.seq);
  const bool expected = !trial.operations.empty() &&
                        trial.operations.front() == completed.length.count;
  if (!expected || trial.stop == StopCause::kFailure) return;
  const auto metric = SearcherMetric(trial, completed.metrics);
  if (!metric) return;
  const bool recorded =
      trial.row.latest && trial.row.latest->batches == completed.batches;
  if (!recorded) RecordValidation(trial, *metric, completed.batches);
  trial.operations.pop_front();
  trial.operation_sent = false;
  trial.trained = completed.length.count;
  trial.ended_early = completed.early;
  ++trial.row.rung;
  outbox_.Add([id = trial.row.id, rung = trial.row.rung](
                  StoreWriter& writer) { writer.SetTrialRung(id, rung); },
              Urgency::kUrgent);
  events_.push_back(
      ValidationCompleted{trial.index(), completed.length.count, *metric});
  Advance(trial);
}

void Experiment::On(TrialState& trial, const Finished& finished) {
  trial.last_word = finished;
}

std::optional<double> Experiment::SearcherMetric(TrialState& trial,
                                                 const MetricValues& metrics) {
  const std::string& wanted = setup_.config.searcher.metric;
  for (const auto& [name, value] : metrics) {
    if (name == wanted) return value;
  }
  Fail(trial, StopCause::kFailure,
       "searcher.metric '" + wanted + "' was not reported; reported: " +
           NamesOf(metrics) + "; set searcher.metric to one of these");
  return std::nullopt;
}

bool Experiment::RecordValidation(TrialState& trial, double value,
                                  std::int64_t batches) {
  trial.row.latest = BestValidation{.value = value, .batches = batches};
  const bool smaller = setup_.config.searcher.smaller_is_better;
  outbox_.Add(
      [id = trial.row.id, value, batches, smaller](StoreWriter& writer) {
        writer.AddValidation(id, value, batches, smaller);
      },
      Urgency::kBatched);
  return NoteBest(trial, value, batches);
}

bool Experiment::NoteBest(TrialState& trial, double value,
                          std::int64_t batches) {
  if (!std::isfinite(value)) return false;
  const bool smaller = setup_.config.searcher.smaller_is_better;
  const auto better = [&](const std::optional<BestValidation>& than) {
    return !than || (smaller ? value < than->value : value > than->value);
  };
  if (better(trial.row.best)) {
    trial.row.best = BestValidation{.value = value, .batches = batches};
  }
  if (!better(best_)) return false;
  best_ = BestValidation{.value = value, .batches = batches};
  best_trial_ = trial.row.id.number;
  return true;
}

}  // namespace dtrain
