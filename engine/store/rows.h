#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/base/clock.h"
#include "engine/store/record_rows.h"
#include "engine/store/state.h"
#include "engine/wire/trial_spec.h"

namespace dtrain {

/// The best (or another) validation of a trial, by the searcher's metric.
struct BestValidation {
  double value = 0;
  std::int64_t batches = 0;
  std::string checkpoint;  // UUID, or empty if none was kept
};

/// Where a trial was when it reported.
struct ReportedAt {
  std::int64_t batches = 0;
  double epoch = 0;
};

/// One experiment, without what only its runner needs.
struct ExperimentRow {
  std::int64_t id = 0;
  std::string name;
  std::string description;
  std::vector<std::string> labels;
  State state = State::kPending;
  double progress = 0;
  std::string searcher;
  std::string metric;
  bool smaller_is_better = true;
  std::uint32_t seed = 0;
  bool archived = false;
  std::string error;  // why it failed, or empty
  Timestamp created{0};
  std::optional<Timestamp> started;
  std::optional<Timestamp> ended;
  double seconds = 0;  // time spent running, over all runners so far
  std::int64_t trials = 0;
  std::int64_t trials_ended = 0;
  std::optional<BestValidation> best;
  std::int64_t best_trial = 0;  // number of the trial that holds `best`
};

/// The heavy parts of an experiment.
struct ExperimentDetail {
  ExperimentRow row;
  std::string yaml;           // as the user wrote it
  nlohmann::json config;      // ExperimentConfig::effective
  nlohmann::json provenance;  // where it came from
  std::string note;           // what the user wrote of it, or empty
  // Directory that checkpoint_storage named for its checkpoints, absolute;
  // empty: they are in the store.
  std::string storage;
};

struct NewExperiment {
  std::string name;
  std::string description;
  std::vector<std::string> labels;
  std::string searcher;
  std::string metric;
  bool smaller_is_better = true;
  std::uint32_t seed = 0;
  std::string yaml;
  nlohmann::json config;
  nlohmann::json provenance;
  std::string storage;  // as ExperimentDetail has it
  Timestamp created{0};
};

struct TrialRow {
  TrialId id;
  std::string request_id;
  State state = State::kPending;
  std::string reason;  // why it ended, or empty
  nlohmann::json hparams;
  std::uint32_t seed = 0;
  std::int64_t batches = 0;
  std::int64_t rung = 0;  // ValidateAfter operations completed
  std::optional<BestValidation> best;
  std::optional<BestValidation> latest;
  std::string latest_checkpoint;  // newest COMPLETE one, or empty
  std::int64_t restarts = 0;      // after failures
  std::int64_t failures = 0;      // since it last made a checkpoint further on
  std::int64_t runs = 0;          // processes started so far, pauses included
  std::int64_t pid = 0;           // 0: no process
  std::int64_t pid_start = 0;     // its start, clock ticks as in /proc/PID/stat
  std::string boot_id;            // the boot in which it had that pid
  Timestamp created{0};
  std::optional<Timestamp> started;
  std::optional<Timestamp> ended;
  double seconds = 0;  // in processes, over all runs so far
};

}  // namespace dtrain
