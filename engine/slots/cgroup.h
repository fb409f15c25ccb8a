#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace dtrain {

/// The directories of this process's control groups for `controller` ("cpu",
/// "memory"), its own first and then those above it, in version 1 and 2. Empty
/// where none can be seen.
std::vector<std::filesystem::path> CgroupDirectories(
    const std::string& controller);

/// The CPUs that one control group may use at a time, rounded up, or none if
/// it is not limited. Version 1 or 2.
std::optional<std::int64_t> CpuLimit(const std::filesystem::path& cgroup);

/// Tells whether the kernel has killed a process for want of memory.
class OutOfMemoryCounter {
 public:
  /// Counts by the files given, which have lines "oom_kill N". By default those
  /// of this process's control group, else the whole machine's.
  OutOfMemoryCounter();
  explicit OutOfMemoryCounter(std::vector<std::filesystem::path> files)
      : files_(std::move(files)) {}

  /// How many processes were killed so far; 0 where that cannot be known.
  std::int64_t Read() const;

 private:
  std::vector<std::filesystem::path> files_;
};

}  // namespace dtrain
