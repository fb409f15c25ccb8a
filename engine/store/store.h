#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/store/layout.h"
#include "engine/store/rows.h"
#include "engine/wire/message.h"

namespace dtrain {

/// A process of a trial as it is recorded.
struct RecordedProcess {
  std::int64_t pid = 0;          // 0: it is on another machine
  std::int64_t start_ticks = 0;  // field 22 of /proc/PID/stat
  std::string boot_id;           // of this machine
  std::string slots;             // as in TrialRow
};

class Statements;
class StoreWriter;

/// Permission to write to a database on a network file system.
enum class NetworkWrites { kRefused, kAllowed };

/// Returns the version of the SQLite library loaded at run time.
std::string SqliteVersion();

/// The record of all experiments, in one SQLite database; no other module has
/// SQL. One thread an instance. Many processes may have it open: readers cannot
/// write, and a writer (of the write-ahead log too) holds an exclusive flock on
/// a file beside the database.
class Store {
 public:
  /// Creates (mode 0700) or migrates the database as needed; a migration keeps
  /// a copy of the old one as dtrain.db.vN.bak. Root ":memory:" is for tests.
  /// Throws Error(kStore) if the file is not a database, has a newer schema or
  /// another application, or is on a read-only or full disk or a network.
  static Store OpenForWriting(const StoreLayout& layout,
                              NetworkWrites = NetworkWrites::kRefused);
  /// Opens read-only; a missing store counts as empty. Migrates an older one,
  /// or a copy in memory if that fails. Falls back to an immutable file if the
  /// disk is full or read-only and no runner lives.
  static Store OpenForReading(const StoreLayout& layout);

  Store(Store&&) noexcept;
  Store& operator=(Store&&) noexcept;
  ~Store();

  /// Runs `body` in one transaction. Never waits: false, with nothing done, if
  /// another process holds the write lock or, by SQLite's own locks, the
  /// database. `durable` means synchronous=FULL: for checkpoints and ends. An
  /// exception of `body` rolls the transaction back.
  [[nodiscard]] bool TryWrite(const std::function<void(StoreWriter&)>& body,
                              bool durable = false);
  /// Does as `TryWrite`, but tries again for up to 30 s, then throws
  /// Error(kStore) that names the holder. For commands, not for the event loop.
  void Write(const std::function<void(StoreWriter&)>& body,
             bool durable = true);
  /// Moves the WAL into the database if it is large and the lock is free.
  void MaybeCheckpointWal();

