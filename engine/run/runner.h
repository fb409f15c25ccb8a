#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "engine/base/clock.h"
#include "engine/config/experiment_config.h"
#include "engine/slots/slots.h"
#include "engine/store/store.h"

namespace dtrain {

class Launcher;
class Reporter;
struct ExperimentPlaces;
struct RunInfo;
struct RunOptions;
struct RunResult;

/// Returns the slots that an experiment would have on this machine now. Throws
/// Error(kResources) if the machine cannot provide what it asks for.
SlotPlan PlanExperimentSlots(const ExperimentConfig& config);

/// Sets searcher.max_concurrent_trials of a model-based search, unless it is
/// set, to the number of trials that the slots of this machine hold, plus
/// `elsewhere`, those that other machines hold: a trial that is chosen before
/// it can run is chosen with too few results. Without any slot that is known,
/// the number is that of previews.
void ResolveConcurrency(ExperimentConfig& config, std::int64_t elsewhere = 0);

/// Returns a warning, with what to do, if a model-based search trains so many
/// trials at once that successive halving is as good (docs/searchers.md).
std::optional<std::string> FindModelWithFewResults(
    const SearcherConfig& searcher);

/// Returns the directory in which the commands of a recorded experiment are
/// executed: its own copy of the context, or else the original one.
std::string FindContextDirectory(const StoreLayout& layout,
                                 const ExperimentDetail& detail);

/// Key of provenance: true if a search continues although its first trial has
/// not read a searched hyperparameter. If it is missing, as in experiments of
/// earlier versions, the search continues.
inline constexpr char kAllowUnread[] = "allow_unread";

/// Key of provenance: the section `searcher` before the search was extended,
/// and the later plans. Missing if it was not.
inline constexpr char kExtended[] = "extended";

/// Returns the searcher with which an experiment was created; `now` is that of
/// its configuration, which extensions change.
SearcherConfig CreatedSearcher(const ExperimentDetail& detail,
                               const SearcherConfig& now);

/// Options for recording an experiment.
struct RecordOptions {
  // Intra-op threads of a process on CPU slots; none: as planned.
  std::optional<std::int64_t> threads;
  // A trial is one process with any number of slots, as in earlier versions.
  bool one_process = false;
  // Absolute directory of its checkpoints; empty: the store.
  std::string storage;
  bool paused = false;  // PAUSED in place of PENDING, until it is resumed
  // Called with the id inside the transaction; an exception rolls it back.
  std::function<void(std::int64_t)> place;
};

/// Records a new experiment, PENDING or PAUSED, and returns its id. Draws the
/// seed if the configuration has none. `yaml` is the text written by the user.
std::int64_t CreateExperiment(Store& store, const ExperimentConfig& config,
                              const std::string& yaml,
                              const nlohmann::json& provenance, Clock clock,
                              const RecordOptions& options = {});

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
  ~ExperimentRunner();

  /// Slots of the trials, for their launcher.
  const SlotPlan& slots() const { return slots_; }
  /// Descriptor of a lock that every trial must inherit.
  int trials_lock() const;

  /// Resumes from the record, starts trials by `launcher` and records their
  /// messages, until the experiment ends, is paused or is interrupted.
  /// REQUIRES: called once. Throws Error(kStore) if the store fails.
  RunResult Run(Launcher& launcher, const RunOptions& options,
                Reporter& reporter);

 private:
  struct Locks;

  RunInfo Info() const;
  ExperimentPlaces Places() const;

  Store& store_;
  const ExperimentConfig config_;
  const Clock clock_;
  const ExperimentDetail detail_;
  // Its own directory for checkpoints outside the store, or empty.
  const std::filesystem::path storage_;
  const std::unique_ptr<const Locks> locks_;
  const SlotPlan slots_;
};

}  // namespace dtrain
