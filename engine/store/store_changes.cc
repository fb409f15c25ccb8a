// What users change of an experiment that is there.

#include <array>

#include "engine/base/json_number.h"
#include "engine/store/statements.h"
#include "engine/store/store_writer.h"

namespace dtrain {
namespace {

// Children before parents. Metric names stay: other experiments have them too.
constexpr std::array kDeletions = {
    "DELETE FROM requests WHERE experiment = ?1",
    "DELETE FROM searcher_snapshots WHERE experiment = ?1",
    "DELETE FROM searcher_events WHERE experiment = ?1",
    "DELETE FROM experiment_metrics WHERE experiment = ?1",
    "DELETE FROM checkpoints WHERE trial IN "
    "(SELECT id FROM trials WHERE experiment = ?1)",
    "DELETE FROM evaluations WHERE trial IN "
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

void StoreWriter::DeleteExperiment(std::int64_t experiment) {
  for (const char* sql : kDeletions) statements_.Run(sql, experiment);
  Statements::RequireExperiment(
      statements_.Run("DELETE FROM experiments WHERE id = ?1", experiment),
      experiment);
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

std::int64_t StoreWriter::AddRequest(std::int64_t experiment,
                                     std::optional<std::int64_t> trial,
                                     RequestKind kind, Timestamp time) {
  const std::string name(RequestName(kind));
  SQLite::Statement& known = statements_(
      "SELECT id FROM requests WHERE experiment = ?1 AND trial IS ?2 AND "
      "kind = ?3 AND done = 0 LIMIT 1");
  BindAll(known, experiment, trial, name);
  if (known.executeStep()) {
    const std::int64_t id = known.getColumn(0).getInt64();
    known.reset();
    return id;
  }
  known.reset();
  statements_.Run(
      "INSERT INTO requests (experiment, trial, kind, created) "
      "VALUES (?1, ?2, ?3, ?4)",
      experiment, trial, name, time);
  return statements_.LastInsertId();
}

void StoreWriter::FinishRequest(std::int64_t request) {
  statements_.Run("UPDATE requests SET done = 1 WHERE id = ?1", request);
}

}  // namespace dtrain
