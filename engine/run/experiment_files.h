#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "engine/store/store.h"
#include "engine/wire/trial_spec.h"

namespace dtrain {

/// Directories of one experiment.
struct ExperimentPlaces {
  std::string context;  // directory in which commands are executed …
  // … or the stored one, of which each trial has a copy to work in.
  bool stored_context = false;
  // The experiment's directory in the store; checked for removal unless empty.
  std::filesystem::path directory;
  // Value of ExperimentDetail::storage, and the experiment's own directory
  // in it.
  std::string storage;
  std::filesystem::path storage_directory;
  // The storage directory is on a local file system, so that the loop may
  // check it without waiting for another machine.
  bool watches_storage = true;
};

/// Removes from the working copies of programs that have ended what these did
/// not write. Works in a thread of its own, because removing files may take
/// long and other trials are pending.
class WorkingTreeCleaner {
 public:
  WorkingTreeCleaner() = default;
  WorkingTreeCleaner(const WorkingTreeCleaner&) = delete;
  WorkingTreeCleaner& operator=(const WorkingTreeCleaner&) = delete;
  /// Waits until all are cleaned up.
  ~WorkingTreeCleaner();

  /// Queues a call of TidyWorkingTree.
  void Add(const std::filesystem::path& master, std::filesystem::path tree);

 private:
  void Run(const std::filesystem::path& master);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::filesystem::path> trees_;
  bool stopping_ = false;
  std::thread thread_;  // runs from the first call of Add
};

/// Files of one running experiment: finds, checks and deletes them, and
/// records nothing. One thread. `store` must outlive it.
class ExperimentFiles {
 public:
  ExperimentFiles(const Store& store, std::int64_t experiment,
                  ExperimentPlaces places);

  /// Explains that the store or, with `with_storage`, the checkpoint directory
  /// was moved or removed; empty if both are in place.
  std::string FindLoss(bool with_storage = true) const;
  /// Explains that nothing can be written now for the trial; empty if something
  /// can. `has_run`: it has a directory already.
  std::string FindUnwritable(TrialId trial, bool has_run) const;
  /// True if `FindLoss` may look at the checkpoint directory at any time.
  bool watches_storage() const { return places_.watches_storage; }
  /// Storage of new checkpoints, as in CheckpointRow.
  const std::string& storage() const { return places_.storage; }

  /// Directory of a checkpoint of `trial`.
  std::filesystem::path Checkpoint(TrialId trial,
                                   const std::string& uuid) const;
  /// Returns the UUIDs of the trial's finished checkpoints and removes those
  /// that are unfinished or partly deleted. REQUIRES: the trial has no process.
  std::vector<std::string> CleanCheckpoints(TrialId trial) const;
  /// Removes what a crashed process of the trial has left.
  void CleanAfterCrash(TrialId trial) const;
  /// Finishes deletions that a runner which died had begun.
  void EmptyTrash() const;
  /// True if trials have working copies of the context.
  bool has_working_trees() const { return places_.stored_context; }
  /// Cleans up the working copy of a program that has ended. REQUIRES:
  /// has_working_trees().
  void CleanWorkingTree(TrialId trial);

  /// Sets the directories of the trial. `source` is the checkpoint that trials
  /// without one of their own start from, or empty.
  void SetPaths(TrialSpec& spec, const std::string& source) const;

 private:
  std::filesystem::path CheckpointDirectory(TrialId trial) const;
  std::filesystem::path SourceCheckpoint(const std::string& uuid) const;

  const Store& store_;
  const std::int64_t experiment_;
  const ExperimentPlaces places_;
  WorkingTreeCleaner cleaner_;
};

/// Deletes a checkpoint. Files that cannot be deleted stay for `dtrain gc`,
/// which finds them because they have no row.
void RemoveQuietly(const std::filesystem::path& checkpoint);

}  // namespace dtrain
