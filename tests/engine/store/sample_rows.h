#pragma once

#include <string>

#include "engine/store/store.h"

namespace dtrain {

/// An experiment to put into a store under test.
inline NewExperiment SampleExperiment() {
  return {.name = "digits",
          .description = "a test",
          .labels = {"fast", "cpu"},
          .searcher = "single",
          .metric = "val_loss",
          .smaller_is_better = true,
          .seed = 7,
          .yaml = "name: digits\n",
          .config = {{"name", "digits"}},
          .provenance = {{"host", "here"}},
          .created = Timestamp(1000)};
}

/// Trial `number` of `experiment`, as the runner records it first.
inline TrialRow SampleTrial(std::int64_t experiment, std::int64_t number) {
  return {.id = {experiment, number},
          .request_id = "0b5d1b1e-6f4c-4a38-9d6c-3f1a5b2c7d8e",
          .hparams = {{"lr", 0.1}},
          .seed = 11,
          .created = Timestamp(2000)};
}

/// A COMPLETED checkpoint; its UUID begins with `prefix` (8 characters).
inline CheckpointRow SampleCheckpoint(TrialId trial, std::int64_t batches,
                                      const std::string& prefix) {
  return {.uuid = prefix + "-6f4c-4a38-9d6c-3f1a5b2c7d8e",
          .trial = trial,
          .state = "COMPLETED",
          .batches = batches,
          .epoch = 0.5,
          .bytes = 4096,
          .files = {{"model.safetensors", "ab"}},
          .time = Timestamp(3000)};
}

/// Returns all fields of a validation. Does not compile where one is missing.
inline nlohmann::json AllFields(const std::optional<BestValidation>& row) {
  if (!row) return nullptr;
  const auto& [value, batches, epoch, checkpoint] = *row;
  return {value, batches, epoch, checkpoint};
}

/// Returns all fields of a trial's row by name. Does not compile where one is
/// missing.
inline nlohmann::json AllFields(const TrialRow& row) {
  const auto& [id, request_id, state, reason, hparams, seed, batches, rung,
               best, latest, latest_checkpoint, restarts, failures, preemptions,
               runs, slots, pid, pid_start, boot_id, created, started, ended,
               seconds, star, note, point, repeat] = row;
  const auto ticks = [](const std::optional<Timestamp>& time) {
    return time ? nlohmann::json(time->count()) : nlohmann::json();
  };
  return {{"id", ToString(id)},
          {"request_id", request_id},
          {"state", StateName(state)},
          {"reason", reason},
          {"hparams", hparams},
          {"seed", seed},
          {"batches", batches},
          {"rung", rung},
          {"best", AllFields(best)},
          {"latest", AllFields(latest)},
          {"latest_checkpoint", latest_checkpoint},
          {"restarts", restarts},
          {"failures", failures},
          {"preemptions", preemptions},
          {"runs", runs},
          {"slots", slots},
          {"pid", pid},
          {"pid_start", pid_start},
          {"boot_id", boot_id},
          {"created", created.count()},
          {"started", ticks(started)},
          {"ended", ticks(ended)},
          {"seconds", seconds},
          {"star", star},
          {"note", note},
          {"point", point},
          {"repeat", repeat}};
}

/// Returns all fields of a checkpoint's row by name. Does not compile where one
/// is missing.
inline nlohmann::json AllFields(const CheckpointRow& row) {
  const auto& [uuid, trial, state, batches, epoch, bytes, files, metric,
               storage, time] = row;
  return {{"uuid", uuid},
          {"trial", ToString(trial)},
          {"state", state},
          {"batches", batches},
          {"epoch", epoch},
          {"bytes", bytes},
          {"files", files},
          {"metric", metric ? nlohmann::json(*metric) : nlohmann::json()},
          {"storage", storage},
          {"time", time.count()}};
}

/// Adds an experiment with `trials` trials and gives its id.
inline std::int64_t AddSample(Store& store, std::int64_t trials) {
  std::int64_t id = 0;
  store.Write([&](StoreWriter& writer) {
    id = writer.AddExperiment(SampleExperiment());
    for (std::int64_t number = 1; number <= trials; ++number) {
      writer.AddTrial(SampleTrial(id, number));
    }
  });
  return id;
}

/// Number of metric rows of the experiment.
inline std::int64_t CountMetrics(const Store& store, std::int64_t experiment) {
  std::int64_t count = 0;
  store.ForEachMetric({.experiment = experiment},
                      [&](const MetricRow&) { ++count; });
  return count;
}

}  // namespace dtrain