  // Queries. Rows are sorted by id unless stated otherwise.
  std::vector<ExperimentRow> Experiments(const ExperimentQuery& query) const;
  std::optional<ExperimentDetail> Experiment(std::int64_t id) const;
  /// Returns any report of the experiment after its first batch.
  std::optional<ReportedAt> FirstReport(std::int64_t experiment) const;
  /// True if any report of the experiment has an epoch above 0.
  bool HasEpochs(std::int64_t experiment) const;
  std::vector<TrialRow> Trials(std::int64_t experiment,
                               TrialParts parts = {}) const;
  std::optional<TrialRow> Trial(TrialId id) const;
  /// Returns the trials that have a star or a note, by number.
  std::vector<TrialRemark> TrialRemarks(std::int64_t experiment) const;
  /// Calls `row` for each trial, by number, with its values of the
  /// hyperparameters of these names ("optimizer.lr" if nested), in their order.
  /// A missing one is_discarded(). Much faster than Trials with all of them.
  void ForEachHparams(
      std::int64_t experiment, const std::vector<std::string>& names,
      const std::function<void(std::int64_t trial,
                               std::span<const nlohmann::json> values)>& row)
      const;
  /// Returns the sums of a trial's profile, if it was profiled.
  std::optional<ProfileReport> Profile(TrialId id) const;
  /// Returns those of all profiled trials of an experiment, by their numbers.
  std::map<std::int64_t, ProfileReport> Profiles(std::int64_t experiment) const;
  /// Returns the samples of what a trial used, by rank and time.
  std::vector<SystemRow> SystemSamples(TrialId id) const;
  /// Returns what an experiment, or one trial of it, used, if it was sampled.
  std::optional<SystemUse> FindSystemUse(
      std::int64_t experiment, std::optional<std::int64_t> trial = {}) const;
  /// Returns what each sampled trial of an experiment used, by its number.
  std::map<std::int64_t, SystemUse> SystemUses(std::int64_t experiment) const;
  /// Calls `row` for each row, by trial, kind, batches, name; bounded memory.
  void ForEachMetric(const MetricQuery& query,
                     const std::function<void(const MetricRow&)>& row) const;
  /// Returns the batches of a trial's last report.
  std::optional<std::int64_t> LastReport(TrialId trial, MetricKind kind) const;
  std::vector<std::string> MetricNames(std::int64_t experiment) const;
  /// Returns "reproduces 3.7", "reruns 3.7", "confirms 3", "continues 3.7",
  /// "from 3" or "imported results.csv", what an experiment was made of, by id.
  std::map<std::int64_t, std::string> Origins() const;
  /// Returns a value of the metric for each trial that has one, or for `trial`,
  /// by the number of the trial. kBest and kLast do not read the other values.
  std::map<std::int64_t, double> TrialMetric(std::int64_t experiment,
                                             std::optional<std::int64_t> trial,
                                             MetricKind kind,
                                             const std::string& name,
                                             MetricPick pick) const;
  /// Returns checkpoints of all trials or of one, with the deleted ones if
  /// `deleted`.
  std::vector<CheckpointRow> Checkpoints(
      std::int64_t experiment, bool deleted = false,
      std::optional<std::int64_t> trial = {}) const;
  /// Finds a checkpoint by a prefix of at least 4 characters. Throws
  /// Error(kNotFound), or Error(kUsage) if it is too short or ambiguous.
  CheckpointRow CheckpointByPrefix(const std::string& prefix) const;
  /// Returns those of all trials or of one, in the order of recording.
  std::vector<EvaluationRow> Evaluations(
      std::int64_t experiment, std::optional<std::int64_t> trial = {}) const;
  /// Returns the messages of an experiment in the order of recording.
  std::vector<NotificationRow> Notifications(std::int64_t experiment) const;
  /// Returns the experiments that have messages to be sent.
  std::vector<std::int64_t> UnsentNotifications() const;
  /// Returns NewExperiment::notify_url.
  std::string NotifyUrl(std::int64_t experiment) const;
  std::vector<SearcherEventRow> SearcherEvents(std::int64_t experiment,
                                               std::int64_t after) const;
  struct Snapshot {
    std::int64_t seq = 0;
    nlohmann::json state;
  };
  std::optional<Snapshot> LatestSnapshot(std::int64_t experiment) const;
  /// Returns the requests that the experiment's runner has not executed yet.
  std::vector<RequestRow> OpenRequests(std::int64_t experiment) const;
  /// Returns the highest id that an experiment ever had; 0: none.
  std::int64_t LastExperimentId() const;
  /// Returns a number that changes when another connection commits.
  std::int64_t DataVersion() const;
  /// True if DataVersion has changed since the last call, and at the first
  /// call. Cheap.
  [[nodiscard]] bool ChangedByOthers();
  /// Returns the findings of SQLite's full check of the database, a line each.
  std::vector<std::string> Problems() const;
  /// Copies the database as CopyDatabase does, never over an existing file.
  std::int64_t BackUp(const std::filesystem::path& file) const;
  const StoreLayout& layout() const;

  /// Distinguishes stores that keep checkpoints in one directory.
  const std::string& uuid() const;
  /// Returns each directory that checkpoint_storage ever named in this store.
  std::vector<std::string> Storages() const;
  /// Returns the store's own subdirectory of such a directory.
  std::filesystem::path StorageRoot(const std::string& storage) const;
  /// Returns the directory of a trial's checkpoints: in `storage`, or in the
  /// store if that is empty.
  std::filesystem::path CheckpointDirectory(TrialId trial,
                                            const std::string& storage) const;
  std::filesystem::path CheckpointPath(const CheckpointRow& checkpoint) const;

  /// True if there was no store, or not all of it yet, when it was opened for
  /// reading: queries find nothing, also after it is made.
  bool WasMissing() const;
  /// True if queries see a copy of a store that could not be migrated, as it
  /// was when it was opened.
  bool IsCopy() const;
  /// Returns what happened to a store that was opened for writing and moved or
  /// replaced since, with the remedy; empty if it is in its place. Costs one
  /// system call.
  std::string MovedReason() const;

 private:
  struct Connection;
  explicit Store(std::unique_ptr<Connection> connection);
  void Transact(const std::function<void(StoreWriter&)>& body, bool durable);

  std::unique_ptr<Connection> connection_;
};

/// The changes that a write transaction may make. Lives only during
/// `Store::TryWrite`; each method is one prepared statement or a few. Throws
/// Error(kStore) (disk full, damage), which undoes the transaction.
class StoreWriter {
 public:
  /// Returns the new experiment's id.
  std::int64_t AddExperiment(const NewExperiment& experiment);
  /// Sets `started` or `ended` to `time` as the state requires; keeps `error`
  /// if the state is ERROR, CANCELED or PAUSED.
  void SetExperimentState(std::int64_t experiment, State state, Timestamp time,
                          const std::string& error = "");
  void SetExperimentProgress(std::int64_t experiment, double progress);
  void AddExperimentSeconds(std::int64_t experiment, double seconds);
  /// Sets the best of an experiment with repeats, which its validations do not
  /// change; `best` has the value of the point.
  void SetExperimentBest(std::int64_t experiment, std::int64_t trial,
                         const std::optional<BestValidation>& best);
  void SetArchived(std::int64_t experiment, bool archived);
  void SetLabels(std::int64_t experiment,
                 const std::vector<std::string>& labels);
  void SetNote(std::int64_t experiment, const std::string& note);
  /// Replaces the configuration, and with it the name and the description.
  void SetConfig(std::int64_t experiment, const nlohmann::json& config);
  void SetProvenance(std::int64_t experiment, const nlohmann::json& provenance);
  /// Deletes the experiment and all its records. REQUIRES: it has no runner.
  void DeleteExperiment(std::int64_t experiment);

