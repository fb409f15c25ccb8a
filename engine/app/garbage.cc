// Garbage collection in a store.
//
// Everything that is removed is identified by the record, never by age: a
// checkpoint that the policy of an ended experiment does not keep, a directory
// of an experiment that the database has deleted, a staging directory without
// an experiment. A directory with a number that this database has never
// assigned belongs to another database and stays. Records change before files
// are removed, so that a crash leaves files that the next collection finds.
// Names that end in .trash are trees whose removal was interrupted.

#include "engine/app/garbage.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>
#include <string_view>

#include "engine/app/stores.h"
#include "engine/base/uuid.h"
#include "engine/checkpoint/checkpoint_files.h"
#include "engine/config/read_config.h"
#include "engine/context/staged_files.h"
#include "engine/context/working_tree.h"
#include "engine/run/checkpoint_keeper.h"
#include "engine/run/runner_lock.h"
#include "engine/store/checkpoint_storage.h"
#include "engine/store/file_tree.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

constexpr const char* kWasBeingDeleted = "its deletion was interrupted";
constexpr const char* kNeverRecorded = "its experiment was never recorded";

std::optional<std::int64_t> Number(std::string_view name) {
  std::int64_t number = 0;
  const char* end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(name.data(), end, number);
  if (error != std::errc() || rest != end || number < 1) return std::nullopt;
  return number;
}

// Returns why an entry in a trial's checkpoint directory is not needed; empty
// if it is.
std::string GarbageReason(const std::string& name,
                          const std::vector<CheckpointRow>& checkpoints) {
  if (name.ends_with(kUnfinishedSuffix)) return "is unfinished";
  if (name.ends_with(kTrashSuffix)) return kWasBeingDeleted;
  if (!IsUuid(name)) return "";
  const auto row = std::ranges::find(checkpoints, name, &CheckpointRow::uuid);
  if (row == checkpoints.end()) return "is not recorded";
  return row->state == "DELETED" ? "is recorded as deleted" : "";
}

}  // namespace

bool GarbageCollection::Collect(const ExperimentRow& experiment) {
  const std::int64_t id = experiment.id;
  const fs::path lock_file = store_.layout().RunnerLock(id);
  if (RunnerLock::Holder(lock_file)) return false;
  // A trial may outlive its runner while it saves a checkpoint.
  const bool lives = std::ranges::any_of(
      store_.Trials(id), [boot = BootId()](const TrialRow& trial) {
        return LivingProcess(trial, boot).has_value();
      });
  if (lives) return false;
  std::optional<RunnerLock> lock;
  if (!dry_) lock = LockExperiment(store_, id);
  // Read again under the lock.
  const auto rows = store_.Experiments({.archived = true, .id = id});
  if (rows.empty()) return true;
  const bool ended = IsFinal(rows.front().state);
  if (ended) ApplyPolicy(rows.front());
  RemoveLeftovers(id, ended);
  return true;
}

void GarbageCollection::ApplyPolicy(const ExperimentRow& experiment) {
  const auto detail = store_.Experiment(experiment.id);
  if (!detail) return;
  auto checkpoints = store_.Checkpoints(experiment.id);
  std::erase_if(checkpoints, [&](const CheckpointRow& row) {
    return row.state != "COMPLETED" || IsForeign(row.storage);
  });
  const auto keep = CheckpointsToKeep(
      ConfigFromJson(detail->config).checkpoints, experiment.smaller_is_better,
      checkpoints, /*unfinished=*/{});
  std::erase_if(checkpoints, [&](const CheckpointRow& row) {
    return keep.contains(row.uuid);
  });
  if (!dry_ && !checkpoints.empty()) {
    store_.Write([&](StoreWriter& writer) {
      for (const CheckpointRow& row : checkpoints) {
        writer.SetCheckpointState(row.uuid, "DELETED");
      }
    });
  }
  for (const CheckpointRow& row : checkpoints) {
    Remove({.experiment = experiment.id,
            .kind = "checkpoint",
            .path = store_.CheckpointPath(row),
            .why = "the checkpoint policy does not keep it"});
  }
}

void GarbageCollection::RemoveLeftovers(std::int64_t experiment, bool ended) {
  const auto checkpoints = store_.Checkpoints(experiment, /*deleted=*/true);
  const StoreLayout& layout = store_.layout();
  const fs::path trials = layout.Trials(experiment);
  for (const fs::path& place : {layout.Experiment(experiment), trials}) {
    RemoveTrash(experiment, place);
  }
  for (const std::string& name : NamesIn(trials)) {
    const auto number = Number(name);
    if (!number) continue;
    const TrialId trial{experiment, *number};
    RemoveTrash(experiment, layout.Trial(trial));
    RemoveLeftoversIn(layout.Checkpoints(trial), experiment, checkpoints);
    RemoveTrees(trial, ended);
  }
  for (const std::string& storage : OwnStorages()) {
    const fs::path root =
        store_.StorageRoot(storage) / std::to_string(experiment);
    for (const std::string& name : NamesIn(root)) {
      const auto number = Number(name);
      if (!number) continue;
      RemoveLeftoversIn(
          store_.CheckpointDirectory({experiment, *number}, storage),
          experiment, checkpoints);
    }
  }
}

