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

/// How many metric rows the experiment has.
inline std::int64_t CountMetrics(const Store& store, std::int64_t experiment) {
  std::int64_t count = 0;
  store.ForEachMetric({.experiment = experiment},
                      [&](const MetricRow&) { ++count; });
  return count;
}

}  // namespace dtrain
