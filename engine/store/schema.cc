// Times are microseconds since 1970 in UTC. A measured value is a REAL and a
// `special`: 0 finite, 1 NaN, 2 +infinity, 3 -infinity, because SQLite stores
// NaN as NULL, which sorts as the smallest of all.
//
// A validation has its value in several places, each written with it in one
// transaction and read for another purpose: `metrics` (all names, for plots and
// exports), `validations` (the searcher's metric, from which best and latest
// are computed), `trials` and `experiments` (these two, so that tables are
// listed without a search) and `searcher_events` (the event of a finished
// operation, which a replay must repeat exactly).
//
// `list` reads `experiments` alone: counts and the best trial are kept there,
// and long values are in `experiment_details`. `metrics` names no parent:
// its trial is looked up before each report, and a check a row would cost a
// third of the speed.

#include <array>
#include <cstdint>
#include <string>

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>
#include <SQLiteCpp/Transaction.h>

#include "engine/base/error.h"
#include "engine/store/database.h"

namespace dtrain {
namespace {

constexpr std::int64_t kApplicationId = 0x4454524E;  // "DTRN"

constexpr const char* kVersion1 = R"sql(
CREATE TABLE experiments (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL,
  description TEXT NOT NULL,
  labels TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN (
    'PENDING', 'RUNNING', 'PAUSED', 'COMPLETED', 'CANCELED', 'ERROR')),
  progress REAL NOT NULL DEFAULT 0,
  searcher TEXT NOT NULL,
  metric TEXT NOT NULL,
  smaller_is_better INTEGER NOT NULL CHECK (smaller_is_better IN (0, 1)),
  seed INTEGER NOT NULL,
  archived INTEGER NOT NULL DEFAULT 0 CHECK (archived IN (0, 1)),
  error TEXT NOT NULL DEFAULT '',
  created INTEGER NOT NULL,
  started INTEGER,
  ended INTEGER,
  seconds REAL NOT NULL DEFAULT 0,
  trials INTEGER NOT NULL DEFAULT 0,
  trials_ended INTEGER NOT NULL DEFAULT 0,
  best_trial_id INTEGER REFERENCES trials (id),
  best_trial INTEGER,
  best_value REAL,
  best_batches INTEGER
) STRICT;

CREATE TABLE experiment_details (
  experiment INTEGER PRIMARY KEY REFERENCES experiments (id),
  yaml TEXT NOT NULL,
  config TEXT NOT NULL,
  provenance TEXT NOT NULL
) STRICT;

CREATE TABLE trials (
  id INTEGER PRIMARY KEY,
  experiment INTEGER NOT NULL REFERENCES experiments (id),
  number INTEGER NOT NULL CHECK (number > 0),
  request_id TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN (
    'PENDING', 'RUNNING', 'PAUSED', 'COMPLETED', 'CANCELED', 'ERROR',
    'STOPPED')),
  reason TEXT NOT NULL,
  hparams TEXT NOT NULL,
  seed INTEGER NOT NULL,
  batches INTEGER NOT NULL,
  rung INTEGER NOT NULL,
  best_value REAL,
  best_batches INTEGER,
  latest_value REAL,
  latest_special INTEGER,
  latest_batches INTEGER,
  restarts INTEGER NOT NULL,
  runs INTEGER NOT NULL,
  pid INTEGER NOT NULL DEFAULT 0,
  pid_start INTEGER NOT NULL DEFAULT 0,
  boot_id TEXT NOT NULL DEFAULT '',
  created INTEGER NOT NULL,
  started INTEGER,
  ended INTEGER,
  seconds REAL NOT NULL DEFAULT 0,
  UNIQUE (experiment, number)
) STRICT;

