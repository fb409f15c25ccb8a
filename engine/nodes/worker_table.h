#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/clock.h"
#include "engine/process/launcher.h"

namespace dtrain {

enum class WorkerState {
  kJoining,   // it has connected, and checks what its trials need
  kReady,     // it takes trials
  kDraining,  // it takes no more trials; those it has are being paused
};

/// "joining", "ready" or "draining".
std::string_view StateName(WorkerState state);

/// A machine that runs trials of an experiment.
struct WorkerRow {
  static constexpr std::string_view kType = "worker";
  int id = 0;        // counts up; 0 is the runner's own machine
  std::string name;  // empty: the runner's own machine
  std::string host;
  std::string job;  // that started it, or empty
  WorkerState state = WorkerState::kJoining;
  bool gpus = false;       // its slots are GPUs
  std::int64_t slots = 0;  // in units of a GPU, a share of one, or a CPU slot
  std::int64_t used = 0;   // of them, by trials that run or are starting
  std::vector<std::string> trials;  // those, "EXP.N"
  Timestamp joined{0};
  std::optional<Timestamp> idle_since;  // none while a trial is there
  std::optional<Timestamp> until;       // when its machine ends it

  friend bool operator==(const WorkerRow&, const WorkerRow&) = default;

  static void Fields(auto& field, auto& m) {
    field("id", m.id);
    field("name", m.name);
    field("host", m.host);
    field("job", m.job);
    field("state", m.state);
    field("gpus", m.gpus);
    field("slots", m.slots);
    field("used", m.used);
    field("trials", m.trials);
    field("joined", m.joined);
    field("idle_since", m.idle_since);
    field("until", m.until);
  }
};

/// A job that was submitted to start workers, and has not ended.
struct JobRow {
  static constexpr std::string_view kType = "job";
  std::string id;
  bool pending = false;  // otherwise it runs
  std::string reason;    // why it is pending, in the scheduler's word; or empty
  std::string nodes;     // "n[1-3]"; empty while it is pending
  bool served = false;   // a worker of it was ready at some time

  /// State of a job without a worker: "pending (Resources)", "starting", or
  /// "without workers" after it had some.
  std::string StateText() const;

  friend bool operator==(const JobRow&, const JobRow&) = default;

  static void Fields(auto& field, auto& m) {
    field("id", m.id);
    field("pending", m.pending);
    field("reason", m.reason);
    field("nodes", m.nodes);
    field("served", m.served);
  }
};

/// The present workers of an experiment, the jobs that start them, and the
/// slots that it could use.
struct WorkerTable {
  std::vector<WorkerRow> workers;
  std::vector<JobRow> jobs = {};
  /// Slots of the trials that run or could be started now, had they slots: the
  /// searcher's concurrency and resources.max_slots limit it.
  std::int64_t demand = 0;
  std::int64_t slots_per_trial = 1;

  /// True if a worker of the job is connected.
  bool HasWorker(const JobRow& job) const;
  /// Returns the jobs without a worker.
  std::vector<JobRow> JobsWithoutWorkers() const;
  /// "3 ready, 1 draining, 2 jobs pending (Resources)", or "none yet".
  std::string Summary() const;

  friend bool operator==(const WorkerTable&, const WorkerTable&) = default;

  /// Without workers and jobs, which have lines of their own in a file.
  static void Fields(auto& field, auto& m) {
    field("demand", m.demand);
    field("slots_per_trial", m.slots_per_trial);
  }
};

/// Starts and ends jobs that run workers. Called by the launcher from its one
/// thread.
class WorkerSource {
 public:
  virtual ~WorkerSource() = default;

  /// Returns the jobs that have not ended.
  virtual std::vector<JobRow> Jobs() { return {}; }
  /// Called about once a second, and when the table has changed. Returns the
  /// ids of workers to let go: one without trials exits, another one drains
  /// first.
  virtual std::vector<int> Update(const WorkerTable& table) = 0;
  /// Returns, once, why it can get no more workers; empty while it can.
  virtual std::string Failure() = 0;
};

/// Receivers of the table of workers.
struct WorkerHooks {
  // Called when it has changed; may be empty.
  std::function<void(const WorkerTable& table)> changed;
  // Gets more workers, and lets them go; may be null. Must outlive the
  // launcher.
  WorkerSource* source = nullptr;
};

/// Passes tables to the receivers, a few times a second at most. One thread.
class WorkerUpdates {
 public:
  WorkerUpdates(WorkerHooks hooks, Clock clock)
      : hooks_(std::move(hooks)), clock_(std::move(clock)) {}

  /// True if the next table may be passed on.
  bool due() const;
  /// Adds since when its workers are idle, and the jobs of the source, and
  /// passes the table on. Returns the workers to let go.
  std::vector<int> Apply(WorkerTable table);
  /// Returns, once, why the source can get no more workers.
  std::optional<WorkersFailed> Failure() const;

 private:
  const WorkerHooks hooks_;
  const Clock clock_;
  WorkerTable table_;  // the last one
  Duration applied_at_{0};
  Duration called_at_{0};                // the source
  std::map<int, Timestamp> idle_since_;  // by worker
};

/// Records the table of a running experiment in a file, for other processes.
/// Drops an error of the disk: the file is only shown to users.
void WriteWorkers(const std::filesystem::path& path, const WorkerTable& table);
/// Returns the recorded table; none if there is no valid one.
std::optional<WorkerTable> ReadWorkers(const std::filesystem::path& path);

}  // namespace dtrain
