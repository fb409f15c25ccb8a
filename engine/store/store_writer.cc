// The changes of a write transaction: StoreWriter, which store.h declares.
// Those of metrics are in store_metrics.cc.
//
// Every function is one or few statements within the transaction that
// Store::TryWrite has begun under the write lock; none commits. Numbers that
// `list` shows (counts of trials, best values) are kept in the rows of
// experiments and changed in the same transaction as what they count. A change
// of a missing experiment or trial is an error; one that a crash may repeat,
// such as a checkpoint that is reported again, has no effect the second time.
//
// INTERRUPTED is derived from the runner's lock and INVALID from the reason, so
// neither is stored.

#include <array>
#include <cassert>
#include <string>

#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/store/statements.h"
#include "engine/store/store.h"

namespace dtrain {
namespace {

std::string Name(State state) {
  assert(state != State::kInterrupted && "derived, never stored");
  return std::string(
      StateName(state == State::kInvalid ? State::kError : state));
}

// Deletes children before parents. Metric names stay: other experiments use
// them.
constexpr std::array kDeletions = {
    "DELETE FROM requests WHERE experiment = ?1",
    "DELETE FROM notifications WHERE experiment = ?1",
    "DELETE FROM searcher_snapshots WHERE experiment = ?1",
    "DELETE FROM searcher_events WHERE experiment = ?1",
    "DELETE FROM experiment_metrics WHERE experiment = ?1",
    "DELETE FROM checkpoints WHERE trial IN "
    "(SELECT id FROM trials WHERE experiment = ?1)",
    "DELETE FROM evaluations WHERE trial IN "
    "(SELECT id FROM trials WHERE experiment = ?1)",
    "DELETE FROM system_samples WHERE trial IN "
    "(SELECT id FROM trials WHERE experiment = ?1)",
    "DELETE FROM gpu_samples WHERE trial IN "
    "(SELECT id FROM trials WHERE experiment = ?1)",
    "DELETE FROM profiles WHERE trial IN "
    "(SELECT id FROM trials WHERE experiment = ?1)",
    "DELETE FROM validations WHERE trial IN "
    "(SELECT id FROM trials WHERE experiment = ?1)",
    "DELETE FROM metrics WHERE trial IN "
    "(SELECT id FROM trials WHERE experiment = ?1)",
    "UPDATE experiments SET best_trial_id = NULL WHERE id = ?1",
    "DELETE FROM trials WHERE experiment = ?1",
    "DELETE FROM experiment_details WHERE experiment = ?1",
};

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
      "storage, notify_url) VALUES (?1, ?2, ?3, ?4, (SELECT id FROM storages "
      "WHERE path = ?5), ?6)",
      id, experiment.yaml, JsonText(experiment.config),
      JsonText(experiment.provenance), experiment.storage,
      experiment.notify_url);
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

void StoreWriter::SetArchived(std::int64_t experiment, bool archived) {
  Statements::RequireExperiment(
      statements_.Run("UPDATE experiments SET archived = ?2 WHERE id = ?1",
                      experiment, archived),
      experiment);
}

void StoreWriter::SetLabels(std::int64_t experiment,
                            const std::vector<std::string>& labels) {
  Statements::RequireExperiment(
      statements_.Run("UPDATE experiments SET labels = ?2 WHERE id = ?1",
                      experiment, JsonText(labels)),
      experiment);
}

void StoreWriter::SetNote(std::int64_t experiment, const std::string& note) {
  Statements::RequireExperiment(
      statements_.Run(
          "UPDATE experiment_details SET note = ?2 WHERE experiment = ?1",
          experiment, note),
      experiment);
}

void StoreWriter::SetConfig(std::int64_t experiment,
                            const nlohmann::json& config) {
  const nlohmann::json& description = config.at("description");
  Statements::RequireExperiment(
      statements_.Run(
          "UPDATE experiments SET name = ?2, description = ?3 WHERE id = ?1",
          experiment, config.at("name").get<std::string>(),
          description.is_null() ? "" : description.get<std::string>()),
      experiment);
  statements_.Run(
      "UPDATE experiment_details SET config = ?2 WHERE experiment = ?1",
      experiment, JsonText(config));
}

void StoreWriter::SetProvenance(std::int64_t experiment,
                                const nlohmann::json& provenance) {
  Statements::RequireExperiment(
      statements_.Run(
          "UPDATE experiment_details SET provenance = ?2 WHERE experiment = ?1",
          experiment, JsonText(provenance)),
      experiment);
}

void StoreWriter::DeleteExperiment(std::int64_t experiment) {
  for (const char* sql : kDeletions) statements_.Run(sql, experiment);
  Statements::RequireExperiment(
      statements_.Run("DELETE FROM experiments WHERE id = ?1", experiment),
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
      // The new state less the old one, so that an end that is recorded twice
      // counts once. Must precede the update of the trial.
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

void StoreWriter::SetTrialProcess(TrialId trial,
                                  const RecordedProcess& process) {
  statements_.Run(
      "UPDATE trials SET runs = runs + 1, pid = ?2, pid_start = ?3, "
      "boot_id = ?4, slots = ?5 WHERE id = ?1",
      statements_.TrialKey(trial), process.pid, process.start_ticks,
      process.boot_id, process.slots);
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

void StoreWriter::SetTrialStar(TrialId trial, bool star) {
  statements_.Run("UPDATE trials SET star = ?2 WHERE id = ?1",
                  statements_.TrialKey(trial), star);
}

void StoreWriter::SetTrialNote(TrialId trial, const std::string& note) {
  statements_.Run("UPDATE trials SET note = ?2 WHERE id = ?1",
                  statements_.TrialKey(trial), note);
}

void StoreWriter::SetTrialPreemptions(TrialId trial, std::int64_t preemptions) {
  statements_.Run("UPDATE trials SET preemptions = ?2 WHERE id = ?1",
                  statements_.TrialKey(trial), preemptions);
}

void StoreWriter::SetTrialRung(TrialId trial, std::int64_t rung) {
  statements_.Run("UPDATE trials SET rung = ?2 WHERE id = ?1",
                  statements_.TrialKey(trial), rung);
}

void StoreWriter::SetTrialBatches(TrialId trial, std::int64_t batches) {
  statements_.Run("UPDATE trials SET batches = ?2 WHERE id = ?1",
                  statements_.TrialKey(trial), batches);
}

void StoreWriter::AddProfile(TrialId trial, const ProfileReport& profile) {
  SQLite::Statement& insert = statements_(
      "INSERT OR REPLACE INTO profiles (trial, batches, trained, samples, "
      "minor_faults, peak_bytes, gpu_bytes, gpu_percent, time, data, forward, "
      "backward, exchange, optimizer, report, validation, checkpoint, other) "
      "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, "
      "?15, ?16, ?17, ?18)");
  BindAll(insert, statements_.TrialKey(trial), profile.batches, profile.trained,
          profile.samples, profile.minor_faults, profile.peak_bytes,
          profile.gpu_bytes, profile.gpu_percent, profile.time);
  int index = 9;
  for (const double phase : profile.seconds) {
    Bind(insert, ++index, FiniteOrZero(phase));
  }
  insert.exec();
  insert.reset();
}

void StoreWriter::TruncateProfile(TrialId trial, std::int64_t batches) {
  statements_.Run("DELETE FROM profiles WHERE trial = ?1 AND batches > ?2",
                  statements_.TrialKey(trial), batches);
}

void StoreWriter::AddCheckpoint(const CheckpointRow& checkpoint) {
  // A trial that resumes after a crash may report a checkpoint again; a state
  // recorded since then stays.
  statements_.Run(
      "INSERT INTO checkpoints (uuid, trial, state, batches, epoch, bytes, "
      "files, time, storage) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, "
      "(SELECT id FROM storages WHERE path = ?9)) "
      "ON CONFLICT (uuid) DO NOTHING",
      checkpoint.uuid, statements_.TrialKey(checkpoint.trial), checkpoint.state,
      checkpoint.batches, FiniteOrZero(checkpoint.epoch), checkpoint.bytes,
      JsonText(checkpoint.files), checkpoint.time, checkpoint.storage);
}

void StoreWriter::SetCheckpointState(const std::string& uuid,
                                     const std::string& state) {
  statements_.Run("UPDATE checkpoints SET state = ?2 WHERE uuid = ?1", uuid,
                  state);
}

bool StoreWriter::SetCheckpointFound(const std::string& uuid,
                                     const std::string& state) {
  return statements_.Run(
             "UPDATE checkpoints SET state = ?2 WHERE uuid = ?1 AND "
             "state != 'DELETED'",
             uuid, state) > 0;
}

void StoreWriter::AddEvaluation(const EvaluationRow& evaluation) {
  nlohmann::json metrics = nlohmann::json::object();
  for (const auto& [name, value] : evaluation.metrics) {
    metrics[name] = JsonNumber(value);
  }
  statements_.Run(
      "INSERT INTO evaluations (trial, checkpoint, batches, split, data, "
      "metrics, seconds, time) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
      statements_.TrialKey(evaluation.trial), evaluation.checkpoint,
      evaluation.batches, evaluation.split, evaluation.data, JsonText(metrics),
      evaluation.seconds, evaluation.time);
}

void StoreWriter::AddNotification(std::int64_t experiment,
                                  const NotificationRow& row) {
  statements_.Run(
      "DELETE FROM notifications WHERE experiment = ?1 AND target = ?2 AND "
      "event = ?3 AND event = 'best' AND ended IS NULL",
      experiment, row.target, row.event);
  statements_.Run(
      "INSERT INTO notifications (uuid, experiment, event, target, body, "
      "created) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
      row.uuid, experiment, row.event, row.target, JsonText(row.body),
      row.created);
}

void StoreWriter::EndNotification(const NotificationRow& row) {
  statements_.Run(
      "UPDATE notifications SET attempts = ?2, error = ?3, ended = ?4 WHERE "
      "uuid = ?1",
      row.uuid, row.attempts, row.error, row.ended);
}

std::int64_t StoreWriter::AddRequest(std::int64_t experiment,
                                     std::optional<std::int64_t> trial,
                                     RequestKind kind, Timestamp time) {
  const std::string name(RequestName(kind));
  SQLite::Statement& select = statements_(
      "SELECT id FROM requests WHERE experiment = ?1 AND trial IS ?2 AND "
      "kind = ?3 AND done = 0 LIMIT 1");
  BindAll(select, experiment, trial, name);
  if (select.executeStep()) {
    const std::int64_t id = select.getColumn(0).getInt64();
    select.reset();
    return id;
  }
  select.reset();
  statements_.Run(
      "INSERT INTO requests (experiment, trial, kind, created) "
      "VALUES (?1, ?2, ?3, ?4)",
      experiment, trial, name, time);
  return statements_.LastInsertId();
}

void StoreWriter::FinishRequest(std::int64_t request) {
  statements_.Run("UPDATE requests SET done = 1 WHERE id = ?1", request);
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