CREATE TABLE metric_names (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE experiment_metrics (
  experiment INTEGER NOT NULL REFERENCES experiments (id),
  name INTEGER NOT NULL REFERENCES metric_names (id),
  PRIMARY KEY (experiment, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE metrics (
  trial INTEGER NOT NULL,
  kind INTEGER NOT NULL CHECK (kind IN (0, 1)),
  batches INTEGER NOT NULL,
  name INTEGER NOT NULL,
  epoch REAL NOT NULL,
  value REAL,
  special INTEGER NOT NULL CHECK ((special = 0) = (value IS NOT NULL)),
  time INTEGER NOT NULL,
  PRIMARY KEY (trial, kind, batches, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE validations (
  trial INTEGER NOT NULL REFERENCES trials (id),
  batches INTEGER NOT NULL,
  value REAL,
  special INTEGER NOT NULL CHECK ((special = 0) = (value IS NOT NULL)),
  PRIMARY KEY (trial, batches)
) STRICT, WITHOUT ROWID;

CREATE TABLE checkpoints (
  id INTEGER PRIMARY KEY,
  uuid TEXT NOT NULL UNIQUE,
  trial INTEGER NOT NULL REFERENCES trials (id),
  state TEXT NOT NULL CHECK (state IN ('COMPLETED', 'DELETED', 'CORRUPT')),
  batches INTEGER NOT NULL,
  epoch REAL NOT NULL,
  bytes INTEGER NOT NULL,
  files TEXT NOT NULL,
  time INTEGER NOT NULL
) STRICT;
CREATE INDEX checkpoints_by_trial ON checkpoints (trial, batches);

CREATE TABLE searcher_events (
  experiment INTEGER NOT NULL REFERENCES experiments (id),
  seq INTEGER NOT NULL,
  event TEXT NOT NULL,
  operations TEXT NOT NULL,
  PRIMARY KEY (experiment, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE searcher_snapshots (
  experiment INTEGER PRIMARY KEY REFERENCES experiments (id),
  seq INTEGER NOT NULL,
  state TEXT NOT NULL
) STRICT;
)sql";

// `requests` has the requests of other processes to a runner, recorded before
// the runner is signalled; `trial` is a trial's number, or NULL for the whole
// experiment. The index by best trial makes deleting a trial fast.
constexpr const char* kVersion2 = R"sql(
CREATE TABLE requests (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  experiment INTEGER NOT NULL REFERENCES experiments (id),
  trial INTEGER CHECK (trial > 0),
  kind TEXT NOT NULL CHECK (kind IN ('pause', 'cancel', 'kill')),
  created INTEGER NOT NULL,
  done INTEGER NOT NULL DEFAULT 0 CHECK (done IN (0, 1))
) STRICT;
CREATE INDEX requests_by_experiment ON requests (experiment, done);

ALTER TABLE experiment_details ADD COLUMN note TEXT NOT NULL DEFAULT '';

CREATE INDEX experiments_by_best_trial ON experiments (best_trial_id);
)sql";

// Failures of a trial since its last progress.
constexpr const char* kVersion3 = R"sql(
ALTER TABLE trials ADD COLUMN failures INTEGER NOT NULL DEFAULT 0;
)sql";

// The time of a profiled trial by phase, in seconds since its last row. When
// the trial resumes from a checkpoint, rows beyond it are deleted.
constexpr const char* kVersion4 = R"sql(
CREATE TABLE profiles (
  trial INTEGER NOT NULL REFERENCES trials (id),
  batches INTEGER NOT NULL,
  trained INTEGER NOT NULL,
  samples INTEGER NOT NULL,
  data REAL NOT NULL,
  forward REAL NOT NULL,
  backward REAL NOT NULL,
  optimizer REAL NOT NULL,
  report REAL NOT NULL,
  validation REAL NOT NULL,
  checkpoint REAL NOT NULL,
  other REAL NOT NULL,
  minor_faults INTEGER NOT NULL,
  peak_bytes INTEGER NOT NULL,
  gpu_bytes INTEGER,
  gpu_percent INTEGER,
  time INTEGER NOT NULL,
  PRIMARY KEY (trial, batches)
) STRICT, WITHOUT ROWID;
)sql";

// The wait for the gradients of other ranks; older rows count it as part of the
// backward phase.
constexpr const char* kVersion5 = R"sql(
ALTER TABLE profiles ADD COLUMN exchange REAL NOT NULL DEFAULT 0;
)sql";

// The results of `evaluate --record`. `data` is the directory given instead of
// the trial's own, or empty; `metrics` is a JSON object. The checkpoint may
// have been deleted since.
constexpr const char* kVersion6 = R"sql(
CREATE TABLE evaluations (
  id INTEGER PRIMARY KEY,
  trial INTEGER NOT NULL REFERENCES trials (id),
  checkpoint TEXT NOT NULL,
  batches INTEGER NOT NULL,
  split TEXT NOT NULL CHECK (split IN ('training', 'validation', 'test')),
  data TEXT NOT NULL,
  metrics TEXT NOT NULL,
  seconds REAL NOT NULL,
  time INTEGER NOT NULL
) STRICT;
CREATE INDEX evaluations_by_trial ON evaluations (trial);
)sql";

// `run` is the run of the trial (a count of its processes) that measured the
// value; 0 for older rows. A later run that resumes from an earlier checkpoint
// and passes the batches of a value without measuring it again marks it as
// superseded: it is kept, but no query uses it.
constexpr const char* kVersion7 = R"sql(
ALTER TABLE metrics ADD COLUMN run INTEGER NOT NULL DEFAULT 0;
ALTER TABLE metrics ADD COLUMN superseded INTEGER NOT NULL DEFAULT 0
  CHECK (superseded IN (0, 1));
ALTER TABLE validations ADD COLUMN run INTEGER NOT NULL DEFAULT 0;
ALTER TABLE validations ADD COLUMN superseded INTEGER NOT NULL DEFAULT 0
  CHECK (superseded IN (0, 1));
)sql";

