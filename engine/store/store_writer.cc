#include "engine/store/store_writer.h"

#include <cassert>
#include <string>

#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "engine/store/statements.h"

namespace dtrain {
namespace {

std::string Name(State state) {
  assert(state != State::kInterrupted && "derived, never stored");
  return std::string(StateName(state));
}

}  // namespace

std::int64_t StoreWriter::AddExperiment(const NewExperiment& experiment) {
  statements_.Run(
      "INSERT INTO experiments (name, description, labels, state, searcher, "
      "metric, smaller_is_better, seed, created) "
      "VALUES (?1, ?2, ?3, 'PENDING', ?4, ?5, ?6, ?7, ?8)",
      experiment.name, experiment.description, JsonText(experiment.labels),
      experiment.searcher, experiment.metric, experiment.smaller_is_better,
      experiment.seed, experiment.created);
  const std::int64_t id = statements_.LastInsertId();
  if (!experiment.storage.empty()) {
    statements_.Run("INSERT OR IGNORE INTO storages (path) VALUES (?1)",
                    experiment.storage);
  }
  statements_.Run(
      "INSERT INTO experiment_details (experiment, yaml, config, provenance, "
      "storage) VALUES (?1, ?2, ?3, ?4, (SELECT id FROM storages WHERE "
      "path = ?5))",
      id, experiment.yaml, JsonText(experiment.config),
      JsonText(experiment.provenance), experiment.storage);
  return id;
}

void StoreWriter::SetExperimentState(std::int64_t experiment, State state,
                                     Timestamp time, const std::string& error) {
  const int rows = statements_.Run(
      "UPDATE experiments SET state = ?2, "
      "started = CASE WHEN ?3 THEN coalesce(started, ?5) ELSE started END, "
      "ended = CASE WHEN ?4 THEN ?5 END, error = ?6 WHERE id = ?1",
      experiment, Name(state), state == State::kRunning, IsFinal(state), time,
      state == State::kError || state == State::kPaused ||
              state == State::kCanceled
          ? error
          : std::string());
  statements_.RequireExperiment(rows, experiment);
}

void StoreWriter::SetExperimentProgress(std::int64_t experiment,
                                        double progress) {
  statements_.RequireExperiment(
      statements_.Run("UPDATE experiments SET progress = ?2 WHERE id = ?1",
                      experiment, FiniteOrZero(progress)),
      experiment);
}

void StoreWriter::AddExperimentSeconds(std::int64_t experiment,
                                       double seconds) {
  statements_.RequireExperiment(
      statements_.Run(
          "UPDATE experiments SET seconds = seconds + ?2 WHERE id = ?1",
          experiment, FiniteOrZero(seconds)),
      experiment);
}

void StoreWriter::AddTrial(const TrialRow& trial) {
  statements_.RequireExperiment(
      statements_.Run("UPDATE experiments SET trials = trials + 1, "
                      "trials_ended = trials_ended + ?2 WHERE id = ?1",
                      trial.id.experiment, IsFinal(trial.state)),
      trial.id.experiment);
  statements_.Run(
      "INSERT INTO trials (experiment, number, request_id, state, reason, "
      "hparams, seed, batches, rung, restarts, runs, created) "
      "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
      trial.id.experiment, trial.id.number, trial.request_id, Name(trial.state),
      trial.reason, JsonText(trial.hparams), trial.seed, trial.batches,
      trial.rung, trial.restarts, trial.runs, trial.created);
}

void StoreWriter::SetTrialState(TrialId trial, State state, Timestamp time,
                                const std::string& reason) {
  const std::int64_t key = statements_.TrialKey(trial);
  statements_.Run(
      "UPDATE experiments SET trials_ended = trials_ended + ?3 - (SELECT state "
      "IN ('COMPLETED', 'CANCELED', 'ERROR', 'STOPPED') FROM trials "
      "WHERE id = ?2) WHERE id = ?1",
      trial.experiment, key, IsFinal(state));
  statements_.Run(
      "UPDATE trials SET state = ?2, reason = ?3, "
      "started = CASE WHEN ?4 THEN coalesce(started, ?6) ELSE started END, "
      "ended = CASE WHEN ?5 THEN ?6 END, "
      "pid = CASE WHEN ?5 THEN 0 ELSE pid END WHERE id = ?1",
      key, Name(state), reason, state == State::kRunning, IsFinal(state), time);
}

void StoreWriter::SetTrialProcess(TrialId trial, std::int64_t pid,
                                  std::int64_t start_ticks,
                                  const std::string& boot_id) {
  statements_.Run(
      "UPDATE trials SET runs = runs + 1, pid = ?2, pid_start = ?3, "
      "boot_id = ?4 WHERE id = ?1",
      statements_.TrialKey(trial), pid, start_ticks, boot_id);
}

void StoreWriter::AddTrialSeconds(TrialId trial, double seconds) {
  statements_.Run("UPDATE trials SET seconds = seconds + ?2 WHERE id = ?1",
                  statements_.TrialKey(trial), FiniteOrZero(seconds));
}

void StoreWriter::ClearTrialProcess(TrialId trial, double seconds) {
  statements_.Run(
      "UPDATE trials SET pid = 0, seconds = seconds + ?2 WHERE id = ?1",
      statements_.TrialKey(trial), FiniteOrZero(seconds));
}

void StoreWriter::SetTrialRestarts(TrialId trial, std::int64_t restarts,
                                   std::int64_t failures) {
  statements_.Run(
      "UPDATE trials SET restarts = ?2, failures = ?3 WHERE id = ?1",
      statements_.TrialKey(trial), restarts, failures);
}

void StoreWriter::SetTrialRung(TrialId trial, std::int64_t rung) {
  statements_.Run("UPDATE trials SET rung = ?2 WHERE id = ?1",
                  statements_.TrialKey(trial), rung);
}

void StoreWriter::SetTrialBatches(TrialId trial, std::int64_t batches) {
  statements_.Run("UPDATE trials SET batches = ?2 WHERE id = ?1",
                  statements_.TrialKey(trial), batches);
}

void StoreWriter::AddSearcherEvent(std::int64_t experiment,
                                   const SearcherEventRow& row) {
  const int rows = statements_.Run(
      "INSERT INTO searcher_events SELECT ?1, ?2, ?3, ?4 WHERE ?2 = (SELECT "
      "coalesce(max(seq), 0) + 1 FROM searcher_events WHERE experiment = ?1)",
      experiment, row.seq, JsonText(row.event), JsonText(row.operations));
  if (rows == 1) return;
  throw Error(ErrorKind::kStore,
              "experiment " + std::to_string(experiment) + ": searcher event " +
                  std::to_string(row.seq) +
                  " does not follow the last one; this is a bug of dtrain, "
                  "please report it");
}

void StoreWriter::AddSearcherSnapshot(std::int64_t experiment, std::int64_t seq,
                                      const nlohmann::json& state) {
  statements_.Run(
      "INSERT OR REPLACE INTO searcher_snapshots VALUES "
      "(?1, ?2, ?3)",
      experiment, seq, JsonText(state));
}

}  // namespace dtrain
