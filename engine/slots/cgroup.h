#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace dtrain {

/// Returns the directories of this process's control groups for `controller`
/// ("cpu", "memory"), its own first and then the parents, of version 1 and 2;
/// empty if none is visible. `proc` is where /proc is mounted.
std::vector<std::filesystem::path> CgroupDirectories(
    const std::string& controller, const std::filesystem::path& proc = "/proc");

/// Returns the CPUs that a control group (version 1 or 2) may use at a time,
/// rounded up, or none if it is not limited.
std::optional<std::int64_t> CpuLimit(const std::filesystem::path& cgroup);

/// Counts the processes that the kernel killed because memory ran out.
class OutOfMemoryCounter {
 public:
  /// Reads the counter of the nearest control group that has one, else that of
  /// the whole machine. `proc` is where /proc is mounted.
  explicit OutOfMemoryCounter(const std::filesystem::path& proc = "/proc");

  /// Returns the number of processes killed so far; 0 if unknown.
  std::int64_t Read() const;

 private:
  std::filesystem::path file_;  // with a line "oom_kill N"
};

}  // namespace dtrain
