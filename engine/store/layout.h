#pragma once

#include <filesystem>
#include <string>

#include "engine/wire/trial_spec.h"

namespace dtrain {

/// The paths in a store's directory. They are built from integers and UUIDs
/// only, never from names given by users. Accesses no file.
class StoreLayout {
 public:
  explicit StoreLayout(std::filesystem::path root) : root_(std::move(root)) {}

  const std::filesystem::path& root() const { return root_; }

  std::filesystem::path Database() const { return root_ / "dtrain.db"; }
  /// File of the flock for write transactions and WAL checkpoints.
  std::filesystem::path WriteLock() const { return root_ / "dtrain.db.lock"; }
  /// Reserved disk space, deleted on a full disk to make room for the final
  /// records.
  std::filesystem::path Reserve() const { return root_ / "dtrain.reserve"; }
  /// Secret by which the processes of a trial on several machines authenticate
  /// each other. Created by the first such trial.
  std::filesystem::path Secret() const { return root_ / "secret"; }
  /// Directory with a directory for each experiment, named by its id.
  std::filesystem::path Experiments() const { return root_ / "experiments"; }
  std::filesystem::path Experiment(std::int64_t experiment) const;
  /// Locked by the experiment's runner (record lock) as long as it lives.
  std::filesystem::path RunnerLock(std::int64_t experiment) const;
  /// Locked by the experiment's runner and all its trials (flock), until the
  /// last of them ends.
  std::filesystem::path TrialsLock(std::int64_t experiment) const;
  /// Key by which the workers of the experiment authenticate themselves, and a
  /// file by which they check that they see this store.
  std::filesystem::path WorkerKey(std::int64_t experiment) const;
  std::filesystem::path WorkerProbe(std::int64_t experiment) const;
  /// Present workers of the experiment, written by its runner.
  std::filesystem::path WorkerTable(std::int64_t experiment) const;
  /// Output of a detached runner.
  std::filesystem::path RunnerLog(std::int64_t experiment) const;
  /// Snapshot of the context directory taken at creation. Read-only; trials of
  /// earlier versions wrote there. Exists only if the provenance has a
  /// context_hash.
  std::filesystem::path Context(std::int64_t experiment) const;
  /// List of its files, a ContextManifest.
  std::filesystem::path ContextListFile(std::int64_t experiment) const;
  /// Directory with the checkpoint that the trials start from, by its UUID.
  std::filesystem::path Sources(std::int64_t experiment) const;
  std::filesystem::path Source(std::int64_t experiment,
                               const std::string& uuid) const;
  /// Directory with a directory for each trial, named by its number.
  std::filesystem::path Trials(std::int64_t experiment) const;
  std::filesystem::path Trial(TrialId trial) const;
  /// A command's own copy of the context, in which it runs; after its end only
  /// the files that it wrote.
  std::filesystem::path WorkingTree(TrialId trial) const;
  std::filesystem::path TrialLog(TrialId trial) const;
  /// Temporary directory of a running command.
  std::filesystem::path Scratch(TrialId trial) const;
  std::filesystem::path Checkpoints(TrialId trial) const;
  std::filesystem::path Checkpoint(TrialId trial,
                                   const std::string& uuid) const;

 private:
  std::filesystem::path root_;
};

}  // namespace dtrain
