#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/store/layout.h"
#include "engine/store/rows.h"
#include "engine/store/store_writer.h"

namespace dtrain {

/// Filters of `Experiments`.
struct ExperimentQuery {
  bool archived = false;  // include archived ones
  std::optional<std::int64_t> id;
};

struct MetricQuery {
  std::int64_t experiment = 0;
  std::optional<std::int64_t> trial;
  std::optional<MetricKind> kind;
  std::optional<std::string> name;
};

/// The version of the SQLite library that this process runs with.
std::string SqliteVersion();

/// The record of everything, in one SQLite database: the only SQL in the
/// program. One thread an instance. Many processes may have it open: readers
/// are read-only connections, and every write transaction and WAL checkpoint
/// is taken under an exclusive flock beside the database, so that there is
/// never a second writer and no SQLITE_BUSY.
class Store {
 public:
  /// Creates (mode 0700) and migrates as needed. ":memory:" as root is a
  /// store in memory, for tests. Throws Error(kStore): not a database, of a
  /// newer schema, of another application, on a read-only or full disk.
  static Store OpenForWriting(const StoreLayout& layout);
  /// Opens read-only; a missing or empty store is an empty one. Falls back to
  /// reading an immutable file where a disk is full or read-only and no runner
  /// is alive.
  static Store OpenForReading(const StoreLayout& layout);

  Store(Store&&) noexcept;
  Store& operator=(Store&&) noexcept;
  ~Store();

  /// Runs `body` in one transaction if the write lock can be had at once;
  /// false, with nothing done, if another process holds it or, past the lock,
  /// the database. Never waits. `durable` asks for synchronous=FULL: for
  /// checkpoints and ends. What `body` throws undoes the transaction.
  [[nodiscard]] bool TryWrite(const std::function<void(StoreWriter&)>& body,
                              bool durable = false);
  /// As `TryWrite`, but tries again every millisecond or so for up to 30 s;
  /// then throws Error(kStore) that names the holder. For commands, not for
  /// the event loop.
  void Write(const std::function<void(StoreWriter&)>& body,
             bool durable = true);
  /// Moves the WAL into the database if it has grown and the lock is free.
  /// Call it after writes; the destructor does what is left.
  void MaybeCheckpointWal();

  // Queries. Rows come by id unless it says otherwise.
  std::vector<ExperimentRow> Experiments(const ExperimentQuery& query) const;
  std::optional<ExperimentDetail> Experiment(std::int64_t id) const;
  std::vector<TrialRow> Trials(std::int64_t experiment) const;
  std::optional<TrialRow> Trial(TrialId id) const;
  /// Calls `row` for each, by trial, kind, batches, name; in bounded memory.
  void ForEachMetric(const MetricQuery& query,
                     const std::function<void(const MetricRow&)>& row) const;
  std::vector<std::string> MetricNames(std::int64_t experiment) const;
  /// Not the deleted ones, unless `deleted`.
  std::vector<CheckpointRow> Checkpoints(std::int64_t experiment,
                                         bool deleted = false) const;
  /// By a unique prefix of at least 4 characters. Throws Error(kNotFound),
  /// Error(kUsage) if it is too short or fits several.
  CheckpointRow CheckpointByPrefix(const std::string& prefix) const;
  std::vector<SearcherEventRow> SearcherEvents(std::int64_t experiment,
                                               std::int64_t after) const;
  struct Snapshot {
    std::int64_t seq = 0;
    nlohmann::json state;
  };
  std::optional<Snapshot> LatestSnapshot(std::int64_t experiment) const;
  /// Changes whenever another connection commits (PRAGMA data_version).
  std::int64_t DataVersion() const;

  const StoreLayout& layout() const;

 private:
  struct Connection;
  explicit Store(std::unique_ptr<Connection> connection);
  void Transact(const std::function<void(StoreWriter&)>& body, bool durable);

  std::unique_ptr<Connection> connection_;
};

}  // namespace dtrain
