// Samples of what trials use, with those of their GPUs in a table of their own.
//
// How many samples a row of a trial spans is not recorded: it is the greatest
// number that one of its rows has. So a runner that resumes goes on as the one
// before, and a sample is never held back: the last row is extended by it as
// long as it spans less.

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include <SQLiteCpp/Statement.h>

#include "engine/store/database.h"
#include "engine/store/statements.h"
#include "engine/store/store.h"

namespace dtrain {
namespace {

constexpr std::int64_t kAnyRank = std::numeric_limits<std::int64_t>::max();

SystemRow ReadSystemRow(SQLite::Statement& statement) {
  Columns columns(statement);
  return SystemRow{.rank = static_cast<int>(columns.Int()),
                   .time = columns.Time(),
                   .sample = SystemSample{.samples = columns.Int(),
                                          .seconds = columns.Number(),
                                          .cpu_seconds = columns.Number(),
                                          .processes = columns.Int(),
                                          .memory_bytes = columns.Int(),
                                          .pss_bytes = columns.MaybeInt(),
                                          .read_bytes = columns.MaybeInt(),
                                          .written_bytes = columns.MaybeInt()}};
}

// Appends the GPU to the row of its rank and time. REQUIRES: both are in the
// same order; `at` is the row of the GPU before.
void AddGpu(SQLite::Statement& statement, std::vector<SystemRow>& rows,
            std::size_t& at) {
  Columns columns(statement);
  const auto rank = static_cast<int>(columns.Int());
  const Timestamp time = columns.Time();
  const GpuSample gpu{.gpu = columns.Int(),
                      .percent = columns.MaybeNumber(),
                      .memory_bytes = columns.MaybeInt(),
                      .watts = columns.MaybeNumber(),
                      .celsius = columns.MaybeInt()};
  while (at < rows.size() &&
         std::pair(rows[at].rank, rows[at].time) < std::pair(rank, time)) {
    ++at;
  }
  if (at < rows.size() && rows[at].rank == rank && rows[at].time == time) {
    rows[at].sample.gpus.push_back(gpu);
  }
}

// Reads the rows of two statements on system_samples and gpu_samples.
std::vector<SystemRow> ReadRows(SQLite::Statement& samples,
                                SQLite::Statement& gpus) {
  std::vector<SystemRow> rows;
  while (samples.executeStep()) rows.push_back(ReadSystemRow(samples));
  std::size_t at = 0;
  while (gpus.executeStep()) AddGpu(gpus, rows, at);
  return rows;
}

void InsertRow(Statements& statements, std::int64_t key, const SystemRow& row) {
  const SystemSample& sample = row.sample;
  statements.Run(
      "INSERT OR REPLACE INTO system_samples VALUES "
      "(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
      key, row.rank, row.time, sample.samples, FiniteOrZero(sample.seconds),
      FiniteOrZero(sample.cpu_seconds), sample.processes, sample.memory_bytes,
      sample.pss_bytes, sample.read_bytes, sample.written_bytes);
  for (const GpuSample& gpu : sample.gpus) {
    statements.Run(
        "INSERT OR REPLACE INTO gpu_samples VALUES "
        "(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        key, row.rank, row.time, gpu.gpu, gpu.percent, gpu.memory_bytes,
        gpu.watts, gpu.celsius);
  }
}

// Rows of the trial in an order of ranks and times, from `time` on.
std::vector<SystemRow> RowsOfTrial(Statements& statements, std::int64_t key,
                                   std::int64_t first, std::int64_t last,
                                   Timestamp time) {
  SQLite::Statement& samples = statements(
      "SELECT rank, time, samples, seconds, cpu_seconds, processes, "
      "memory_bytes, pss_bytes, read_bytes, written_bytes FROM system_samples "
      "WHERE trial = ?1 AND rank BETWEEN ?2 AND ?3 AND time >= ?4 "
      "ORDER BY rank, time");
  BindAll(samples, key, first, last, time);
  SQLite::Statement& gpus = statements(
      "SELECT rank, time, gpu, percent, memory_bytes, watts, celsius FROM "
      "gpu_samples WHERE trial = ?1 AND rank BETWEEN ?2 AND ?3 AND time >= ?4 "
      "ORDER BY rank, time, gpu");
  BindAll(gpus, key, first, last, time);
  auto rows = ReadRows(samples, gpus);
  samples.reset();
  gpus.reset();
  return rows;
}

void DeleteRows(Statements& statements, std::int64_t key, std::int64_t first,
                std::int64_t last, Timestamp time) {
  statements.Run(
      "DELETE FROM system_samples WHERE trial = ?1 AND rank BETWEEN ?2 AND ?3 "
      "AND time >= ?4",
      key, first, last, time);
  statements.Run(
      "DELETE FROM gpu_samples WHERE trial = ?1 AND rank BETWEEN ?2 AND ?3 "
      "AND time >= ?4",
      key, first, last, time);
}

// Merges each two rows of a rank, in the order of time.
void MergePairs(Statements& statements, std::int64_t key) {
  const auto rows =
      RowsOfTrial(statements, key, /*first=*/0, kAnyRank, Timestamp(0));
  DeleteRows(statements, key, /*first=*/0, kAnyRank, Timestamp(0));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    SystemRow row = rows[i];
    if (i + 1 < rows.size() && rows[i + 1].rank == row.rank) {
      ++i;
      row.time = rows[i].time;
      row.sample.Merge(rows[i].sample);
    }
    InsertRow(statements, key, row);
  }
}

}  // namespace