// `uuid` distinguishes stores that keep checkpoints in one directory.
// `storages` has each directory that checkpoint_storage ever named, absolute; a
// checkpoint without one is in the store.
constexpr const char* kVersion8 = R"sql(
CREATE TABLE store (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  uuid TEXT NOT NULL
) STRICT;
INSERT INTO store VALUES (1, lower(
  hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-4' ||
  substr(hex(randomblob(2)), 2) || '-' ||
  substr('89ab', 1 + (random() & 3), 1) || substr(hex(randomblob(2)), 2) ||
  '-' || hex(randomblob(6))));

CREATE TABLE storages (
  id INTEGER PRIMARY KEY,
  path TEXT NOT NULL UNIQUE
) STRICT;

ALTER TABLE experiment_details
  ADD COLUMN storage INTEGER REFERENCES storages (id);
ALTER TABLE checkpoints ADD COLUMN storage INTEGER REFERENCES storages (id);
)sql";

// A preemption pauses a trial because its worker is taken away. `slots` are
// those of the last process.
constexpr const char* kVersion9 = R"sql(
ALTER TABLE trials ADD COLUMN preemptions INTEGER NOT NULL DEFAULT 0;
ALTER TABLE trials ADD COLUMN slots TEXT NOT NULL DEFAULT '';
)sql";

// Messages of an experiment (`notify`): recorded with their cause, sent after
// the commit. `ended` is NULL until the message was sent or given up; `error`
// is why it was given up. `notify_url` is the whole address, of which the
// configuration has only what may be shown.
constexpr const char* kVersion10 = R"sql(
CREATE TABLE notifications (
  id INTEGER PRIMARY KEY,
  uuid TEXT NOT NULL UNIQUE,
  experiment INTEGER NOT NULL REFERENCES experiments (id),
  event TEXT NOT NULL,
  target TEXT NOT NULL CHECK (target IN ('command', 'url')),
  body TEXT NOT NULL,
  attempts INTEGER NOT NULL DEFAULT 0,
  error TEXT NOT NULL DEFAULT '',
  created INTEGER NOT NULL,
  ended INTEGER
) STRICT;
CREATE INDEX notifications_by_experiment ON notifications (experiment);
ALTER TABLE experiment_details ADD COLUMN notify_url TEXT NOT NULL DEFAULT '';
)sql";

// Views for SQL of users (docs/store.md), as stable as the fields of --json: a
// change of the tables changes the views, too, not what they show. Times are
// texts in UTC. Values that a later run has superseded are not shown.
constexpr const char* kVersion11 = R"sql(
ALTER TABLE trials ADD COLUMN note TEXT NOT NULL DEFAULT '';
ALTER TABLE trials ADD COLUMN star INTEGER NOT NULL DEFAULT 0
  CHECK (star IN (0, 1));
CREATE INDEX trials_with_remarks ON trials (experiment)
  WHERE star = 1 OR note <> '';

