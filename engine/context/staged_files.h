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

/// Files of an experiment that is not there yet. They are made before it is
/// recorded and given to it while that is done, so whatever dies when, an
/// experiment that is recorded has all of them. What is given to nobody goes
/// away with this object or, after a crash, by who asks FindAbandonedFiles.
class StagedFiles {
 public:
  explicit StagedFiles(const StoreLayout& layout) : layout_(layout) {}
  StagedFiles(const StagedFiles&) = delete;
  StagedFiles& operator=(const StagedFiles&) = delete;
  ~StagedFiles();

  /// Copies a context, read-only. Throws as CopyContext.
  ContextManifest AddContext(const ContextList& list);
  /// Adds the checkpoint `uuid`, whose files are in `directory`, for its trials
  /// to begin from: by hard links where they can be had, so that it takes no
  /// room, and stays whatever becomes of where it was. Throws Error(kNotFound)
  /// if it is gone.
  void AddSource(const std::string& uuid,
                 const std::filesystem::path& directory);

  /// Gives all of it to `experiment`, in the place of what a crash may have
  /// left there; it is on the disk when this returns. To be called while the
  /// experiment is being recorded. Throws Error(kStore).
  void Place(std::int64_t experiment);
  /// The experiment is recorded.
  void Keep() { kept_ = true; }
  /// Whether it is recorded, nobody knows yet: its commit failed half way.
  /// Everything stays, for the experiment or as AbandonedFiles.
  void Leave() { left_ = true; }

 private:
  void MakeDirectory();

  const StoreLayout layout_;
  std::filesystem::path directory_;  // empty: nothing was added
  FileLock lock_;                    // its maker lives
  std::int64_t experiment_ = 0;      // has them now
  bool kept_ = false;
  bool left_ = false;
};

/// The files that are stored of `experiment`'s context, those that trials
/// wrote there left out. Throws Error(kDamaged) unless the list of them has the
/// SHA-256 `hash`, as it was recorded.
ContextList ListStoredContext(const StoreLayout& layout,
                              std::int64_t experiment, const std::string& hash);

/// Whether an entry beside the experiments is named as StagedFiles are.
bool IsStaged(std::string_view name);

/// StagedFiles whose maker died.
struct AbandonedFiles {
  std::filesystem::path directory;
  /// The experiment that was being recorded, which may have some of them: 0:
  /// none.
  std::int64_t experiment = 0;
};

/// All in the store of `layout`.
std::vector<AbandonedFiles> FindAbandonedFiles(const StoreLayout& layout);

/// Removes what StagedFiles gave to `experiment`, which must not be in the
/// record and not be recorded meanwhile: in a write transaction of the store.
void RemovePlacedFiles(const StoreLayout& layout, std::int64_t experiment);

}  // namespace dtrain
