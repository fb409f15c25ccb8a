#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/error.h"
#include "engine/config/experiment_config.h"
#include "engine/process/launcher.h"
#include "engine/run/checkpoint_keeper.h"
#include "engine/run/outbox.h"
#include "engine/run/reporter.h"
#include "engine/run/runner.h"
#include "engine/run/search.h"
#include "engine/run/search_results.h"
#include "engine/run/trial_table.h"
#include "engine/store/store.h"

namespace dtrain {

/// Interfaces to the outside of an Experiment; all must outlive it.
struct ExperimentDoors {
  Store& store;
  Launcher& launcher;
  Reporter& reporter;
  Clock clock;
};

/// Parameters of an Experiment.
struct ExperimentSetup {
  std::int64_t id = 0;
  ExperimentConfig config;
  std::uint32_t seed = 0;
  RunOptions options;
  RunInfo info;
  // Fails the experiment if its first trial has not read a searched
  // hyperparameter.
  bool refuse_unread = false;
  int ranks = 1;           // processes of a trial
  int threads = 1;         // intra-op threads of each
  std::int64_t slots = 1;  // of all trials
  std::int64_t slots_per_trial = 1;
  std::string advice;   // what to tell the user at the start, or empty
  std::string boot_id;  // of this machine, recorded beside pids
  std::string context;  // directory in which commands are executed …
  // … or the stored one, of which each trial has a copy to work in.
  bool stored_context = false;
  // The experiment's directory in the store; checked for removal unless empty.
  std::filesystem::path directory;
  // As in ExperimentDetail, and the experiment's own directory in it.
  std::string storage;
  std::filesystem::path storage_directory;
  // The storage directory is on a local file system, so that the loop may
  // check it without waiting for another machine.
  bool watches_storage = true;
  Outbox::Sync sync = Outbox::Sync::kWhereDurable;
};

/// Cleans up the working trees of programs that have ended, in a thread of its
/// own, because removing files may take long and other trials are pending.
class TreeTidier {
 public:
  TreeTidier() = default;
  TreeTidier(const TreeTidier&) = delete;
  TreeTidier& operator=(const TreeTidier&) = delete;
  /// Waits until all are cleaned up.
  ~TreeTidier();

  /// Queues a call of TidyWorkingTree.
  void Add(const std::filesystem::path& master, std::filesystem::path tree);

 private:
  void Run(const std::filesystem::path& master);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::filesystem::path> trees_;
  bool over_ = false;
  std::thread thread_;  // from the first one on
};

/// State that the parts of a running experiment share: Experiment (the loop),
/// SearchDriver, TrialStarter and TrialListener. One thread. The time that they
/// take for one message or event does not grow with the number of trials.
struct ExperimentState {
  ExperimentState(ExperimentSetup setup, ExperimentDoors doors);
  ExperimentState(const ExperimentState&) = delete;
  ExperimentState& operator=(const ExperimentState&) = delete;

  Duration Now() const { return doors.clock.monotonic(); }
  const SearcherConfig& searcher() const { return setup.config.searcher; }

  /// Changes a trial's state, in the record too.
  void SetState(TrialState& trial, State state, const std::string& reason);
  /// Records how far the trial is, if that has changed.
  void RecordBatches(const TrialState& trial);
  /// Reports the end of a trial or of its process.
  void Tell(const TrialState& trial);
  /// Holds the trial's checkpoints.
  std::filesystem::path CheckpointsOf(TrialId trial) const {
    return doors.store.CheckpointsOf(trial, setup.storage);
  }
  /// Explains that the store or, with `with_storage`, the checkpoint directory
  /// was moved or removed; empty if both are in place.
  std::string WhyLost(bool with_storage = true) const;
  /// Records checkpoints as deleted, and then deletes them.
  void Delete(const CheckpointKeeper::Rows& checkpoints);
  /// Removes from the working tree of an ended program what it did not write,
  /// once its end is recorded.
  void TidyTree(TrialId trial);

  ExperimentSetup setup;
  ExperimentDoors doors;
  Search search;
  Outbox outbox;
  TrialTable trials;
  StartQueue queue;
  CheckpointKeeper keeper;
  BestTrial best;
  Rungs rungs;
  UnreadHparams unread;
  bool validated = false;          // some trial was, after training
  std::set<std::int64_t> changed;  // trials whose batches are not recorded
  bool shutdown = false;           // the searcher is done
  bool failed = false;             // … because every trial errored
  std::string failure;             // why the experiment as a whole fails
  bool stopping = false;           // everything is being paused
  std::string why_stopping;        // … because of what
  bool canceled = false;           // … for good
  int signal = 0;                  // … because of this one
  // … because of this, not by anybody's wish.
  std::optional<Error> problem;
  Unit counted = Unit::kBatches;  // what the trials' `batches` count
  int failed_starts = 0;          // of processes, one after the other
  std::string last_error;         // of a trial
  TreeTidier tidier;
};

/// Gives the UUIDs of the finished checkpoints in a trial's `directory` of
/// checkpoints, and removes what was not finished or not wholly deleted.
/// REQUIRES: the trial has no process.
std::vector<std::string> TidyCheckpoints(
    const std::filesystem::path& directory);

/// Deletes a checkpoint. What cannot go stays: it has no row, so `dtrain gc`
/// finds it.
void RemoveQuietly(const std::filesystem::path& checkpoint);

}  // namespace dtrain
