#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "engine/store/rows.h"

namespace dtrain {

class Store;

/// A file or directory that was removed, or would be removed in a dry run.
struct Garbage {
  std::int64_t experiment = 0;  // 0: none has it
  std::string kind;             // "checkpoint", "files" or "leftover"
  std::filesystem::path path;
  std::int64_t bytes = 0;
  std::string why;
};

/// Removes unreferenced files from a store: checkpoints of ended experiments
/// that the configuration does not keep, files that commands wrote where they
/// ran, and leftovers of crashes. Leaves alone every experiment that has a
/// runner. A dry collection only reports.
class GarbageCollection {
 public:
  GarbageCollection(Store& store, bool dry) : store_(store), dry_(dry) {}

  /// Returns false, and removes nothing, if a runner or a trial is alive.
  [[nodiscard]] bool Collect(const ExperimentRow& experiment);
  /// Removes directories of deleted experiments. One whose id this database
  /// never assigned belongs to another database, and stays.
  void CollectDeleted();

  /// Removes files of experiments whose `create` died before it recorded them.
  void CollectAbandoned();

  const std::vector<Garbage>& removed() const { return removed_; }
  /// Reasons for which directories of checkpoint_storage were left alone: they
  /// belong to another store.
  std::vector<std::string> PassedOver() const;

 private:
  void ApplyPolicy(const ExperimentRow& experiment);
  void RemoveLeftovers(std::int64_t experiment, bool ended);
  void RemoveTrash(std::int64_t experiment,
                   const std::filesystem::path& directory);
  /// Removes the working trees of a trial that ran a command.
  void RemoveTrees(TrialId trial, bool ended);
  void RemoveLeftoversIn(const std::filesystem::path& directory,
                         std::int64_t experiment,
                         const std::vector<CheckpointRow>& checkpoints);
  bool IsForeign(const std::string& storage);
  std::vector<std::string> OwnStorages();
  void CollectDeletedIn(const std::filesystem::path& root);
  void RemovePlaced(std::int64_t experiment);
  void Remove(Garbage garbage);

  Store& store_;
  bool dry_;
  std::vector<Garbage> removed_;
  std::map<std::string, std::string>
      foreign_;  // storage to StorageOwnerProblem
};

}  // namespace dtrain
