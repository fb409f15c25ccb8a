// Metrics in the store: the changes of StoreWriter and the queries of Store.
//
// Frequent results are stored redundantly, so that a list of experiments reads
// no metrics: a trial has its best and latest validation, an experiment its
// best trial and the number of trials that ended. While validations are only
// added, the best is updated; when one is replaced or superseded, FindBestAgain
// computes it from the valid ones.
//
// A row of `metrics` has the key (trial, kind, batches, name), so a report that
// is sent again replaces the rows that it wrote before. It keeps their run if
// time and value are the same: then it is the same measurement. Queries name
// the order of their tables (CROSS JOIN), because the planner knows no
// statistics and would begin with the millions of metrics.

#include <limits>
#include <utility>

#include <SQLiteCpp/Statement.h>

#include "engine/base/metric_order.h"
#include "engine/store/database.h"
#include "engine/store/statements.h"
#include "engine/store/store.h"

namespace dtrain {
namespace {

// Factor of a metric in SQL: the lower the product, the better the value.
int RankFactor(bool smaller_is_better) {
  return static_cast<int>(RankKey(1, smaller_is_better));
}

// Computes best and latest of the trial, and the best of its experiment, from
// the validations that are not superseded.
void FindBestAgain(Statements& statements, TrialId trial, std::int64_t key,
                   bool smaller_is_better) {
  statements.Run(
      "UPDATE trials SET (best_value, best_batches) = (SELECT value, batches "
      "FROM validations WHERE trial = ?1 AND special = 0 AND superseded = 0 "
      "ORDER BY value * ?2, batches LIMIT 1), "
      "(latest_value, latest_special, latest_batches) = (SELECT value, "
      "special, batches FROM validations WHERE trial = ?1 AND superseded = 0 "
      "ORDER BY batches DESC LIMIT 1) WHERE id = ?1",
      key, RankFactor(smaller_is_better));
  statements.Run(
      "UPDATE experiments SET (best_trial_id, best_trial, best_value, "
      "best_batches) = (SELECT id, number, best_value, best_batches FROM "
      "trials WHERE experiment = ?1 AND best_value IS NOT NULL "
      "ORDER BY best_value * ?2, number LIMIT 1) "
      "WHERE id = ?1 AND "
      "NOT EXISTS (SELECT 1 FROM experiment_details WHERE experiment = ?1 AND "
      "json_extract(config, '$.searcher.repeats') > 1)",
      trial.experiment, RankFactor(smaller_is_better));
}

}  // namespace

void StoreWriter::AddMetrics(TrialId trial, MetricKind kind,
                             std::int64_t batches, double epoch,
                             const MetricValues& values, Timestamp time,
                             std::int64_t run) {
  const std::int64_t key = statements_.TrialKey(trial);
  SQLite::Statement& insert = statements_(
      "INSERT INTO metrics VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, 0) "
      "ON CONFLICT (trial, kind, batches, name) DO UPDATE SET "
      "epoch = excluded.epoch, value = excluded.value, "
      "special = excluded.special, time = excluded.time, superseded = 0, "
      "run = iif(time = excluded.time AND value IS excluded.value, run, "
      "excluded.run)");
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
  SQLite::Statement& query = statements_(
      "SELECT 1 FROM validations WHERE trial = ?1 AND batches = ?2");
  BindAll(query, key, batches);
  const bool replaced = query.executeStep();
  query.reset();
  statements_.Run(
      "INSERT OR REPLACE INTO validations VALUES (?1, ?2, ?3, ?4, ?5, 0)", key,
      batches, stored.value, stored.special, run);
  // The old value may have been the best, which cannot be told from the new
  // one.
  if (replaced) {
    FindBestAgain(statements_, trial, key, smaller_is_better);
    return;
  }
  statements_.Run(
      "UPDATE trials SET latest_value = ?2, latest_special = ?3, "
      "latest_batches = ?4 WHERE id = ?1 AND "
      "(latest_batches IS NULL OR latest_batches <= ?4)",
      key, stored.value, stored.special, batches);
  if (!stored.value) return;
  // Of equal values the first trial's is better. An experiment with repeats has
  // the best that SetExperimentBest records.
  const int factor = RankFactor(smaller_is_better);
  statements_.Run(
      "UPDATE trials SET best_value = ?2, best_batches = ?3 WHERE id = ?1 AND "
      "(best_value IS NULL OR ?2 * ?4 < best_value * ?4)",
      key, value, batches, factor);
  statements_.Run(
      "UPDATE experiments SET best_trial_id = ?2, best_trial = ?3, "
      "best_value = ?4, best_batches = ?5 WHERE id = ?1 AND "
      "(best_value IS NULL OR ?4 * ?6 < best_value * ?6 OR "
      "(?4 = best_value AND ?3 < best_trial)) AND "
      "NOT EXISTS (SELECT 1 FROM experiment_details WHERE experiment = ?1 AND "
      "json_extract(config, '$.searcher.repeats') > 1)",
      trial.experiment, key, trial.number, value, batches, factor);
}

void StoreWriter::SetExperimentBest(std::int64_t experiment, std::int64_t trial,
                                    const std::optional<BestValidation>& best) {
  std::optional<std::int64_t> key, number, batches;
  std::optional<double> value;
  if (best) {
    key = statements_.TrialKey({experiment, trial});
    number = trial;
    batches = best->batches;
    value = best->value;
  }
  statements_.Run(
      "UPDATE experiments SET best_trial_id = ?2, best_trial = ?3, "
      "best_value = ?4, best_batches = ?5 WHERE id = ?1",
      experiment, key, number, value, batches);
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
  if (changed > 0) FindBestAgain(statements_, trial, key, smaller_is_better);
}

namespace {

std::string MetricsSql(const MetricQuery& filter) {
  constexpr const char* kColumns =
      "SELECT t.number, m.kind, m.batches, m.epoch, n.name, m.value, "
      "m.special, m.time, m.superseded, m.run ";
  // The rows are in the order of the keys except for the names, which SQLite
  // sorts within each report, so memory does not grow with the result.
  constexpr const char* kAllNames =
      "FROM trials t CROSS JOIN metrics m ON m.trial = t.id "
      "CROSS JOIN metric_names n ON n.id = m.name WHERE ?6 IS NULL ";
  // The rows of one name need no sorting.
  constexpr const char* kOneName =
      "FROM metric_names n CROSS JOIN trials t CROSS JOIN metrics m "
      "ON m.trial = t.id AND m.name = n.id WHERE n.name = ?6 ";
  constexpr const char* kTrialRange =
      "AND t.experiment = ?1 AND t.number BETWEEN ?2 AND ?3 ";
  // Only an equal kind lets the index find the batches.
  constexpr const char* kOneKind = "AND m.kind = ?4 AND ?4 = ?5 ";
  constexpr const char* kKinds = "AND m.kind BETWEEN ?4 AND ?5 ";
  constexpr const char* kRest =
      "AND m.superseded <= ?7 AND m.batches > ?8 ORDER BY t.number, m.kind, "
      "m.batches, n.name LIMIT ?9";
  return std::string(kColumns) + (filter.name ? kOneName : kAllNames) +
         kTrialRange + (filter.kind ? kOneKind : kKinds) + kRest;
}

}  // namespace

void Store::ForEachMetric(
    const MetricQuery& filter,
    const std::function<void(const MetricRow&)>& row) const {
  constexpr auto kLastTrial = std::numeric_limits<std::int64_t>::max();
  connection_->Guard([&] {
    SQLite::Statement query(*connection_->database, MetricsSql(filter));
    const int least = filter.kind ? static_cast<int>(*filter.kind) : 0;
    const int most = filter.kind ? static_cast<int>(*filter.kind) : 1;
    BindAll(query, filter.experiment, filter.trial.value_or(filter.first_trial),
            filter.trial.value_or(kLastTrial), least, most, filter.name,
            filter.superseded, filter.after, filter.limit);
    while (query.executeStep()) {
      Columns columns(query);
      row({.trial = {filter.experiment, columns.Int()},
           .kind =
               columns.Bool() ? MetricKind::kValidation : MetricKind::kTraining,
           .batches = columns.Int(),
           .epoch = columns.Number(),
           .name = columns.Text(),
           .value = columns.Special(),
           .time = columns.Time(),
           .superseded = columns.Bool(),
           .run = columns.Int()});
    }
  });
}

std::optional<std::int64_t> Store::LastReport(TrialId trial,
                                              MetricKind kind) const {
  return connection_->Guard([&]() -> std::optional<std::int64_t> {
    SQLite::Statement query(
        *connection_->database,
        "SELECT m.batches FROM trials t CROSS JOIN metrics m ON m.trial = t.id "
        "WHERE t.experiment = ?1 AND t.number = ?2 AND m.kind = ?3 "
        "AND m.superseded = 0 ORDER BY m.batches DESC LIMIT 1");
    BindAll(query, trial.experiment, trial.number,
            kind == MetricKind::kValidation);
    if (!query.executeStep()) return std::nullopt;
    return Columns(query).Int();
  });
}

namespace {

constexpr std::int64_t kLastNumber = std::numeric_limits<std::int64_t>::max();

// The parameters are the same in each: ?1 experiment, ?2 and ?3 the range of
// trials, ?4 kind, ?5 name, ?6 greater than any number of batches.

// Since the key of a row is (trial, kind, batches, name), SQLite finds the last
// value before a batch without reading the others.
constexpr const char* kBestValues =
    "SELECT t.number, m.value, m.special FROM metric_names n CROSS JOIN "
    "trials t CROSS JOIN metrics m ON m.trial = t.id AND m.kind = ?4 AND "
    "m.name = n.id AND m.batches = (SELECT b.batches FROM metrics b WHERE "
    "b.trial = t.id AND b.kind = ?4 AND b.name = n.id AND b.superseded = 0 "
    "AND b.batches <= coalesce(t.best_batches, ?6) "
    "ORDER BY b.batches DESC LIMIT 1) "
    "WHERE n.name = ?5 AND t.experiment = ?1 AND t.number BETWEEN ?2 AND ?3";

constexpr const char* kLastValues =
    "SELECT t.number, m.value, m.special FROM metric_names n CROSS JOIN "
    "trials t CROSS JOIN metrics m ON m.trial = t.id AND m.kind = ?4 AND "
    "m.name = n.id AND m.batches = (SELECT b.batches FROM metrics b WHERE "
    "b.trial = t.id AND b.kind = ?4 AND b.name = n.id AND b.superseded = 0 "
    "AND b.batches <= ?6 ORDER BY b.batches DESC LIMIT 1) "
    "WHERE n.name = ?5 AND t.experiment = ?1 AND t.number BETWEEN ?2 AND ?3";

// Infinities count as such; NaN, which is NULL here, is left out. 9e999 is
// SQLite's infinity. A subquery for each trial is faster than GROUP BY, and so
// is the test for an ordinary number before the others.
constexpr const char* kMinValues =
    "SELECT t.number, (SELECT min(CASE m.special WHEN 0 THEN m.value WHEN 2 "
    "THEN 9e999 WHEN 3 THEN -9e999 END) FROM metrics m WHERE m.trial = t.id "
    "AND m.kind = ?4 AND m.name = n.id AND m.superseded = 0 AND m.batches <= "
    "?6), "
    "0 FROM metric_names n CROSS JOIN trials t WHERE n.name = ?5 AND "
    "t.experiment = ?1 AND t.number BETWEEN ?2 AND ?3";

constexpr const char* kMaxValues =
    "SELECT t.number, (SELECT max(CASE m.special WHEN 0 THEN m.value WHEN 2 "
    "THEN 9e999 WHEN 3 THEN -9e999 END) FROM metrics m WHERE m.trial = t.id "
    "AND m.kind = ?4 AND m.name = n.id AND m.superseded = 0 AND m.batches <= "
    "?6), "
    "0 FROM metric_names n CROSS JOIN trials t WHERE n.name = ?5 AND "
    "t.experiment = ?1 AND t.number BETWEEN ?2 AND ?3";

const char* PickCondition(MetricPick pick) {
  switch (pick) {
    case MetricPick::kBest:
      return kBestValues;
    case MetricPick::kLast:
      return kLastValues;
    case MetricPick::kMin:
      return kMinValues;
    case MetricPick::kMax:
      break;
  }
  return kMaxValues;
}

}  // namespace

std::map<std::int64_t, double> Store::TrialMetric(
    std::int64_t experiment, std::optional<std::int64_t> trial, MetricKind kind,
    const std::string& name, MetricPick pick) const {
  return connection_->Guard([&] {
    SQLite::Statement query(*connection_->database, PickCondition(pick));
    BindAll(query, experiment, trial.value_or(0), trial.value_or(kLastNumber),
            kind == MetricKind::kValidation, name, kLastNumber);
    std::map<std::int64_t, double> values;
    while (query.executeStep()) {
      Columns columns(query);
      const std::int64_t number = columns.Int();
      if (query.isColumnNull(1) && query.getColumn(2).getInt() == 0) continue;
      values.emplace_hint(values.end(), number, columns.Special());
    }
    return values;
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

bool Store::HasEpochs(std::int64_t experiment) const {
  return connection_->Guard([&] {
    SQLite::Statement query(
        *connection_->database,
        "SELECT 1 FROM trials t CROSS JOIN metrics m ON m.trial = t.id "
        "WHERE t.experiment = ?1 AND m.epoch > 0 LIMIT 1");
    BindAll(query, experiment);
    return query.executeStep();
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

}  // namespace dtrain
