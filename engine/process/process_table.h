#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace dtrain {

/// A process as /proc shows it. `pid` and `start_ticks` together name it for
/// as long as the machine is up.
struct Process {
  std::int64_t pid = 0;
  std::int64_t parent = 0;
  std::int64_t session = 0;
  std::int64_t start_ticks = 0;  // field 22 of /proc/PID/stat
  bool zombie = false;           // dead, but nobody has reaped it
};

/// All processes, zombies among them. One that ends meanwhile may be missing.
std::vector<Process> ReadProcesses();

/// One process, or none if there is none of that number.
std::optional<Process> ReadProcess(std::int64_t pid);

/// Whether the process was executed (or forked from one that was) with
/// `assignment`, "NAME=value", in its environment. False if it may not be read.
bool WasStartedWith(std::int64_t pid, std::string_view assignment);

}  // namespace dtrain
