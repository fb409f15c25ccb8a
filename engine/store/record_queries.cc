#include <limits>

#include <SQLiteCpp/Statement.h>

#include "engine/base/error.h"
#include "engine/base/json_number.h"
#include "engine/base/text.h"
#include "engine/store/database.h"
#include "engine/store/statements.h"
#include "engine/store/store.h"

namespace dtrain {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

CheckpointRow CheckpointOf(SQLite::Statement& statement) {
  Columns columns(statement);
  CheckpointRow row{.uuid = columns.Text(),
                    .trial = {columns.Int(), columns.Int()},
                    .state = columns.Text(),
                    .batches = columns.Int(),
                    .epoch = columns.Number(),
                    .bytes = columns.Int(),
                    .files = columns.Json(),
                    .storage = columns.Text(),
                    .time = columns.Time()};
  if (columns.Bool()) row.metric = columns.Special();
  return row;
}

std::vector<CheckpointRow> ReadCheckpoints(SQLite::Statement& query) {
  std::vector<CheckpointRow> rows;
  while (query.executeStep()) rows.push_back(CheckpointOf(query));
  return rows;
}

MetricValues MetricsOf(const nlohmann::json& object) {
  MetricValues metrics;
  for (const auto& [name, value] : object.items()) {
    metrics.emplace_back(name, NumberFromJson(value));
  }
  return metrics;
}

std::string CheckpointQuery(const char* rest) {
  return std::string(
             "SELECT c.uuid, t.experiment, t.number, c.state, c.batches, "
             "c.epoch, c.bytes, c.files, coalesce(s.path, ''), c.time, "
             "v.special IS NOT NULL, v.value, v.special FROM checkpoints c "
             "JOIN trials t ON t.id = c.trial LEFT JOIN validations v "
             "ON v.trial = c.trial AND v.batches = c.batches "
             "AND v.superseded = 0 "
             "LEFT JOIN storages s ON s.id = c.storage ") +
         rest;
}

}  // namespace

void Store::ForEachMetric(
    const MetricQuery& asked,
    const std::function<void(const MetricRow&)>& row) const {
  // The order of the keys is that of the rows but for the names, which SQLite
  // sorts within each report: nothing is held that grows with the result.
  constexpr const char* kMetrics =
      "SELECT t.number, m.kind, m.batches, m.epoch, n.name, m.value, "
      "m.special, m.time, m.superseded FROM trials t CROSS JOIN metrics m ON "
      "m.trial = t.id "
      "CROSS JOIN metric_names n ON n.id = m.name "
      "WHERE t.experiment = ?1 AND t.number BETWEEN ?2 AND ?3 "
      "AND m.kind BETWEEN ?4 AND ?5 AND (?6 IS NULL OR n.name = ?6) "
      "AND m.superseded <= ?7 "
      "ORDER BY t.number, m.kind, m.batches, n.name";
  connection_->Guard([&] {
    SQLite::Statement query(*connection_->database, kMetrics);
    const int least = asked.kind ? static_cast<int>(*asked.kind) : 0;
    const int most = asked.kind ? static_cast<int>(*asked.kind) : 1;
    BindAll(query, asked.experiment, asked.trial.value_or(0),
            asked.trial.value_or(kMost), least, most, asked.name,
            asked.superseded);
    while (query.executeStep()) {
      Columns columns(query);
      row({.trial = {asked.experiment, columns.Int()},
           .kind =
               columns.Bool() ? MetricKind::kValidation : MetricKind::kTraining,
           .batches = columns.Int(),
           .epoch = columns.Number(),
           .name = columns.Text(),
           .value = columns.Special(),
           .time = columns.Time(),
           .superseded = columns.Bool()});
    }
  });
}

std::optional<ReportedAt> Store::FirstReport(std::int64_t experiment) const {
  return connection_->Guard([&]() -> std::optional<ReportedAt> {
    SQLite::Statement query(
        *connection_->database,
        "SELECT m.batches, m.epoch FROM trials t CROSS JOIN metrics m "
        "ON m.trial = t.id WHERE t.experiment = ?1 AND m.batches > 0 LIMIT 1");
    BindAll(query, experiment);
    if (!query.executeStep()) return std::nullopt;
    Columns columns(query);
    return ReportedAt{.batches = columns.Int(), .epoch = columns.Number()};
  });
}

