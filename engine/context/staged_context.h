#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/unique_fd.h"
#include "engine/context/context_list.h"
#include "engine/context/context_manifest.h"
#include "engine/store/layout.h"

namespace dtrain {

/// A copy of a context in a store that no experiment has yet. It is made before
/// the experiment is recorded and given to it while that is done, so whatever
/// dies when, an experiment that is recorded has the whole of its context. What
/// is given to nobody goes away with this object or, after a crash, by
/// whoever asks for AbandonedContexts.
class StagedContext {
 public:
  /// Copies. Throws as CopyContext.
  StagedContext(const StoreLayout& layout, const ContextList& list);
  StagedContext(const StagedContext&) = delete;
  StagedContext& operator=(const StagedContext&) = delete;
  ~StagedContext();

  /// Makes it the context of `experiment`, in the place of what a crash may
  /// have left there; it is on the disk when this returns. To be called while
  /// the experiment is being recorded. Throws Error(kStore).
  void Place(std::int64_t experiment);
  /// The experiment is recorded.
  void Keep() { kept_ = true; }

  const ContextManifest& manifest() const { return manifest_; }

 private:
  const StoreLayout layout_;
  std::filesystem::path directory_;
  UniqueFd lock_;  // its maker lives
  ContextManifest manifest_;
  std::int64_t experiment_ = 0;  // has it now
  bool kept_ = false;
};

/// Removes what a crash may have left as the context of an experiment that is
/// recorded only now. Throws Error(kFailed) naming what could not go.
void RemoveContext(const StoreLayout& layout, std::int64_t experiment);

/// The files that are stored of `experiment`'s context, those that trials
/// wrote there left out. Throws Error(kDamaged) unless the list of them has the
/// SHA-256 `hash`, as it was recorded.
ContextList ListStoredContext(const StoreLayout& layout,
                              std::int64_t experiment, const std::string& hash);

/// Whether an entry beside the experiments is named as such a copy.
bool IsStagedContext(std::string_view name);

/// Copies in the store of `layout` that belong to nobody: their maker died.
std::vector<std::filesystem::path> AbandonedContexts(const StoreLayout& layout);

}  // namespace dtrain
