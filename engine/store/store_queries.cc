#include <limits>
#include <utility>

#include <SQLiteCpp/Statement.h>

#include "engine/store/database.h"
#include "engine/store/statements.h"
#include "engine/store/store.h"

namespace dtrain {
namespace {

// From the columns value, batches, uuid.
std::optional<BestValidation> Best(Columns& columns) {
  const std::optional<double> value = columns.MaybeNumber();
  const std::int64_t batches = columns.Int();
  std::string checkpoint = columns.Text();
  if (!value) return std::nullopt;
  return BestValidation{*value, batches, std::move(checkpoint)};
}

// From the columns batches, value, special, uuid.
std::optional<BestValidation> Latest(Columns& columns) {
  const std::int64_t batches = columns.Int();
  const std::optional<double> value = columns.MaybeNumber();
  const auto special = static_cast<int>(columns.Int());
  std::string checkpoint = columns.Text();
  if (!value && special == 0) return std::nullopt;
  return BestValidation{SpecialValue(value, special).Number(), batches,
                        std::move(checkpoint)};
}

ExperimentRow Experiment(SQLite::Statement& statement) {
  Columns columns(statement);
  // Braces evaluate from left to right, as the columns come.
  return {.id = columns.Int(),
          .name = columns.Text(),
          .description = columns.Text(),
          .labels = columns.Strings(),
          .state = columns.TheState(),
          .progress = columns.Number(),
          .searcher = columns.Text(),
          .metric = columns.Text(),
          .smaller_is_better = columns.Bool(),
          .seed = static_cast<std::uint32_t>(columns.Int()),
          .archived = columns.Bool(),
          .error = columns.Text(),
          .created = columns.Time(),
          .started = columns.MaybeTime(),
          .ended = columns.MaybeTime(),
          .seconds = columns.Number(),
          .trials = columns.Int(),
          .trials_ended = columns.Int(),
          .best = Best(columns),
          .best_trial = columns.Int()};
}

TrialRow TrialOf(SQLite::Statement& statement) {
  Columns columns(statement);
  return {.id = {columns.Int(), columns.Int()},
          .request_id = columns.Text(),
          .state = columns.TheState(),
          .reason = columns.Text(),
          .hparams = columns.Json(),
          .seed = static_cast<std::uint32_t>(columns.Int()),
          .batches = columns.Int(),
          .rung = columns.Int(),
          .best = Best(columns),
          .latest = Latest(columns),
          .latest_checkpoint = columns.Text(),
          .restarts = columns.Int(),
          .failures = columns.Int(),
          .runs = columns.Int(),
          .pid = columns.Int(),
          .pid_start = columns.Int(),
          .boot_id = columns.Text(),
          .created = columns.Time(),
          .started = columns.MaybeTime(),
          .ended = columns.MaybeTime(),
          .seconds = columns.Number()};
}

std::vector<TrialRow> ReadTrials(SQLite::Statement& query) {
  std::vector<TrialRow> trials;
  while (query.executeStep()) trials.push_back(TrialOf(query));
  return trials;
}

// The checkpoint of the best or latest validation is the newest one that was
// made at the same batch and is still there.
constexpr const char* kTrials =
    "SELECT experiment, number, request_id, state, reason, hparams, seed, "
    "batches, rung, "
    "best_value, best_batches, (SELECT uuid FROM checkpoints c WHERE "
    "c.trial = t.id AND c.batches = t.best_batches AND c.state = 'COMPLETED' "
    "ORDER BY c.id DESC LIMIT 1), "
    "latest_batches, latest_value, latest_special, (SELECT uuid FROM "
    "checkpoints c WHERE c.trial = t.id AND c.batches = t.latest_batches AND "
    "c.state = 'COMPLETED' ORDER BY c.id DESC LIMIT 1), "
    "(SELECT uuid FROM checkpoints c WHERE c.trial = t.id AND "
    "c.state = 'COMPLETED' ORDER BY c.batches DESC, c.id DESC LIMIT 1), "
    "restarts, failures, runs, pid, pid_start, boot_id, created, started, "
    "ended, seconds FROM trials t WHERE experiment = ?1 AND number BETWEEN ?2 "
    "AND ?3 "
    "ORDER BY number";

constexpr const char* kExperiments =
    "SELECT id, name, description, labels, state, progress, searcher, metric, "
    "smaller_is_better, seed, archived, error, created, started, ended, "
    "seconds, trials, trials_ended, "
    "best_value, best_batches, (SELECT uuid FROM checkpoints c WHERE "
    "c.trial = e.best_trial_id AND c.batches = e.best_batches AND "
    "c.state = 'COMPLETED' ORDER BY c.id DESC LIMIT 1), best_trial "
    "FROM experiments e WHERE id BETWEEN ?1 AND ?2 AND archived <= ?3 "
    "ORDER BY id";

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

}  // namespace

std::vector<ExperimentRow> Store::Experiments(
    const ExperimentQuery& asked) const {
  return connection_->Guard([&] {
    SQLite::Statement query(*connection_->database, kExperiments);
    BindAll(query, asked.id.value_or(0), asked.id.value_or(kMost),
            asked.archived);
    std::vector<ExperimentRow> rows;
    while (query.executeStep()) rows.push_back(dtrain::Experiment(query));
    return rows;
  });
}

std::optional<ExperimentDetail> Store::Experiment(std::int64_t id) const {
  auto rows = Experiments({.archived = true, .id = id});
  if (rows.empty()) return std::nullopt;
  return connection_->Guard([&] {
    SQLite::Statement query(*connection_->database,
                            "SELECT yaml, config, provenance, note, "
                            "coalesce((SELECT path FROM storages s WHERE "
                            "s.id = storage), '') "
                            "FROM experiment_details WHERE experiment = ?1");
    BindAll(query, id);
    query.executeStep();
    Columns columns(query);
    return std::optional(ExperimentDetail{.row = std::move(rows.front()),
                                          .yaml = columns.Text(),
                                          .config = columns.Json(),
                                          .provenance = columns.Json(),
                                          .note = columns.Text(),
                                          .storage = columns.Text()});
  });
}

std::vector<TrialRow> Store::Trials(std::int64_t experiment) const {
  return connection_->Guard([&] {
    SQLite::Statement query(*connection_->database, kTrials);
    BindAll(query, experiment, 0, kMost);
    return ReadTrials(query);
  });
}

std::optional<TrialRow> Store::Trial(TrialId id) const {
  return connection_->Guard([&]() -> std::optional<TrialRow> {
    SQLite::Statement query(*connection_->database, kTrials);
    BindAll(query, id.experiment, id.number, id.number);
    auto trials = ReadTrials(query);
    if (trials.empty()) return std::nullopt;
    return std::move(trials.front());
  });
}

}  // namespace dtrain
