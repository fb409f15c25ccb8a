// How Experiment goes on from the record, and starts trials.

#include <memory>
#include <utility>

#include "engine/run/experiment.h"

namespace dtrain {

void Experiment::Recover() {
  const Store& store = doors_.store;
  const auto events = store.SearcherEvents(setup_.id, 0);
  search_.Recover(store.LatestSnapshot(setup_.id), events);
  for (TrialRow& row : store.Trials(setup_.id)) {
    auto trial = std::make_unique<TrialState>();
    trial->ended = IsFinal(row.state);
    trial->row = std::move(row);
    if (const auto& best = trial->row.best) {
      NoteBest(*trial, best->value, best->batches);
    }
    trials_.emplace(trial->row.id.number, std::move(trial));
  }
  for (CheckpointRow& row : store.Checkpoints(setup_.id)) {
    if (row.state == "COMPLETED")
      Find(row.trial).checkpoints.push_back(std::move(row));
  }
  for (const SearcherEventRow& row : events) {
    const Event event = EventFromJson(row.event);
    if (const auto* done = std::get_if<ValidationCompleted>(&event)) {
      TrialState& trial = *trials_.at(done->trial + 1);
      trial.trained = done->length;
      if (!trial.operations.empty()) trial.operations.pop_front();
    }
    for (const nlohmann::json& json : row.operations) {
      const Operation operation = OperationFromJson(json);
      if (const auto* more = std::get_if<ValidateAfter>(&operation)) {
        trials_.at(more->trial + 1)->operations.push_back(more->length);
      } else if (const auto* close = std::get_if<Close>(&operation)) {
        trials_.at(close->trial + 1)->close_requested = true;
      } else if (const auto* end = std::get_if<Shutdown>(&operation)) {
        shutdown_ = true;
        failed_ = end->failed;
      }
    }
  }
  for (auto& [number, trial] : trials_) {
    if (!trial->ended) Advance(*trial);
  }
}

void Experiment::StartTrial(TrialState& trial) {
  trial.process = ProcessState::kQueued;
  trial.operation_sent = true;
  trial.close_sent = false;
  trial.stop = StopCause::kNone;
  trial.last_word.reset();
  trial.progress = {};
  const TrialSpec spec = SpecOf(trial);
  if (spec.run == 0) return doors_.launcher.Start(spec);
  // What it reported beyond its checkpoint will be reported again.
  const std::int64_t from = trial.restart_batches();
  trial.row.batches = from;
  outbox_.Add(
      [id = spec.id, from,
       &config = setup_.config.searcher](StoreWriter& writer) {
        writer.TruncateMetrics(id, from, config.metric,
                               config.smaller_is_better);
        writer.SetTrialBatches(id, from);
      },
      Urgency::kUrgent);
  outbox_.After([this, spec] { doors_.launcher.Start(spec); });
}

TrialSpec Experiment::SpecOf(const TrialState& trial) const {
  const ExperimentConfig& config = setup_.config;
  const StoreLayout& layout = doors_.store.layout();
  TrialSpec spec;
  spec.id = trial.row.id;
  spec.run = trial.row.runs;
  if (const auto* name = std::get_if<std::string>(&config.entrypoint)) {
    spec.entrypoint = *name;
  }
  spec.hparams = trial.row.hparams;
  spec.data = config.data;
  spec.seed = trial.row.seed;
  spec.threads = setup_.threads;
  spec.directory = layout.Trial(trial.row.id).string();
  if (!trial.checkpoints.empty()) {
    spec.restore = trial.checkpoints.back().uuid;
  } else if (!config.source_checkpoint_uuid.empty()) {
    const CheckpointRow row =
        doors_.store.CheckpointByPrefix(config.source_checkpoint_uuid);
    spec.warm_start = layout.Checkpoint(row.trial, row.uuid).string();
  }
  spec.until = Length{trial.operations.front(), config.length_unit};
  spec.settings = config.training;
  spec.settings.searcher_metric = config.searcher.metric;
  spec.settings.smaller_is_better = config.searcher.smaller_is_better;
  return spec;
}

}  // namespace dtrain
