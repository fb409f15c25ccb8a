#pragma once

#include <filesystem>

#include "engine/fetch/download.h"
#include "engine/os/unique_fd.h"

namespace dtrain {

/// The right to fetch one set into one directory: an exclusive flock on a file
/// there, freed by the kernel when its holder dies.
class FetchLock {
 public:
  /// Throws Error(kFailed) if `path` cannot be opened.
  explicit FetchLock(std::filesystem::path path);

  /// How the lock was got.
  enum class Got { kAtOnce, kAfterWaiting, kNot };
  /// Waits as long as another holds it, and says so. kNot: the listener stopped
  /// it.
  [[nodiscard]] Got Acquire(const FetchListener& listener);

 private:
  bool Try() const;

  std::filesystem::path path_;
  UniqueFd file_;
};

}  // namespace dtrain