void StoreWriter::AddSystemSample(TrialId trial, const SystemRow& row) {
  const std::int64_t key = statements_.TrialKey(trial);
  SQLite::Statement& select = statements_(
      "SELECT count(*), coalesce(max(samples), 1), (SELECT max(time) FROM "
      "system_samples WHERE trial = ?1 AND rank = ?2) FROM system_samples "
      "WHERE trial = ?1");
  BindAll(select, key, row.rank);
  select.executeStep();
  Columns columns(select);
  const std::int64_t count = columns.Int();
  const std::int64_t span = columns.Int();
  const auto last = columns.MaybeTime();
  select.reset();
  if (last) {
    auto rows = RowsOfTrial(statements_, key, row.rank, row.rank, *last);
    SystemRow& extended = rows.back();
    SystemSample added = row.sample;
    if (row.time == *last) added.samples = 0;  // it would replace that row
    if (extended.sample.samples + added.samples <= span) {
      DeleteRows(statements_, key, row.rank, row.rank, *last);
      extended.time = std::max(row.time, extended.time);
      extended.sample.Merge(added);
      return InsertRow(statements_, key, extended);
    }
  }
  InsertRow(statements_, key, row);
  if (count + 1 >= kMaxSystemRows) MergePairs(statements_, key);
}

std::vector<SystemRow> Store::SystemSamples(TrialId id) const {
  return connection_->Guard([&] {
    SQLite::Statement samples(
        *connection_->database,
        "SELECT rank, time, samples, s.seconds, cpu_seconds, processes, "
        "memory_bytes, pss_bytes, read_bytes, written_bytes FROM trials t JOIN "
        "system_samples s ON s.trial = t.id WHERE t.experiment = ?1 AND "
        "t.number = ?2 ORDER BY rank, time");
    BindAll(samples, id.experiment, id.number);
    SQLite::Statement gpus(
        *connection_->database,
        "SELECT rank, time, gpu, percent, memory_bytes, watts, celsius FROM "
        "trials t JOIN gpu_samples g ON g.trial = t.id WHERE t.experiment = ?1 "
        "AND t.number = ?2 ORDER BY rank, time, gpu");
    BindAll(gpus, id.experiment, id.number);
    return ReadRows(samples, gpus);
  });
}

namespace {

// Returns the sums and means over the samples of the trials from `first` to
// `last`, by the values of `key`, a column of trials or a constant.
std::map<std::int64_t, SystemUse> ReadUses(const SQLite::Database& database,
                                           const std::string& key,
                                           std::int64_t experiment,
                                           std::int64_t first,
                                           std::int64_t last) {
  const std::string where =
      " WHERE t.experiment = ?1 AND t.number BETWEEN ?2 AND ?3 GROUP BY 1";
  std::map<std::int64_t, SystemUse> uses;
  SQLite::Statement samples(
      database,
      "SELECT " + key +
          ", total(s.seconds), total(s.cpu_seconds), max(s.memory_bytes), "
          "max(s.pss_bytes), sum(s.read_bytes), sum(s.written_bytes) FROM "
          "trials t JOIN system_samples s ON s.trial = t.id" +
          where);
  BindAll(samples, experiment, first, last);
  while (samples.executeStep()) {
    Columns columns(samples);
    SystemUse& use = uses[columns.Int()];
    use = {.seconds = columns.Number(),
           .cpu_seconds = columns.Number(),
           .memory_bytes = columns.Int(),
           .pss_bytes = columns.MaybeInt(),
           .read_bytes = columns.MaybeInt(),
           .written_bytes = columns.MaybeInt()};
  }
  SQLite::Statement gpus(
      database,
      "SELECT " + key +
          ", total(g.percent * s.seconds) / nullif(total(iif(g.percent IS "
          "NULL, 0, s.seconds)), 0), total(g.watts * s.seconds) / "
          "nullif(total(iif(g.watts IS NULL, 0, s.seconds)), 0), "
          "max(g.memory_bytes), max(g.celsius) FROM trials t JOIN gpu_samples "
          "g ON g.trial = t.id JOIN system_samples s ON (s.trial, s.rank, "
          "s.time) = (g.trial, g.rank, g.time)" +
          where);
  BindAll(gpus, experiment, first, last);
  while (gpus.executeStep()) {
    Columns columns(gpus);
    SystemUse& use = uses[columns.Int()];
    use.gpu_percent = columns.MaybeNumber();
    use.gpu_watts = columns.MaybeNumber();
    use.gpu_memory_bytes = columns.MaybeInt();
    use.gpu_celsius = columns.MaybeInt();
  }
  return uses;
}

}  // namespace

std::optional<SystemUse> Store::FindSystemUse(
    std::int64_t experiment, std::optional<std::int64_t> trial) const {
  return connection_->Guard([&]() -> std::optional<SystemUse> {
    const auto uses = ReadUses(*connection_->database, "0", experiment,
                               trial.value_or(0), trial.value_or(kAnyRank));
    if (uses.empty()) return std::nullopt;
    return uses.begin()->second;
  });
}

std::map<std::int64_t, SystemUse> Store::SystemUses(
    std::int64_t experiment) const {
  return connection_->Guard([&] {
    return ReadUses(*connection_->database, "t.number", experiment,
                    /*first=*/0, /*last=*/kAnyRank);
  });
}

}  // namespace dtrain
