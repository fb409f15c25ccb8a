#include <string>

#include <nlohmann/json.hpp>

#include "engine/store/statements.h"
#include "engine/store/store_writer.h"

namespace dtrain {
namespace {

// Notes the trial's best as the experiment's if it is better. Of equals the
// first trial wins, whichever was faster, so that runs of one seed agree.
void OfferToExperiment(Statements& statements, TrialId trial, std::int64_t key,
                       double value, std::int64_t batches,
                       bool smaller_is_better) {
  statements.Run(
      smaller_is_better
          ? "UPDATE experiments SET best_trial_id = ?2, best_trial = ?3, "
            "best_value = ?4, best_batches = ?5 WHERE id = ?1 AND "
            "(best_value IS NULL OR ?4 < best_value OR "
            "(?4 = best_value AND ?3 < best_trial))"
          : "UPDATE experiments SET best_trial_id = ?2, best_trial = ?3, "
            "best_value = ?4, best_batches = ?5 WHERE id = ?1 AND "
            "(best_value IS NULL OR ?4 > best_value OR "
            "(?4 = best_value AND ?3 < best_trial))",
      trial.experiment, key, trial.number, value, batches);
}

// Finds best and latest of the trial, and the best of its experiment, again
// from the validations that are not superseded.
void FindBestAnew(Statements& statements, TrialId trial, std::int64_t key,
                  bool smaller_is_better) {
  statements.Run(
      "UPDATE trials SET (best_value, best_batches) = (SELECT value, batches "
      "FROM validations WHERE trial = ?1 AND special = 0 AND superseded = 0 "
      "ORDER BY value * ?2, batches LIMIT 1), "
      "(latest_value, latest_special, latest_batches) = (SELECT value, "
      "special, batches FROM validations WHERE trial = ?1 AND superseded = 0 "
      "ORDER BY batches DESC LIMIT 1) WHERE id = ?1",
      key, smaller_is_better ? 1 : -1);
  statements.Run(
      "UPDATE experiments SET (best_trial_id, best_trial, best_value, "
      "best_batches) = (SELECT id, number, best_value, best_batches FROM "
      "trials WHERE experiment = ?1 AND best_value IS NOT NULL "
      "ORDER BY best_value * ?2, number LIMIT 1) WHERE id = ?1",
      trial.experiment, smaller_is_better ? 1 : -1);
}

bool HasValidation(Statements& statements, std::int64_t key,
                   std::int64_t batches) {
  SQLite::Statement& query =
      statements("SELECT 1 FROM validations WHERE trial = ?1 AND batches = ?2");
  BindAll(query, key, batches);
  const bool found = query.executeStep();
  query.reset();
  return found;
}

}  // namespace

void StoreWriter::AddMetrics(TrialId trial, MetricKind kind,
                             std::int64_t batches, double epoch,
                             const MetricValues& values, Timestamp time,
                             std::int64_t run) {
  const std::int64_t key = statements_.TrialKey(trial);
  SQLite::Statement& insert = statements_(
      "INSERT OR REPLACE INTO metrics VALUES "
      "(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, 0)");
  BindAll(insert, key, kind == MetricKind::kValidation, batches,
          /*name=*/0, FiniteOrZero(epoch), std::nullopt, /*special=*/0, time,
          run);
  for (const auto& [name, number] : values) {
    const SpecialValue value(number);
    Bind(insert, 4, statements_.NameKey(trial.experiment, name));
    Bind(insert, 6, value.value);
    Bind(insert, 7, value.special);
    insert.exec();
    insert.reset();
  }
}

void StoreWriter::AddValidation(TrialId trial, double value,
                                std::int64_t batches, bool smaller_is_better,
                                std::int64_t run) {
  const std::int64_t key = statements_.TrialKey(trial);
  const SpecialValue stored(value);
  const bool replaced = HasValidation(statements_, key, batches);
  statements_.Run(
      "INSERT OR REPLACE INTO validations VALUES (?1, ?2, ?3, ?4, ?5, 0)", key,
      batches, stored.value, stored.special, run);
  if (replaced) {
    FindBestAnew(statements_, trial, key, smaller_is_better);
    return;
  }
  statements_.Run(
      "UPDATE trials SET latest_value = ?2, latest_special = ?3, "
      "latest_batches = ?4 WHERE id = ?1 AND "
      "(latest_batches IS NULL OR latest_batches <= ?4)",
      key, stored.value, stored.special, batches);
  if (!stored.value) return;
  statements_.Run(smaller_is_better
                      ? "UPDATE trials SET best_value = ?2, best_batches = ?3 "
                        "WHERE id = ?1 AND (best_value IS NULL OR "
                        "?2 < best_value)"
                      : "UPDATE trials SET best_value = ?2, best_batches = ?3 "
                        "WHERE id = ?1 AND (best_value IS NULL OR "
                        "?2 > best_value)",
                  key, value, batches);
  OfferToExperiment(statements_, trial, key, value, batches, smaller_is_better);
}

void StoreWriter::SupersedeMetrics(TrialId trial, std::int64_t run,
                                   MetricKind kind, std::int64_t from,
                                   std::int64_t until, bool smaller_is_better) {
  const std::int64_t key = statements_.TrialKey(trial);
  statements_.Run(
      "UPDATE metrics SET superseded = 1 WHERE trial = ?1 AND kind = ?2 AND "
      "batches >= ?3 AND batches < ?4 AND run < ?5 AND superseded = 0",
      key, kind == MetricKind::kValidation, from, until, run);
  if (kind != MetricKind::kValidation) return;
  const int changed = statements_.Run(
      "UPDATE validations SET superseded = 1 WHERE trial = ?1 AND "
      "batches >= ?2 AND batches < ?3 AND run < ?4 AND superseded = 0",
      key, from, until, run);
  if (changed > 0) FindBestAnew(statements_, trial, key, smaller_is_better);
}

void StoreWriter::TruncateProfile(TrialId trial, std::int64_t batches) {
  statements_.Run("DELETE FROM profiles WHERE trial = ?1 AND batches > ?2",
                  statements_.TrialKey(trial), batches);
}

void StoreWriter::AddCheckpoint(const CheckpointRow& checkpoint) {
  // A trial that goes on after a crash may report a checkpoint again; what has
  // become of it meanwhile stands.
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

}  // namespace dtrain
