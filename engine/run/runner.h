#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/config/experiment_config.h"
#include "engine/process/launcher.h"
#include "engine/run/reporter.h"
#include "engine/run/runner_lock.h"
#include "engine/slots/slots.h"
#include "engine/store/store.h"

namespace dtrain {

/// The slots that an experiment would have on this machine now. Throws
/// Error(kResources) where what it asks for can never be had here.
SlotPlan PlanExperimentSlots(const ExperimentConfig& config);

/// Where the commands of a recorded experiment are executed: in its own copy of
/// its files, else where these lay when it was created.
std::string ContextOf(const StoreLayout& layout,
                      const ExperimentDetail& detail);

/// Whether the entrypoint is a command, not a model.
bool IsCommand(const ExperimentConfig& config);

/// What the `batches` of the experiment's record count, as far as it tells: a
/// command that reports no batches is counted in epochs or records.
Unit CountedUnit(const Store& store, std::int64_t experiment,
                 const ExperimentConfig& config);
/// The same of one report of a command: `batches` at this `epoch`, 0 if it told
/// none. Without max_length the report is all that tells.
Unit CountedUnit(const ExperimentConfig& config, std::int64_t batches,
                 double epoch);

/// The key of provenance that says whether a search goes on although its first
/// trial has not read what is searched. Without it, as in experiments of
/// earlier versions, it does.
inline constexpr char kAllowUnread[] = "allow_unread";

/// How the reason of a trial begins that ended before its length by itself.
inline constexpr std::string_view kEndedEarly = "ended early";

/// What is asked of the recording of an experiment.
struct RecordOptions {
  // Intra-op threads of a process on CPU slots; none: as many as are planned.
  std::optional<std::int64_t> threads;
  // A trial is one process, whatever its slots, as it was in earlier versions.
  bool one_process = false;
  // Directory that its checkpoints go to, absolute; empty: the store.
  std::string storage;
  // Called with the id while it is being recorded; what it throws undoes it.
  std::function<void(std::int64_t)> place;
};

/// Records a new experiment, PENDING, and gives its id. Draws the seed if the
/// configuration has none. `yaml` is the text as the user wrote it.
std::int64_t CreateExperiment(Store& store, const ExperimentConfig& config,
                              const std::string& yaml,
                              const nlohmann::json& provenance, Clock clock,
                              const RecordOptions& options = {});

/// Parameters of a run, besides those that are recorded.
struct RunOptions {
  std::optional<Duration> timeout;  // pause after this time
  // Maximum time that trials may be blocked on a full disk before the run is
  // paused; none: unlimited.
  std::optional<Duration> disk_wait;
  std::string library;  // of the user's own model; empty: one of this build's
};

/// Runs a recorded experiment. Holds the experiment's locks from construction
/// on, so that no other process runs it and no process of an earlier run is
/// left. One thread.
class ExperimentRunner {
 public:
  /// Takes the locks and plans the slots. `store` must outlive this. Throws
  /// Error(kNotFound), Error(kStore) if another runner holds the experiment
  /// (naming its pid and host) or its files are missing, Error(kResources).
  ExperimentRunner(Store& store, std::int64_t id, ExperimentConfig config,
                   Clock clock);

  /// Slots of the trials, for their launcher.
  const SlotPlan& slots() const { return slots_; }
  /// Descriptor of a lock that every trial must inherit.
  int trials_lock() const { return trials_lock_.fd(); }

  /// Resumes from the record, starts trials by `launcher` and records their
  /// messages, until the experiment ends, is paused or is interrupted.
  /// REQUIRES: called once. Throws Error(kStore) if the store fails.
  RunResult Run(Launcher& launcher, const RunOptions& options,
                Reporter& reporter);

 private:
  Store& store_;
  const ExperimentConfig config_;
  const Clock clock_;
  const ExperimentDetail detail_;
  // Its own directory for checkpoints outside the store, or empty.
  const std::filesystem::path storage_;
  const RunnerLock lock_;
  const std::string boot_id_;
  const TrialsLock trials_lock_;
  const SlotPlan slots_;
};

}  // namespace dtrain
