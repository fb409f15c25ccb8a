// Where an experiment's files are, whether they can still be used, and how what
// trials leave is removed. The experiment's loop calls this, so nothing here
// may take long; the one thing that does, tidying a working copy, happens in a
// thread (WorkingTreeCleaner).
//
// FindLoss and FindUnwritable answer different questions. FindLoss: must the
// experiment stop, because a directory of it was moved or removed?
// FindUnwritable, after a trial has failed: can its directories be written at
// all? If not, that stops the experiment and does not count as a failure of the
// trial.

#include "engine/run/experiment_files.h"

#include <cerrno>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "engine/base/error.h"
#include "engine/base/rng.h"
#include "engine/checkpoint/checkpoint_files.h"
#include "engine/context/working_tree.h"
#include "engine/os/system_error.h"
#include "engine/store/checkpoint_storage.h"
#include "engine/store/file_tree.h"

namespace dtrain {

WorkingTreeCleaner::~WorkingTreeCleaner() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void WorkingTreeCleaner::Add(const std::filesystem::path& master,
                             std::filesystem::path tree) {
  {
    const std::lock_guard lock(mutex_);
    trees_.push_back(std::move(tree));
  }
  changed_.notify_one();
  if (thread_.joinable()) return;
  try {
    thread_ = std::thread([this, master] { Run(master); });
  } catch (const std::system_error&) {
    // No thread can be started now. The queued trees are cleaned up with a
    // later one, or stay for `dtrain gc`.
  }
}

void WorkingTreeCleaner::Run(const std::filesystem::path& master) {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !trees_.empty(); });
    if (trees_.empty()) return;
    const std::filesystem::path tree = std::move(trees_.front());
    trees_.pop_front();
    lock.unlock();
    TidyWorkingTree(master, tree);
    lock.lock();
  }
}

ExperimentFiles::ExperimentFiles(const Store& store, std::int64_t experiment,
                                 ExperimentPlaces places)
    : store_(store), experiment_(experiment), places_(std::move(places)) {}

std::string ExperimentFiles::FindLoss(bool with_storage) const {
  std::string why = store_.MovedReason();
  std::error_code error;
  if (why.empty() && !places_.directory.empty() &&
      !std::filesystem::is_directory(places_.directory, error)) {
    why = places_.directory.string() + ": no longer exists; put it back";
  }
  if (why.empty() && with_storage && !places_.storage_directory.empty()) {
    why = StorageFailure(places_.storage_directory);
  }
  return why;
}

std::string ExperimentFiles::FindUnwritable(TrialId trial, bool has_run) const {
  if (places_.directory.empty()) return "";
  const std::filesystem::path directory = store_.layout().Trial(trial);
  std::vector<std::filesystem::path> candidates = {CheckpointDirectory(trial)};
  if (has_run) candidates.push_back(directory);
  const auto access = [](const std::filesystem::path& path) {
    return ::faccessat(AT_FDCWD, path.c_str(), W_OK | X_OK, AT_EACCESS) == 0
               ? 0
               : errno;
  };
  for (std::filesystem::path& path : candidates) {
    int error = access(path);
    // Missing directories will be created in the nearest existing one above.
    while (error == ENOENT && path != directory && path != places_.directory &&
           path.has_relative_path()) {
      path = path.parent_path();
      error = access(path);
    }
    if (error == 0) continue;
    return path.string() + ": " +
           (error == ENOENT ? "no longer exists; put it back"
                            : "cannot be written to: " + ErrnoText(error) +
                                  "; check who may write there");
  }
  return "";
}

std::filesystem::path ExperimentFiles::CheckpointDirectory(
    TrialId trial) const {
  return store_.CheckpointDirectory(trial, places_.storage);
}

std::filesystem::path ExperimentFiles::Checkpoint(
    TrialId trial, const std::string& uuid) const {
  return CheckpointDirectory(trial) / uuid;
}

std::vector<std::string> ExperimentFiles::CleanCheckpoints(
    TrialId trial) const {
  std::vector<std::string> finished;
  const std::filesystem::path directory = CheckpointDirectory(trial);
  for (const std::string& name : NamesIn(directory)) {
    if (IsUuid(name)) {
      finished.push_back(name);
    } else if (name.ends_with(kUnfinishedSuffix) ||
               name.ends_with(kTrashSuffix)) {
      RemoveQuietly(directory / name);
    }
  }
  return finished;
}

void ExperimentFiles::CleanAfterCrash(TrialId trial) const {
  static_cast<void>(CleanCheckpoints(trial));
  RemoveQuietly(store_.layout().Scratch(trial));
}

void ExperimentFiles::EmptyTrash() const {
  for (const auto& path : TrashIn(store_.layout().Experiment(experiment_))) {
    RemoveQuietly(path);
  }
}

void ExperimentFiles::CleanWorkingTree(TrialId trial) {
  cleaner_.Add(places_.context, store_.layout().WorkingTree(trial));
}

// The experiment has a copy of its own, which is kept. Versions that made none
// used the checkpoint itself.
std::filesystem::path ExperimentFiles::SourceCheckpoint(
    const std::string& uuid) const {
  const auto own = store_.layout().Source(experiment_, uuid);
  std::error_code error;
  if (std::filesystem::is_directory(own, error)) return own;
  return store_.CheckpointPath(store_.CheckpointByPrefix(uuid));
}

void ExperimentFiles::SetPaths(TrialSpec& spec,
                               const std::string& source) const {
  const StoreLayout& layout = store_.layout();
  spec.directory = layout.Trial(spec.id).string();
  if (!places_.storage.empty()) {
    spec.checkpoints = CheckpointDirectory(spec.id).string();
  }
  if (spec.restore.empty() && !source.empty()) {
    spec.warm_start = SourceCheckpoint(source).string();
  }
  if (spec.command.empty()) return;
  spec.context = places_.context;
  if (places_.stored_context) {
    spec.master = spec.context;
    spec.context = layout.WorkingTree(spec.id).string();
  }
}

void RemoveQuietly(const std::filesystem::path& checkpoint) {
  try {
    RemoveTree(checkpoint);
  } catch (const Error&) {
    // `dtrain gc` reports it.
  }
}

}  // namespace dtrain
