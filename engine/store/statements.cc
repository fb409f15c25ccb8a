// Prepared statements and keys of rows, kept for the life of a connection, so
// that a report of metrics needs no look-ups. Statements are found by the
// address of their text, which is a literal. The keys of trials and names may
// have been inserted by the transaction itself, so a rollback forgets them all.

#include "engine/store/statements.h"

#include "engine/base/error.h"

namespace dtrain {

SQLite::Statement& Statements::operator()(const char* sql) {
  auto& statement = prepared_[sql];
  if (!statement) {
    statement = std::make_unique<SQLite::Statement>(database_, sql);
  }
  // After a failure `reset` would report it a second time.
  statement->tryReset();
  return *statement;
}

void Statements::RequireExperiment(int rows, std::int64_t experiment) {
  if (rows > 0) return;
  throw Error(ErrorKind::kNotFound,
              "experiment " + std::to_string(experiment) +
                  " is not in the store; was it deleted?");
}

std::int64_t Statements::TrialKey(TrialId trial) {
  const auto found = trials_.find(trial);
  if (found != trials_.end()) return found->second;
  SQLite::Statement& query =
      (*this)("SELECT id FROM trials WHERE experiment = ?1 AND number = ?2");
  BindAll(query, trial.experiment, trial.number);
  if (!query.executeStep()) {
    throw Error(ErrorKind::kNotFound,
                "trial " + ToString(trial) +
                    " is not in the store; was its experiment deleted?");
  }
  const std::int64_t key = query.getColumn(0).getInt64();
  query.reset();
  return trials_[trial] = key;
}

std::int64_t Statements::NameKey(std::int64_t experiment,
                                 const std::string& name) {
  const auto found = names_.find(name);
  std::int64_t key = found == names_.end() ? 0 : found->second;
  if (key == 0) {
    Run("INSERT OR IGNORE INTO metric_names (name) VALUES (?1)", name);
    SQLite::Statement& query =
        (*this)("SELECT id FROM metric_names WHERE name = ?1");
    BindAll(query, name);
    query.executeStep();
    key = query.getColumn(0).getInt64();
    query.reset();
    names_[name] = key;
  }
  // Both are row ids that count from 1, far below 2^31.
  if (experiment_names_.insert(experiment << 32 | key).second) {
    Run("INSERT OR IGNORE INTO experiment_metrics VALUES (?1, ?2)", experiment,
        key);
  }
  return key;
}

void Statements::RolledBack() {
  trials_.clear();
  names_.clear();
  experiment_names_.clear();
}

}  // namespace dtrain
