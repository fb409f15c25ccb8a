#pragma once

#include <map>
#include <string>

#include "engine/os/unique_fd.h"
#include "engine/slots/slot_directory.h"

namespace dtrain {

/// The slot files that a runner has opened to see whether it can lock them.
/// Those of others, and those that were its own in vain, stay open: closing
/// one would wake everyone who waits. REQUIRES: the queue is locked. One
/// thread.
class SlotFiles {
 public:
  /// Whether nobody else may hold the lock, or only nobody who wants it alone.
  enum class Hold { kAlone, kShared };

  explicit SlotFiles(const SlotDirectory& directory) : directory_(directory) {}

  /// Locks the file `name` if that is possible; never waits. Throws
  /// Error(kResources) if it cannot be opened.
  [[nodiscard]] bool TryLock(const std::string& name, Hold hold = Hold::kAlone);
  void Unlock(const std::string& name);
  /// Gives the lock away. REQUIRES: TryLock(name) was true.
  UniqueFd Take(const std::string& name);

 private:
  const SlotDirectory& directory_;
  std::map<std::string, UniqueFd> files_;
};

}  // namespace dtrain
