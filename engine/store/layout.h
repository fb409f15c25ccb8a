#pragma once

#include <filesystem>
#include <string>

#include "engine/wire/trial_spec.h"

namespace dtrain {

/// Where things lie in a store directory. Paths are built from integers and
/// UUIDs only, never from a name that a user gave. Touches no file.
class StoreLayout {
 public:
  explicit StoreLayout(std::filesystem::path root) : root_(std::move(root)) {}

  const std::filesystem::path& root() const { return root_; }

  std::filesystem::path Database() const { return root_ / "dtrain.db"; }
  /// The flock of every write transaction and WAL checkpoint.
  std::filesystem::path WriteLock() const { return root_ / "dtrain.db.lock"; }
  /// Space that is given up where the disk is full, for the last words.
  std::filesystem::path Reserve() const { return root_ / "dtrain.reserve"; }
  /// Known to all processes that run trials of this store on several machines,
  /// which prove it to each other. There once the first have done so.
  std::filesystem::path Secret() const { return root_ / "secret"; }
  /// Holds a directory for each experiment, named by its id.
  std::filesystem::path Experiments() const { return root_ / "experiments"; }
  std::filesystem::path Experiment(std::int64_t experiment) const;
  /// Held by the experiment's runner (an OFD lock) as long as it lives.
  std::filesystem::path RunnerLock(std::int64_t experiment) const;
  /// Held by the experiment's runner and by all its trials as long as one
  /// lives.
  std::filesystem::path TrialsLock(std::int64_t experiment) const;
  /// What a detached runner prints.
  std::filesystem::path RunnerLog(std::int64_t experiment) const;
  /// The master copy of its user's files that it needs to run, as they were
  /// when it was made. Read-only; trials of earlier versions wrote there. There
  /// only if its provenance has a context_hash.
  std::filesystem::path Context(std::int64_t experiment) const;
  /// The files of that, as a ContextManifest.
  std::filesystem::path ContextListFile(std::int64_t experiment) const;
  /// Holds the checkpoint that its trials begin from, under its UUID.
  std::filesystem::path Sources(std::int64_t experiment) const;
  std::filesystem::path Source(std::int64_t experiment,
                               const std::string& uuid) const;
  /// Holds a directory for each of its trials, named by its number.
  std::filesystem::path Trials(std::int64_t experiment) const;
  std::filesystem::path Trial(TrialId trial) const;
  /// A command's own copy of the context, in which it runs; once it has ended,
  /// what it wrote there.
  std::filesystem::path WorkingTree(TrialId trial) const;
  std::filesystem::path TrialLog(TrialId trial) const;
  /// What a command may use while it runs.
  std::filesystem::path Scratch(TrialId trial) const;
  std::filesystem::path Checkpoints(TrialId trial) const;
  std::filesystem::path Checkpoint(TrialId trial,
                                   const std::string& uuid) const;

 private:
  std::filesystem::path root_;
};

}  // namespace dtrain
