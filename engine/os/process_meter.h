#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <dirent.h>

#include "engine/os/process.h"

namespace dtrain {

/// Resources that a group of processes has used since its processes began, as
/// far as the kernel still counts them: a sum can be lower than the one before
/// if a child has ended whose parent does not wait for children.
struct ProcessUse {
  std::int64_t processes = 0;  // without zombies
  double cpu_seconds = 0;      // of them and the ended children they waited for
  std::int64_t memory_bytes = 0;          // sum of the resident sets
  std::optional<std::int64_t> pss_bytes;  // sum of the proportional sets
  // From and to storage, likewise with ended children; missing if not allowed
  // to read them.
  std::optional<std::int64_t> read_bytes;
  std::optional<std::int64_t> written_bytes;
};

/// Reads from /proc what groups of processes use. A group has roots, and all
/// processes of their sessions or that descend from them. A process that
/// belongs to no group is looked at once, so that the cost depends on the
/// groups more than on the machine. One thread.
class ProcessMeter {
 public:
  /// `proc` is where /proc is mounted. It is kept open.
  explicit ProcessMeter(const std::string& proc = "/proc");

  void Add(std::int64_t group, const std::vector<std::int64_t>& roots);
  void Remove(std::int64_t group);
  /// Returns the use of each group. `thorough`: with proportional sets, which
  /// take the kernel milliseconds for a large process, and looking again at the
  /// processes that belonged to no group, since numbers are reused.
  std::map<std::int64_t, ProcessUse> Read(bool thorough);

 private:
  struct Entry {
    Process process;
    std::optional<std::int64_t> group;
  };

  void ReadEntries();
  void Classify();
  const Entry* Find(std::int64_t pid) const;
  std::optional<std::int64_t> FindGroup(const Process& process) const;
  void AddUse(const Process& process, bool thorough, ProcessUse& use);
  std::string_view ReadText(std::int64_t pid, const char* name);

  std::unique_ptr<DIR, int (*)(DIR*)> directory_;  // null: not readable
  std::map<std::int64_t, std::int64_t> roots_;     // to their groups
  // Those that belong to no group, and those that may; both by pid.
  std::vector<std::int64_t> others_;
  std::vector<Entry> entries_;
  std::array<char, 4096> buffer_{};
};

}  // namespace dtrain
