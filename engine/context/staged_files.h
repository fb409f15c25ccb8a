#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "engine/context/context_list.h"
#include "engine/context/working_tree.h"
#include "engine/os/file_lock.h"
#include "engine/store/layout.h"

namespace dtrain {

/// Files of an experiment that is about to be created. They are made before it
/// is recorded and moved to it in the transaction that records it.
/// Crash-safe: a recorded experiment always has all its files. Files that no
/// experiment got are removed by the destructor or, after a crash, by callers
/// of FindAbandonedFiles.
class StagedFiles {
 public:
  explicit StagedFiles(const StoreLayout& layout) : layout_(layout) {}
  StagedFiles(const StagedFiles&) = delete;
  StagedFiles& operator=(const StagedFiles&) = delete;
  ~StagedFiles();

  /// Copies a context, read-only, and writes its origin beside it. Throws as
  /// CopyContext.
  ContextManifest AddContext(const ContextList& list);
  /// Adds the checkpoint `uuid`, whose files are in `directory`, as the start
  /// of the trials: by hard links if possible, which need no space and survive
  /// the removal of the original. Throws Error(kNotFound) if it is missing.
  void AddSource(const std::string& uuid,
                 const std::filesystem::path& directory);

  /// Moves all files to `experiment` and replaces any left there by a crash;
  /// they are on the disk when this returns. Call it in the transaction that
  /// records the experiment. Throws Error(kStore).
  void Place(std::int64_t experiment);
  /// Reports that the experiment is recorded.
  void Keep() { kept_ = true; }
  /// Reports that the commit may or may not have succeeded. All files stay, for
  /// the experiment or as AbandonedFiles.
  void Leave() { left_ = true; }

 private:
  void MakeDirectory();

  const StoreLayout layout_;
  std::filesystem::path directory_;  // empty: nothing was added
  FileLock lock_;                    // shows that this process lives
  std::int64_t experiment_ = 0;      // that the files were moved to
  bool kept_ = false;
  bool left_ = false;
};

/// Lists the stored context of `experiment`, without files that trials wrote
/// there. Throws Error(kDamaged) unless the list has the recorded SHA-256,
/// `hash`.
ContextList ListStoredContext(const StoreLayout& layout,
                              std::int64_t experiment, const std::string& hash);

/// True for the name of a StagedFiles directory, beside those of experiments.
bool IsStaged(std::string_view name);

/// StagedFiles of a process that died.
struct AbandonedFiles {
  std::filesystem::path directory;
  /// Experiment that was being recorded, which may have some of the files; 0:
  /// none.
  std::int64_t experiment = 0;
};

/// Returns all AbandonedFiles in the store of `layout`.
std::vector<AbandonedFiles> FindAbandonedFiles(const StoreLayout& layout);

/// Removes the files that StagedFiles moved to `experiment`. REQUIRES: a write
/// transaction of the store, in which the experiment does not exist.
void RemovePlacedFiles(const StoreLayout& layout, std::int64_t experiment);

}  // namespace dtrain
