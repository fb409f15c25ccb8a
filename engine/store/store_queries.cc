// The queries of Store, each with the function that reads its rows. Those of
// metrics are in store_metrics.cc.
//
// A function that reads a row takes its columns in the order of the query, so
// both change together. Parameters leave out what a caller does not need:
// hyperparameters and checkpoints are most of the cost of a long list of
// trials.
//
// The best and the latest validation are stored as numbers only. Their
// checkpoint is looked up, because it may be deleted later, and so is their
// epoch, which their metrics have.

#include <limits>
#include <utility>

#include <SQLiteCpp/Statement.h>

#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/base/text.h"
#include "engine/store/database.h"
#include "engine/store/hparam_reader.h"
#include "engine/store/statements.h"
#include "engine/store/store.h"

namespace dtrain {
namespace {

// Reads the columns value, batches, epoch, uuid.
std::optional<BestValidation> Best(Columns& columns) {
  const std::optional<double> value = columns.MaybeNumber();
  const std::int64_t batches = columns.Int();
  const double epoch = columns.Number();
  std::string checkpoint = columns.Text();
  if (!value) return std::nullopt;
  return BestValidation{*value, batches, epoch, std::move(checkpoint)};
}

// Reads the columns batches, epoch, value, special, uuid.
std::optional<BestValidation> Latest(Columns& columns) {
  const std::int64_t batches = columns.Int();
  const double epoch = columns.Number();
  const std::optional<double> value = columns.MaybeNumber();
  const auto special = static_cast<int>(columns.Int());
  std::string checkpoint = columns.Text();
  // NULL and not special: there is no validation.
  if (!value && special == 0) return std::nullopt;
  return BestValidation{SpecialValue(value, special).Number(), batches, epoch,
                        std::move(checkpoint)};
}

ExperimentRow Experiment(SQLite::Statement& statement) {
  Columns columns(statement);
  // Initializers in braces are evaluated in the order of the columns.
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

TrialRow ReadTrialRow(SQLite::Statement& statement) {
  Columns columns(statement);
  TrialRow trial{.id = {columns.Int(), columns.Int()},
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
                 .preemptions = columns.Int(),
                 .runs = columns.Int(),
                 .slots = columns.Text(),
                 .pid = columns.Int(),
                 .pid_start = columns.Int(),
                 .boot_id = columns.Text(),
                 .created = columns.Time(),
                 .started = columns.MaybeTime(),
                 .ended = columns.MaybeTime(),
                 .seconds = columns.Number(),
                 .star = columns.Bool(),
                 .note = columns.Text()};
  const std::int64_t repeats = columns.MaybeInt().value_or(1);
  if (repeats > 1) {
    // As FindRepeatPlace (searchers/repeats.h) has it.
    trial.point = (trial.id.number - 1) / repeats + 1;
    trial.repeat = (trial.id.number - 1) % repeats + 1;
  }
  // The schema has no such state: adding one to its constraint would mean to
  // rebuild the table.
  if (trial.state == State::kError && trial.reason.starts_with(kInvalidReason))
    trial.state = State::kInvalid;
  return trial;
}

std::vector<TrialRow> ReadTrials(SQLite::Statement& query) {
  std::vector<TrialRow> trials;
  while (query.executeStep()) trials.push_back(ReadTrialRow(query));
  return trials;
}

// The checkpoint of the best or latest validation is the newest existing one of
// the same batch. Its epoch is read from a metric of that batch; all have the
// same. ?4 and ?5: with hyperparameters, with checkpoints.
constexpr const char* kTrials =
    "SELECT experiment, number, request_id, state, reason, "
    "CASE WHEN ?4 THEN hparams ELSE 'null' END, seed, batches, rung, "
    "best_value, best_batches, (SELECT epoch FROM metrics m WHERE "
    "m.trial = t.id AND m.kind = 1 AND m.batches = t.best_batches LIMIT 1), "
    "CASE WHEN ?5 THEN (SELECT uuid FROM "
    "checkpoints c WHERE c.trial = t.id AND c.batches = t.best_batches AND "
    "c.state = 'COMPLETED' ORDER BY c.id DESC LIMIT 1) END, "
    "latest_batches, (SELECT epoch FROM metrics m WHERE m.trial = t.id AND "
    "m.kind = 1 AND m.batches = t.latest_batches LIMIT 1), latest_value, "
    "latest_special, CASE WHEN ?5 THEN (SELECT "
    "uuid FROM checkpoints c WHERE c.trial = t.id AND "
    "c.batches = t.latest_batches AND c.state = 'COMPLETED' "
    "ORDER BY c.id DESC LIMIT 1) END, "
    "CASE WHEN ?5 THEN (SELECT uuid FROM checkpoints c WHERE c.trial = t.id "
    "AND c.state = 'COMPLETED' ORDER BY c.batches DESC, c.id DESC LIMIT 1) "
    "END, "
    "restarts, failures, preemptions, runs, slots, pid, pid_start, boot_id, "
    "created, started, ended, seconds, star, note, "
    "(SELECT json_extract(config, "
    "'$.searcher.repeats') FROM experiment_details WHERE experiment = ?1) "
    "FROM trials t WHERE experiment = ?1 AND "
    "number BETWEEN ?2 "
    "AND ?3 AND (?6 IS NULL OR state = 'RUNNING' OR created >= ?6 OR "
    "started >= ?6 OR ended >= ?6) "
    "ORDER BY number";

// The epoch of the best validation is looked up for a single experiment only: a
// list would read a page of metrics for each row.
constexpr const char* kExperiments =
    "SELECT id, name, description, labels, state, progress, searcher, metric, "
    "smaller_is_better, seed, archived, error, created, started, ended, "
    "seconds, trials, trials_ended, "
    "best_value, best_batches, CASE WHEN ?1 = ?2 THEN (SELECT epoch FROM "
    "metrics m WHERE m.trial = e.best_trial_id AND m.kind = 1 AND m.batches = "
    "e.best_batches LIMIT 1) END, (SELECT uuid FROM checkpoints c WHERE "
    "c.trial = e.best_trial_id AND c.batches = e.best_batches AND "
    "c.state = 'COMPLETED' ORDER BY c.id DESC LIMIT 1), best_trial "
    "FROM experiments e WHERE id BETWEEN ?1 AND ?2 AND archived <= ?3 "
    "ORDER BY id";

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

PhaseSeconds ReadSeconds(Columns& columns) {
  PhaseSeconds seconds;
  for (double& phase : seconds) phase = columns.Number();
  return seconds;
}

std::vector<CheckpointRow> ReadCheckpoints(SQLite::Statement& query) {
  std::vector<CheckpointRow> rows;
  while (query.executeStep()) {
    Columns columns(query);
    rows.push_back({.uuid = columns.Text(),
                    .trial = {columns.Int(), columns.Int()},
                    .state = columns.Text(),
                    .batches = columns.Int(),
                    .epoch = columns.Number(),
                    .bytes = columns.Int(),
                    .files = columns.Json(),
                    .storage = columns.Text(),
                    .time = columns.Time()});
    if (columns.Bool()) rows.back().metric = columns.Special();
  }
  return rows;
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

std::vector<ExperimentRow> Store::Experiments(
    const ExperimentQuery& filter) const {
  return connection_->Guard([&] {
    SQLite::Statement query(*connection_->database, kExperiments);
    BindAll(query, filter.id.value_or(0), filter.id.value_or(kMax),
            filter.archived);
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

std::vector<TrialRow> Store::Trials(std::int64_t experiment,
                                    TrialParts parts) const {
  return connection_->Guard([&] {
    SQLite::Statement query(*connection_->database, kTrials);
    BindAll(query, experiment, 0, kMax, parts.hparams, parts.checkpoints,
            parts.changed_since);
    return ReadTrials(query);
  });
}

std::optional<TrialRow> Store::Trial(TrialId id) const {
  const auto read = [&](SQLite::Statement& query) -> std::optional<TrialRow> {
    BindAll(query, id.experiment, id.number, id.number, /*hparams=*/true,
            /*checkpoints=*/true, std::nullopt);
    auto trials = ReadTrials(query);
    if (trials.empty()) return std::nullopt;
    return std::move(trials.front());
  };
  return connection_->Guard([&] {
    if (!connection_->statements) {
      SQLite::Statement query(*connection_->database, kTrials);
      return read(query);
    }
    // A runner asks at each end of a trial, and preparing costs more than
    // reading.
    SQLite::Statement& query = (*connection_->statements)(kTrials);
    try {
      return read(query);
    } catch (...) {
      query.tryReset();  // else it would keep the state of the database
      throw;
    }
  });
}

std::vector<TrialRemark> Store::TrialRemarks(std::int64_t experiment) const {
  return connection_->Guard([&] {
    // As the index trials_with_remarks has it.
    SQLite::Statement query(*connection_->database,
                            "SELECT number, star, note FROM trials WHERE "
                            "experiment = ?1 AND (star = 1 OR note <> '') "
                            "ORDER BY number");
    BindAll(query, experiment);
    std::vector<TrialRemark> remarks;
    while (query.executeStep()) {
      Columns columns(query);
      remarks.push_back({columns.Int(), columns.Bool(), columns.Text()});
    }
    return remarks;
  });
}

std::int64_t Store::LastExperimentId() const {
  return connection_->Guard([&] {
    // AUTOINCREMENT's counter includes deleted experiments.
    return connection_->database
        ->execAndGet(
            "SELECT coalesce(max(seq), 0) FROM sqlite_sequence "
            "WHERE name = 'experiments'")
        .getInt64();
  });
}

void Store::ForEachHparams(
    std::int64_t experiment, const std::vector<std::string>& names,
    const std::function<void(std::int64_t, std::span<const nlohmann::json>)>&
        row) const {
  HparamReader reader(names);
  connection_->Guard([&] {
    SQLite::Statement query(*connection_->database,
                            "SELECT number, hparams FROM trials WHERE "
                            "experiment = ?1 ORDER BY number");
    BindAll(query, experiment);
    while (query.executeStep()) {
      Columns columns(query);
      const std::int64_t number = columns.Int();
      row(number, reader.Read(columns.TextView()));
    }
  });
}

namespace {

// Returns the sums of the profiles of the trials from `first` to `last`.
std::map<std::int64_t, ProfileReport> ReadProfiles(
    const SQLite::Database& database, std::int64_t experiment,
    std::int64_t first, std::int64_t last) {
  // total(), because sum() fails if integers overflow.
  SQLite::Statement query(
      database,
      "SELECT t.number, max(p.batches), CAST(total(trained) AS INTEGER), "
      "CAST(total(p.samples) AS INTEGER), total(data), total(forward), "
      "total(backward), total(exchange), total(optimizer), total(report), "
      "total(validation), total(checkpoint), total(other), "
      "CAST(total(minor_faults) AS INTEGER), max(peak_bytes), max(gpu_bytes), "
      "CAST(round(avg(gpu_percent)) AS INTEGER), max(time) FROM trials t JOIN "
      "profiles p ON p.trial = t.id WHERE t.experiment = ?1 AND t.number "
      "BETWEEN ?2 AND ?3 GROUP BY 1");
  BindAll(query, experiment, first, last);
  std::map<std::int64_t, ProfileReport> profiles;
  while (query.executeStep()) {
    Columns columns(query);
    ProfileReport& profile = profiles[columns.Int()];
    profile = {.batches = columns.Int(),
               .trained = columns.Int(),
               .samples = columns.Int(),
               .seconds = ReadSeconds(columns),
               .minor_faults = columns.Int(),
               .peak_bytes = columns.Int(),
               .gpu_bytes = columns.MaybeInt(),
               .gpu_percent = columns.MaybeInt(),
               .time = columns.Time()};
  }
  return profiles;
}

}  // namespace

std::optional<ProfileReport> Store::Profile(TrialId id) const {
  return connection_->Guard([&]() -> std::optional<ProfileReport> {
    const auto profiles = ReadProfiles(*connection_->database, id.experiment,
                                       id.number, id.number);
    if (profiles.empty()) return std::nullopt;
    return profiles.begin()->second;
  });
}

std::map<std::int64_t, ProfileReport> Store::Profiles(
    std::int64_t experiment) const {
  return connection_->Guard([&] {
    return ReadProfiles(*connection_->database, experiment, /*first=*/0, kMax);
  });
}

std::vector<CheckpointRow> Store::Checkpoints(
    std::int64_t experiment, bool deleted,
    std::optional<std::int64_t> trial) const {
  return connection_->Guard([&] {
    SQLite::Statement query(
        *connection_->database,
        CheckpointQuery("WHERE t.experiment = ?1 AND t.number BETWEEN ?3 AND "
                        "?4 AND (?2 OR c.state != 'DELETED') "
                        "ORDER BY t.number, c.batches, c.id"));
    BindAll(query, experiment, deleted, trial.value_or(0),
            trial.value_or(kMax));
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
        "SELECT t.number, e.checkpoint, e.batches, (SELECT epoch FROM "
        "checkpoints c WHERE c.uuid = e.checkpoint), e.split, e.data, "
        "e.metrics, e.seconds, e.time FROM evaluations e JOIN trials t ON t.id "
        "= e.trial "
        "WHERE t.experiment = ?1 AND t.number BETWEEN ?2 AND ?3 ORDER BY e.id");
    BindAll(query, experiment, trial.value_or(0), trial.value_or(kMax));
    std::vector<EvaluationRow> rows;
    while (query.executeStep()) {
      Columns columns(query);
      rows.push_back({.trial = {experiment, columns.Int()},
                      .checkpoint = columns.Text(),
                      .batches = columns.Int(),
                      .epoch = columns.Number(),
                      .split = columns.Text(),
                      .data = columns.Text(),
                      .metrics =
                          [](const nlohmann::json& object) {
                            MetricValues metrics;
                            for (const auto& [name, value] : object.items()) {
                              metrics.emplace_back(name, NumberFromJson(value));
                            }
                            return metrics;
                          }(columns.Json()),
                      .seconds = columns.Number(),
                      .time = columns.Time()});
    }
    return rows;
  });
}

std::vector<NotificationRow> Store::Notifications(
    std::int64_t experiment) const {
  return connection_->Guard([&] {
    SQLite::Statement query(
        *connection_->database,
        "SELECT uuid, event, target, body, created, attempts, error, ended "
        "FROM notifications WHERE experiment = ?1 ORDER BY id");
    BindAll(query, experiment);
    std::vector<NotificationRow> rows;
    while (query.executeStep()) {
      Columns columns(query);
      rows.push_back({.uuid = columns.Text(),
                      .event = columns.Text(),
                      .target = columns.Text(),
                      .body = columns.Json(),
                      .created = columns.Time(),
                      .attempts = columns.Int(),
                      .error = columns.Text(),
                      .ended = columns.MaybeTime()});
    }
    return rows;
  });
}

std::vector<std::int64_t> Store::UnsentNotifications() const {
  return connection_->Guard([&] {
    SQLite::Statement query(*connection_->database,
                            "SELECT DISTINCT experiment FROM notifications "
                            "WHERE ended IS NULL ORDER BY experiment");
    std::vector<std::int64_t> ids;
    while (query.executeStep()) ids.push_back(query.getColumn(0).getInt64());
    return ids;
  });
}

std::string Store::NotifyUrl(std::int64_t experiment) const {
  return connection_->Guard([&] {
    SQLite::Statement query(*connection_->database,
                            "SELECT notify_url FROM experiment_details WHERE "
                            "experiment = ?1");
    BindAll(query, experiment);
    return query.executeStep() ? query.getColumn(0).getString() : "";
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

std::map<std::int64_t, std::string> Store::Origins() const {
  return connection_->Guard([&] {
    SQLite::Statement query(
        *connection_->database,
        "SELECT experiment, origin FROM (SELECT experiment, coalesce("
        "'reproduces ' || json_extract(provenance, '$.reproduces'), "
        "'reruns ' || json_extract(provenance, '$.reruns'), "
        "'confirms ' || json_extract(provenance, '$.confirms.experiment'), "
        "'from ' || json_extract(provenance, '$.created_from'), "
        "'continues ' || json_extract(provenance, '$.forked_from.trial'), "
        "'imported ' || json_extract(provenance, '$.imported.name')) "
        "AS origin FROM experiment_details WHERE "
        // Few have one: no other record is parsed.
        "(instr(provenance, '\"reproduces\"') > 0 OR "
        "instr(provenance, '\"reruns\"') > 0 OR "
        "instr(provenance, '\"confirms\"') > 0 OR "
        "instr(provenance, '\"created_from\"') > 0 OR "
        "instr(provenance, '\"forked_from\"') > 0 OR "
        "instr(provenance, '\"imported\"') > 0) "
        "AND json_valid(provenance)) WHERE origin IS NOT NULL");
    std::map<std::int64_t, std::string> origins;
    while (query.executeStep()) {
      origins[query.getColumn(0).getInt64()] = query.getColumn(1).getString();
    }
    return origins;
  });
}

std::vector<RequestRow> Store::OpenRequests(std::int64_t experiment) const {
  return connection_->Guard([&] {
    SQLite::Statement query(*connection_->database,
                            "SELECT id, experiment, trial, kind, created FROM "
                            "requests WHERE experiment = ?1 AND done = 0 "
                            "ORDER BY id");
    BindAll(query, experiment);
    std::vector<RequestRow> rows;
    while (query.executeStep()) {
      Columns columns(query);
      RequestRow row{.id = columns.Int(),
                     .experiment = columns.Int(),
                     .trial = columns.MaybeInt(),
                     .kind = RequestKind::kKill};
      const std::string name = columns.Text();
      for (const auto kind : {RequestKind::kPause, RequestKind::kCancel}) {
        if (RequestName(kind) == name) row.kind = kind;
      }
      row.created = columns.Time();
      rows.push_back(row);
    }
    return rows;
  });
}

}  // namespace dtrain