CREATE VIEW v_experiments AS SELECT
  e.id AS experiment, e.name, e.description, e.labels, e.state, e.progress,
  e.searcher, e.metric, e.smaller_is_better, e.seed, e.archived, e.error,
  strftime('%Y-%m-%dT%H:%M:%fZ', e.created / 1e6, 'unixepoch') AS created,
  strftime('%Y-%m-%dT%H:%M:%fZ', e.started / 1e6, 'unixepoch') AS started,
  strftime('%Y-%m-%dT%H:%M:%fZ', e.ended / 1e6, 'unixepoch') AS ended,
  e.seconds, e.trials, e.trials_ended, e.best_trial, e.best_value,
  e.best_batches, d.note, d.config
FROM experiments e JOIN experiment_details d ON d.experiment = e.id;

CREATE VIEW v_trials AS
WITH counts (experiment, repeats) AS (
  SELECT experiment, CASE WHEN json_valid(config)
    THEN json_extract(config, '$.searcher.repeats') END
  FROM experiment_details
) SELECT
  experiment, number AS trial, experiment || '.' || number AS id,
  CASE WHEN repeats > 1 THEN (number - 1) / repeats + 1 END AS point,
  CASE WHEN repeats > 1 THEN (number - 1) % repeats + 1 END AS repeat,
  CASE WHEN state = 'ERROR' AND reason LIKE 'invalid hyperparameters: %'
    THEN 'INVALID' ELSE state END AS state,
  reason, seed, batches, rung, best_value, best_batches,
  CASE latest_special WHEN 2 THEN 9e999 WHEN 3 THEN -9e999
    ELSE latest_value END AS latest_value, latest_batches,
  restarts, preemptions, runs, slots,
  strftime('%Y-%m-%dT%H:%M:%fZ', created / 1e6, 'unixepoch') AS created,
  strftime('%Y-%m-%dT%H:%M:%fZ', started / 1e6, 'unixepoch') AS started,
  strftime('%Y-%m-%dT%H:%M:%fZ', ended / 1e6, 'unixepoch') AS ended,
  seconds, hparams, star, note
FROM trials LEFT JOIN counts USING (experiment);

CREATE VIEW v_metrics AS SELECT
  t.experiment, t.number AS trial,
  CASE m.kind WHEN 0 THEN 'training' ELSE 'validation' END AS kind,
  m.batches, nullif(m.epoch, 0) AS epoch, n.name,
  CASE m.special WHEN 2 THEN 9e999 WHEN 3 THEN -9e999
    ELSE m.value END AS value,
  strftime('%Y-%m-%dT%H:%M:%fZ', m.time / 1e6, 'unixepoch') AS time, m.run
FROM trials t JOIN metrics m ON m.trial = t.id
  JOIN metric_names n ON n.id = m.name
WHERE m.superseded = 0;

CREATE VIEW v_hparams AS
WITH RECURSIVE parts (experiment, trial, name, type, value) AS (
  SELECT t.experiment, t.number, h.key, h.type, h.value
  FROM trials t, json_each(t.hparams) h
  UNION ALL
  SELECT p.experiment, p.trial, p.name || '.' || h.key, h.type, h.value
  FROM parts p, json_each(p.value) h WHERE p.type = 'object'
) SELECT experiment, trial, name,
  CASE type WHEN 'true' THEN 'bool' WHEN 'false' THEN 'bool' ELSE type END
    AS type, value
FROM parts WHERE type <> 'object' OR value = '{}';

CREATE VIEW v_checkpoints AS SELECT
  t.experiment, t.number AS trial, c.uuid, c.state, c.batches,
  nullif(c.epoch, 0) AS epoch, c.bytes, s.path AS storage,
  strftime('%Y-%m-%dT%H:%M:%fZ', c.time / 1e6, 'unixepoch') AS time
FROM checkpoints c JOIN trials t ON t.id = c.trial
  LEFT JOIN storages s ON s.id = c.storage;
)sql";

