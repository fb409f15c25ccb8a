#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace dtrain {

/// The directories of this process's control groups for `controller` ("cpu",
/// "memory"), its own first and then those above it, in version 1 and 2. Empty
/// where none can be seen. `proc` is where /proc is mounted.
std::vector<std::filesystem::path> CgroupDirectories(
    const std::string& controller, const std::filesystem::path& proc = "/proc");

/// The CPUs that one control group may use at a time, rounded up, or none if
/// it is not limited. Version 1 or 2.
std::optional<std::int64_t> CpuLimit(const std::filesystem::path& cgroup);

/// Tells whether the kernel has killed a process for want of memory.
class OutOfMemoryCounter {
 public:
  /// Counts in the nearest control group of this process that counts, else on
  /// the whole machine. `proc` is where /proc is mounted.
  explicit OutOfMemoryCounter(const std::filesystem::path& proc = "/proc");

  /// How many processes were killed so far; 0 where that cannot be known.
  std::int64_t Read() const;

 private:
  std::filesystem::path file_;  // has a line "oom_kill N"
};

}  // namespace dtrain