void GarbageCollection::RemoveTrash(std::int64_t experiment,
                                    const fs::path& directory) {
  for (const fs::path& path : TrashIn(directory)) {
    Remove({.experiment = experiment,
            .kind = "leftover",
            .path = path,
            .why = kWasBeingDeleted});
  }
}

void GarbageCollection::RemoveLeftoversIn(
    const fs::path& directory, std::int64_t experiment,
    const std::vector<CheckpointRow>& checkpoints) {
  for (const std::string& name : NamesIn(directory)) {
    const fs::path path = directory / name;
    const bool known = std::ranges::find(removed_, path, &Garbage::path) !=
                       removed_.end();  // by its policy, in a dry run
    const std::string why = GarbageReason(name, checkpoints);
    if (known || why.empty()) continue;
    Remove({.experiment = experiment,
            .kind = "leftover",
            .path = path,
            .why = why});
  }
}

void GarbageCollection::RemoveTrees(TrialId trial, bool ended) {
  const fs::path tree = store_.layout().WorkingTree(trial);
  const std::string own = tree.filename().string();
  for (const std::string& name : NamesIn(tree.parent_path())) {
    const bool unfinished = name == NewTree(own).string();
    const bool trash = name == own + std::string(kTrashSuffix);
    if (!unfinished && !trash && !(ended && name == own)) continue;
    Remove({.experiment = trial.experiment,
            .kind = name == own ? "files" : "leftover",
            .path = tree.parent_path() / name,
            .why = unfinished ? "is unfinished"
                   : trash    ? "its deletion was interrupted"
                              : "trial " + ToString(trial) +
                                 " used it and has ended"});
  }
}

// True if it has the checkpoints of a store of which this is a copy.
bool GarbageCollection::IsForeign(const std::string& storage) {
  if (storage.empty()) return false;
  const auto [at, first] = foreign_.try_emplace(storage);
  if (first)
    at->second = StorageOwnerProblem(store_, store_.StorageRoot(storage));
  return !at->second.empty();
}

// Storage directories that exist and belong to this user and store.
std::vector<std::string> GarbageCollection::OwnStorages() {
  std::vector<std::string> storages = store_.Storages();
  std::erase_if(storages, [&](const std::string& storage) {
    return !IsOwnDirectory(store_.StorageRoot(storage)) || IsForeign(storage);
  });
  return storages;
}

std::vector<std::string> GarbageCollection::PassedOver() const {
  std::vector<std::string> reasons;
  for (const auto& [storage, why] : foreign_) {
    if (!why.empty()) reasons.push_back(why);
  }
  return reasons;
}

void GarbageCollection::CollectDeleted() {
  CollectDeletedIn(store_.layout().Experiments());
  for (const std::string& storage : OwnStorages()) {
    CollectDeletedIn(store_.StorageRoot(storage));
  }
}

void GarbageCollection::CollectDeletedIn(const fs::path& root) {
  // Looked at before the rows: a directory comes after its row.
  const std::vector<std::string> names = NamesIn(root);
  const std::int64_t last = store_.LastExperimentId();
  std::set<std::int64_t> known;
  for (const ExperimentRow& row : store_.Experiments({.archived = true})) {
    known.insert(row.id);
  }
  for (const std::string& name : names) {
    const bool trash = name.ends_with(kTrashSuffix);
    const auto id = Number(trash ? std::string_view(name).substr(
                                       0, name.size() - kTrashSuffix.size())
                                 : std::string_view(name));
    if (!id || *id > last || (!trash && known.contains(*id))) continue;
    if (RunnerLock::Holder(root / name / "runner.lock")) continue;
    Remove({.experiment = *id,
            .kind = "leftover",
            .path = root / name,
            .why = "its experiment is deleted"});
  }
}

void GarbageCollection::CollectAbandoned() {
  for (const AbandonedFiles& files : FindAbandonedFiles(store_.layout())) {
    RemovePlaced(files.experiment);
    Remove(
        {.kind = "leftover", .path = files.directory, .why = kNeverRecorded});
  }
}

// Removes files of a `create` that was killed. The next experiment gets the
// same id, so the check runs inside the transaction that would record it.
void GarbageCollection::RemovePlaced(std::int64_t experiment) {
  const fs::path path = store_.layout().Experiment(experiment);
  const auto is_ours = [&] {
    return experiment > store_.LastExperimentId() &&
           fs::exists(fs::symlink_status(path));
  };
  if (experiment <= 0 || !is_ours()) return;
  const std::int64_t bytes = FreeableBytes(path);
  if (!dry_) {
    store_.Write([&](StoreWriter&) {
      if (is_ours()) RemovePlacedFiles(store_.layout(), experiment);
    });
  }
  removed_.push_back({.kind = "leftover",
                      .path = path,
                      .bytes = bytes,
                      .why = kNeverRecorded});
}

void GarbageCollection::Remove(Garbage garbage) {
  garbage.bytes = dry_ ? FreeableBytes(garbage.path) : RemoveTree(garbage.path);
  removed_.push_back(std::move(garbage));
}

}  // namespace dtrain