  void AddTrial(const TrialRow& trial);
  /// Sets state, reason, started/ended; a state that is final clears the pid.
  void SetTrialState(TrialId trial, State state, Timestamp time,
                     const std::string& reason = "");
  /// Records the start of a process of the trial, and increments `runs`.
  void SetTrialProcess(TrialId trial, const RecordedProcess& process);
  /// Adds to the total time of the trial's processes.
  void AddTrialSeconds(TrialId trial, double seconds);
  /// Records the end of the process, `seconds` after the last AddTrialSeconds.
  void ClearTrialProcess(TrialId trial, double seconds);
  /// `failures` of them since the trial's last progress.
  void SetTrialRestarts(TrialId trial, std::int64_t restarts,
                        std::int64_t failures);
  void SetTrialStar(TrialId trial, bool star);
  void SetTrialNote(TrialId trial, const std::string& note);
  void SetTrialPreemptions(TrialId trial, std::int64_t preemptions);
  void SetTrialRung(TrialId trial, std::int64_t rung);
  void SetTrialBatches(TrialId trial, std::int64_t batches);

  /// Adds a row for each metric, measured by the trial's `run`-th process. An
  /// existing value (same trial, kind, batches, name) is replaced: the last
  /// report wins. A value of the same time is a report that a later process
  /// sent again: it keeps its run.
  void AddMetrics(TrialId trial, MetricKind kind, std::int64_t batches,
                  double epoch, const MetricValues& values, Timestamp time,
                  std::int64_t run = 0);
  /// Records a validation of the searcher's metric: keeps `latest` and, if it
  /// is better than the best so far, `best`. NaN and infinities are never best.
  void AddValidation(TrialId trial, double value, std::int64_t batches,
                     bool smaller_is_better, std::int64_t run = 0);
  /// Marks the values that runs before `run` measured at `from` <= batches <
  /// `until`: the trial has passed there again without measuring them. They
  /// stay in the record; queries skip them, and `best` and `latest` are
  /// computed again without them.
  void SupersedeMetrics(TrialId trial, std::int64_t run, MetricKind kind,
                        std::int64_t from, std::int64_t until,
                        bool smaller_is_better);
  /// Adds a row, which replaces one of the same batches.
  void AddProfile(TrialId trial, const ProfileReport& profile);
  /// Deletes the profile beyond a checkpoint from which the trial resumes: its
  /// rows are sums, and those batches are trained and counted again.
  void TruncateProfile(TrialId trial, std::int64_t batches);

  /// Adds a sample of what a trial uses. A trial has at most kMaxSystemRows
  /// rows: when there are so many, each two are merged, and from then on as
  /// many samples as its rows have become one.
  void AddSystemSample(TrialId trial, const SystemRow& row);

  void AddCheckpoint(const CheckpointRow& checkpoint);
  void SetCheckpointState(const std::string& uuid, const std::string& state);
  /// Sets the state unless the checkpoint is DELETED; false if it is.
  [[nodiscard]] bool SetCheckpointFound(const std::string& uuid,
                                        const std::string& state);

  void AddEvaluation(const EvaluationRow& evaluation);

  /// Adds a message to be sent. One about a best trial replaces an earlier one
  /// that was not sent yet.
  void AddNotification(std::int64_t experiment, const NotificationRow& row);
  /// Records that the message was sent or given up.
  void EndNotification(const NotificationRow& row);

  /// Returns the request's id. An equal open request is reused.
  std::int64_t AddRequest(std::int64_t experiment,
                          std::optional<std::int64_t> trial, RequestKind kind,
                          Timestamp time);
  void FinishRequest(std::int64_t request);

  /// `seq` must follow the last one without a gap.
  void AddSearcherEvent(std::int64_t experiment, const SearcherEventRow& row);
  void AddSearcherSnapshot(std::int64_t experiment, std::int64_t seq,
                           const nlohmann::json& state);

 private:
  friend class Store;
  explicit StoreWriter(Statements& statements) : statements_(statements) {}

  Statements& statements_;
};

}  // namespace dtrain
