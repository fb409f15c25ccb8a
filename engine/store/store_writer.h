#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/store/rows.h"
#include "engine/wire/profile_report.h"
#include "engine/wire/trial_message.h"

namespace dtrain {

class Statements;

/// What can be said inside one write transaction. Lives only during
/// `Store::TryWrite`; each method is one statement or a few, prepared once.
/// Throws Error(kStore) (disk full, damage), upon which nothing of the
/// transaction stays.
class StoreWriter {
 public:
  /// Gives the new experiment's id.
  std::int64_t AddExperiment(const NewExperiment& experiment);
  /// `started` or `ended` is set from `time` as the state asks for it;
  /// `error` is kept where the state is ERROR, CANCELED or PAUSED.
  void SetExperimentState(std::int64_t experiment, State state, Timestamp time,
                          const std::string& error = "");
  void SetExperimentProgress(std::int64_t experiment, double progress);
  void AddExperimentSeconds(std::int64_t experiment, double seconds);
  void SetArchived(std::int64_t experiment, bool archived);
  void SetLabels(std::int64_t experiment,
                 const std::vector<std::string>& labels);
  void SetNote(std::int64_t experiment, const std::string& note);
  /// With all that is recorded of it. REQUIRES: it has no runner.
  void DeleteExperiment(std::int64_t experiment);

  void AddTrial(const TrialRow& trial);
  /// Sets state, reason, started/ended; a state that is final clears the pid.
  void SetTrialState(TrialId trial, State state, Timestamp time,
                     const std::string& reason = "");
  /// A process of the trial was started: counts `runs` up, keeps the pid with
  /// its start time (clock ticks, as in /proc/PID/stat) and this boot's id.
  void SetTrialProcess(TrialId trial, std::int64_t pid,
                       std::int64_t start_ticks, const std::string& boot_id);
  /// The trial's process has run `seconds` more.
  void AddTrialSeconds(TrialId trial, double seconds);
  /// The process ended, `seconds` after the last `AddTrialSeconds`.
  void ClearTrialProcess(TrialId trial, double seconds);
  /// `failures` of them since the trial last got further.
  void SetTrialRestarts(TrialId trial, std::int64_t restarts,
                        std::int64_t failures);
  void SetTrialRung(TrialId trial, std::int64_t rung);
  void SetTrialBatches(TrialId trial, std::int64_t batches);

  /// One row a metric, measured by the trial's `run`-th process. A value that
  /// is there already (same trial, kind, batches, name) is replaced: the last
  /// report wins.
  void AddMetrics(TrialId trial, MetricKind kind, std::int64_t batches,
                  double epoch, const MetricValues& values, Timestamp time,
                  std::int64_t run = 0);
  /// Records a validation of the searcher's metric: keeps `latest` and, if it
  /// is better than what was, `best`. NaN and infinities are never best.
  void AddValidation(TrialId trial, double value, std::int64_t batches,
                     bool smaller_is_better, std::int64_t run = 0);
  /// Marks the values that runs before `run` measured at `from` <= batches <
  /// `until`: the trial has passed there again without measuring them. They
  /// stay in the record; queries leave them out, and `best` and `latest` are
  /// found again without them.
  void SupersedeMetrics(TrialId trial, std::int64_t run, MetricKind kind,
                        std::int64_t from, std::int64_t until,
                        bool smaller_is_better);
  /// One row, which replaces that of the same batches.
  void AddProfile(TrialId trial, const ProfileReport& profile);
  /// Deletes the profile beyond a checkpoint that the trial goes on from: its
  /// rows are sums, and those batches are trained and counted again.
  void TruncateProfile(TrialId trial, std::int64_t batches);

  void AddCheckpoint(const CheckpointRow& checkpoint);
  void SetCheckpointState(const std::string& uuid, const std::string& state);
  /// The same unless it is DELETED meanwhile; false, with nothing done, then.
  [[nodiscard]] bool SetCheckpointFound(const std::string& uuid,
                                        const std::string& state);

  void AddEvaluation(const EvaluationRow& evaluation);

  /// Gives the request's id, which is that of an open one that asks the same.
  std::int64_t AddRequest(std::int64_t experiment,
                          std::optional<std::int64_t> trial, RequestKind kind,
                          Timestamp time);
  void FinishRequest(std::int64_t request);

  /// `seq` must follow the last one without a gap.
  void AddSearcherEvent(std::int64_t experiment, const SearcherEventRow& row);
  void AddSearcherSnapshot(std::int64_t experiment, std::int64_t seq,
                           const nlohmann::json& state);

 private:
  friend class Store;
  explicit StoreWriter(Statements& statements) : statements_(statements) {}

  Statements& statements_;
};

}  // namespace dtrain
