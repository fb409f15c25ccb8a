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

#include "engine/base/error.h"
#include "engine/run/best_trial.h"
#include "engine/run/checkpoint_keeper.h"
#include "engine/run/experiment_setup.h"
#include "engine/run/outbox.h"
#include "engine/run/rungs.h"
#include "engine/run/search.h"
#include "engine/run/start_queue.h"
#include "engine/run/trial_table.h"
#include "engine/run/unread_hparams.h"

namespace dtrain {

/// Tidies the directories that ended commands worked in, in a thread of its
/// own: the disk may take long to remove them, and other trials want to start.
class TreeTidier {
 public:
  TreeTidier() = default;
  TreeTidier(const TreeTidier&) = delete;
  TreeTidier& operator=(const TreeTidier&) = delete;
  /// Waits until all is tidy.
  ~TreeTidier();

  /// TidyWorkingTree, soon.
  void Add(const std::filesystem::path& master, std::filesystem::path tree);

 private:
  void Run(const std::filesystem::path& master);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::filesystem::path> trees_;
  bool over_ = false;
  std::thread thread_;  // from the first one on
};

/// What the parts of a running experiment share: Experiment (the loop),
/// SearchDriver, TrialStarter and TrialListener. One thread. Nothing that they
/// do for one message or event takes longer the more trials there are.
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
  /// Has the reporter told that a trial's process or the trial ended.
  void Tell(const TrialState& trial);
  /// Holds the trial's checkpoints.
  std::filesystem::path CheckpointsOf(TrialId trial) const {
    return doors.store.CheckpointsOf(trial, setup.storage);
  }
  /// Why nothing can be put any more where this experiment is recorded or, if
  /// asked for, where its checkpoints go: somebody moved it; empty: all stands.
  std::string WhyLost(bool with_storage = true) const;
  /// Records checkpoints as deleted, and then deletes them.
  void Delete(const CheckpointKeeper::Rows& checkpoints);
  /// Leaves of the directory that an ended command worked in what it wrote,
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

}  // namespace dtrain