std::vector<std::string> Store::MetricNames(std::int64_t experiment) const {
  return connection_->Guard([&] {
    SQLite::Statement query(
        *connection_->database,
        "SELECT n.name FROM experiment_metrics e JOIN metric_names n "
        "ON n.id = e.name WHERE e.experiment = ?1 ORDER BY n.name");
    BindAll(query, experiment);
    std::vector<std::string> names;
    while (query.executeStep()) names.push_back(query.getColumn(0).getString());
    return names;
  });
}

std::vector<CheckpointRow> Store::Checkpoints(std::int64_t experiment,
                                              bool deleted) const {
  return connection_->Guard([&] {
    SQLite::Statement query(
        *connection_->database,
        CheckpointQuery("WHERE t.experiment = ?1 AND (?2 OR c.state != "
                        "'DELETED') ORDER BY t.number, c.batches, c.id"));
    BindAll(query, experiment, deleted);
    return ReadCheckpoints(query);
  });
}

CheckpointRow Store::CheckpointByPrefix(const std::string& prefix) const {
  const std::string shown = "checkpoint '" + EscapeForTerminal(prefix) + "'";
  if (prefix.size() < 4) {
    throw Error(ErrorKind::kUsage,
                shown + ": give at least 4 characters of its UUID");
  }
  const auto rows = connection_->Guard([&] {
    // No UUID has a character above 'f', so this is the range of the prefix.
    SQLite::Statement query(
        *connection_->database,
        CheckpointQuery("WHERE c.uuid >= ?1 AND c.uuid < ?1 || 'g' "
                        "ORDER BY c.uuid LIMIT 2"));
    BindAll(query, prefix);
    return ReadCheckpoints(query);
  });
  if (rows.empty()) {
    throw Error(ErrorKind::kNotFound,
                shown + " is not in store " + layout().root().string() +
                    "; `dtrain checkpoints EXP` lists them");
  }
  if (rows.size() > 1) {
    throw Error(ErrorKind::kUsage, shown + " fits several, such as " +
                                       rows[0].uuid + " and " + rows[1].uuid +
                                       "; give more of it");
  }
  return rows.front();
}

std::vector<EvaluationRow> Store::Evaluations(
    std::int64_t experiment, std::optional<std::int64_t> trial) const {
  return connection_->Guard([&] {
    SQLite::Statement query(
        *connection_->database,
        "SELECT t.number, e.checkpoint, e.batches, e.split, e.data, e.metrics, "
        "e.seconds, e.time FROM evaluations e JOIN trials t ON t.id = e.trial "
        "WHERE t.experiment = ?1 AND t.number BETWEEN ?2 AND ?3 ORDER BY e.id");
    BindAll(query, experiment, trial.value_or(0), trial.value_or(kMost));
    std::vector<EvaluationRow> rows;
    while (query.executeStep()) {
      Columns columns(query);
      rows.push_back({.trial = {experiment, columns.Int()},
                      .checkpoint = columns.Text(),
                      .batches = columns.Int(),
                      .split = columns.Text(),
                      .data = columns.Text(),
                      .metrics = MetricsOf(columns.Json()),
                      .seconds = columns.Number(),
                      .time = columns.Time()});
    }
    return rows;
  });
}

std::vector<SearcherEventRow> Store::SearcherEvents(std::int64_t experiment,
                                                    std::int64_t after) const {
  return connection_->Guard([&] {
    SQLite::Statement query(
        *connection_->database,
        "SELECT seq, event, operations FROM searcher_events "
        "WHERE experiment = ?1 AND seq > ?2 ORDER BY seq");
    BindAll(query, experiment, after);
    std::vector<SearcherEventRow> rows;
    while (query.executeStep()) {
      Columns columns(query);
      rows.push_back({.seq = columns.Int(),
                      .event = columns.Json(),
                      .operations = columns.Json()});
    }
    return rows;
  });
}

std::optional<Store::Snapshot> Store::LatestSnapshot(
    std::int64_t experiment) const {
  return connection_->Guard([&]() -> std::optional<Snapshot> {
    SQLite::Statement query(
        *connection_->database,
        "SELECT seq, state FROM searcher_snapshots WHERE experiment = ?1");
    BindAll(query, experiment);
    if (!query.executeStep()) return std::nullopt;
    Columns columns(query);
    return Snapshot{.seq = columns.Int(), .state = columns.Json()};
  });
}

std::int64_t Store::DataVersion() const {
  return connection_->Guard([&] {
    return connection_->database->execAndGet("PRAGMA data_version").getInt64();
  });
}

}  // namespace dtrain
