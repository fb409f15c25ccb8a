#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/store/file_system.h"
#include "engine/store/layout.h"
#include "engine/store/rows.h"
#include "engine/store/store_writer.h"

namespace dtrain {

/// That of the library that this process runs with.
std::string SqliteVersion();

/// The record of everything, in one SQLite database: the program's only SQL.
/// One thread an instance. Many processes may have it open: readers cannot
/// write, and who writes (the WAL too) holds an exclusive flock beside it.
class Store {
 public:
  /// Creates (mode 0700) and migrates as needed, a copy of the old database
  /// beside it as dtrain.db.vN.bak. Root ":memory:" is for tests. Throws
  /// Error(kStore): no database, of a newer schema, of another application, on
  /// a read-only or full disk, on a network.
  static Store OpenForWriting(const StoreLayout& layout,
                              NetworkWrites = NetworkWrites::kRefused);
  /// Opens read-only; a missing or empty store is an empty one. An older one is
  /// migrated, or where that cannot be, a copy in memory is. Falls back to an
  /// immutable file where a disk is full or read-only and no runner lives.
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
  /// As `TryWrite`, but tries again for up to 30 s, then throws Error(kStore)
  /// that names the holder. For commands, not for the event loop.
  void Write(const std::function<void(StoreWriter&)>& body,
             bool durable = true);
  /// Moves a WAL that has grown into the database if the lock is free.
  void MaybeCheckpointWal();

  // Queries. Rows come by id unless it says otherwise.
  std::vector<ExperimentRow> Experiments(const ExperimentQuery& query) const;
  std::optional<ExperimentDetail> Experiment(std::int64_t id) const;
  /// A report of the experiment, made after the beginning; none: there is none.
  std::optional<ReportedAt> FirstReport(std::int64_t experiment) const;
  std::vector<TrialRow> Trials(std::int64_t experiment) const;
  std::optional<TrialRow> Trial(TrialId id) const;
  /// The sums of what was recorded of a trial's profile; none: there is none.
  std::optional<ProfileReport> Profile(TrialId id) const;
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
  /// Of all trials or one, in the order in which they were recorded.
  std::vector<EvaluationRow> Evaluations(
      std::int64_t experiment, std::optional<std::int64_t> trial = {}) const;
  std::vector<SearcherEventRow> SearcherEvents(std::int64_t experiment,
                                               std::int64_t after) const;
  struct Snapshot {
    std::int64_t seq = 0;
    nlohmann::json state;
  };
  std::optional<Snapshot> LatestSnapshot(std::int64_t experiment) const;
  /// What its runner was asked for and has not done yet.
  std::vector<RequestRow> OpenRequests(std::int64_t experiment) const;
  /// The highest id that was ever given to an experiment; 0: none.
  std::int64_t LastExperimentId() const;
  /// Changes whenever another connection commits (PRAGMA data_version).
  std::int64_t DataVersion() const;
  /// Whether it has changed since the last call; true at the first. Cheap.
  [[nodiscard]] bool ChangedByOthers();
  /// What the database's own checks of all of it find, a line each.
  std::vector<std::string> Problems() const;
  /// As CopyDatabase.
  std::int64_t BackUp(const std::filesystem::path& file) const;
  const StoreLayout& layout() const;

  /// Tells this store from others that put checkpoints into one directory.
  const std::string& uuid() const;
  /// Each directory that checkpoint_storage ever named here.
  std::vector<std::string> Storages() const;
  /// What is the store's own in such a directory.
  std::filesystem::path StorageRoot(const std::string& storage) const;
  /// Holds the checkpoints of a trial: in `storage`, or where that is empty in
  /// the store.
  std::filesystem::path CheckpointsOf(TrialId trial,
                                      const std::string& storage) const;
  std::filesystem::path PathOf(const CheckpointRow& checkpoint) const;

  /// What has become of a store that was opened for writing and no longer lies
  /// where it was opened, with what to do; empty: it lies there. Costs one
  /// system call.
  std::string WhyMoved() const;

 private:
  struct Connection;
  explicit Store(std::unique_ptr<Connection> connection);
  void Transact(const std::function<void(StoreWriter&)>& body, bool durable);

  std::unique_ptr<Connection> connection_;
};

}  // namespace dtrain
