#pragma once

#include <chrono>
#include <ctime>

namespace dtrain {

/// The CPU time that this process has used. Unlike a clock it stands still
/// while other processes run, so a limit on it holds on a busy machine, too.
inline std::chrono::nanoseconds CpuTime() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) +
         std::chrono::nanoseconds(time.tv_nsec);
}

}  // namespace dtrain
