#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "engine/store/store.h"

namespace dtrain {

/// One thing that a collection removes, or would.
struct Garbage {
  std::int64_t experiment = 0;  // 0: none has it
  std::string kind;             // "checkpoint", "files" or "leftover"
  std::filesystem::path path;
  std::int64_t bytes = 0;
  std::string why;
};

/// Removes from a store what nobody needs, and nothing of an experiment that
/// has a runner: checkpoints of ended experiments that the configuration does
/// not keep, files that their commands wrote where they ran, and what crashes
/// left. Where it is dry it only tells.
class GarbageCollection {
 public:
  GarbageCollection(Store& store, bool dry) : store_(store), dry_(dry) {}

  /// False, with nothing done, where a runner or a trial is still at work.
  [[nodiscard]] bool Collect(const ExperimentRow& experiment);
  /// Directories of experiments that were deleted. One whose id was never given
  /// out by this database belongs to another one, and stays.
  void CollectDeleted();

  /// Files of experiments that were never recorded, whose maker died.
  void CollectAbandoned();

  const std::vector<Garbage>& removed() const { return removed_; }
  /// Why it left directories of checkpoint_storage alone: they have those of
  /// another store.
  std::vector<std::string> PassedOver() const;

 private:
  void ApplyPolicy(const ExperimentRow& experiment);
  void RemoveLeftovers(std::int64_t experiment, bool ended);
  void RemoveTrash(std::int64_t experiment,
                   const std::filesystem::path& directory);
  // Removes the working trees of a trial that ran a command.
  void RemoveTreesOf(TrialId trial, bool ended);
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
  std::map<std::string, std::string> foreign_;  // storage to WhyNotOurs
};

}  // namespace dtrain