// Resources that trials use. `rank` is the first one of the trial on a machine,
// `time` the end of an interval of `seconds`. Rows are merged when a trial has
// many; `samples` counts those that became one.
constexpr const char* kVersion12 = R"sql(
CREATE TABLE system_samples (
  trial INTEGER NOT NULL REFERENCES trials (id),
  rank INTEGER NOT NULL,
  time INTEGER NOT NULL,
  samples INTEGER NOT NULL,
  seconds REAL NOT NULL,
  cpu_seconds REAL NOT NULL,
  processes INTEGER NOT NULL,
  memory_bytes INTEGER NOT NULL,
  pss_bytes INTEGER,
  read_bytes INTEGER,
  written_bytes INTEGER,
  PRIMARY KEY (trial, rank, time)
) STRICT, WITHOUT ROWID;

CREATE TABLE gpu_samples (
  trial INTEGER NOT NULL REFERENCES trials (id),
  rank INTEGER NOT NULL,
  time INTEGER NOT NULL,
  gpu INTEGER NOT NULL,
  percent REAL,
  memory_bytes INTEGER,
  watts REAL,
  celsius INTEGER,
  PRIMARY KEY (trial, rank, time, gpu)
) STRICT, WITHOUT ROWID;

CREATE VIEW v_system AS SELECT
  t.experiment, t.number AS trial, s.rank,
  strftime('%Y-%m-%dT%H:%M:%fZ', s.time / 1e6, 'unixepoch') AS time,
  s.seconds, s.cpu_seconds / s.seconds AS cores, s.processes, s.memory_bytes,
  s.pss_bytes, s.read_bytes, s.written_bytes
FROM trials t JOIN system_samples s ON s.trial = t.id;

CREATE VIEW v_gpus AS SELECT
  t.experiment, t.number AS trial, g.rank,
  strftime('%Y-%m-%dT%H:%M:%fZ', g.time / 1e6, 'unixepoch') AS time,
  g.gpu, g.percent, g.memory_bytes, g.watts, g.celsius
FROM trials t JOIN gpu_samples g ON g.trial = t.id;
)sql";

// The migration at index i leads to version i + 1, the database's user_version.
// A new version is a new migration at the end; released ones are never changed,
// since users' databases were made by them. All run in one transaction, so a
// crash leaves the old schema, and Store keeps a copy of the old database.
//
// Tables are STRICT and states have constraints: a store outlives the version
// that wrote it, so a wrong value must fail where it is written.
constexpr std::array kMigrations = {
    kVersion1, kVersion2, kVersion3, kVersion4,  kVersion5,  kVersion6,
    kVersion7, kVersion8, kVersion9, kVersion10, kVersion11, kVersion12};

constexpr auto kVersion = static_cast<std::int64_t>(kMigrations.size());

std::int64_t Pragma(SQLite::Database& database, const char* name) {
  return database.execAndGet(std::string("PRAGMA ") + name).getInt64();
}

}  // namespace

SchemaState CheckSchema(SQLite::Database& database,
                        const std::filesystem::path& path) {
  // One snapshot, since another process may be creating the store.
  const SQLite::Transaction snapshot(database);
  const std::int64_t application = Pragma(database, "application_id");
  const std::int64_t version = Pragma(database, "user_version");
  if (application == 0 && version == 0) {
    const bool empty =
        database.execAndGet("SELECT count(*) = 0 FROM sqlite_schema").getInt();
    if (empty) return SchemaState::kEmpty;
  }
  if (application != kApplicationId) {
    throw Error(ErrorKind::kStore,
                "store " + path.parent_path().string() + ": " +
                    path.filename().string() +
                    " is a database of another application; choose another "
                    "store with --store");
  }
  if (version > kVersion) {
    throw Error(ErrorKind::kStore,
                "store " + path.parent_path().string() + ": has schema " +
                    std::to_string(version) + ", and this dtrain knows " +
                    std::to_string(kVersion) +
                    " at most; use the newer dtrain that wrote it");
  }
  return version < kVersion ? SchemaState::kOlder : SchemaState::kCurrent;
}

void Migrate(SQLite::Database& database) {
  SQLite::Transaction transaction(database,
                                  SQLite::TransactionBehavior::IMMEDIATE);
  const std::int64_t version = Pragma(database, "user_version");
  for (std::int64_t next = version; next < kVersion; ++next) {
    database.exec(kMigrations[static_cast<std::size_t>(next)]);
  }
  database.exec("PRAGMA application_id = " + std::to_string(kApplicationId));
  database.exec("PRAGMA user_version = " + std::to_string(kVersion));
  transaction.commit();
}

}  // namespace dtrain
