#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <thread>

namespace dtrain {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

/// Factor by which time limits for an idle machine are extended here: the
/// number of runnable processes per core, at least 2, and ten times that under
/// a sanitizer.
inline double Slowness() {
  double load = 0;
  ::getloadavg(&load, 1);
  const double share = load / std::max(1U, std::thread::hardware_concurrency());
  return std::max(2.0, 2 * share) * (kSanitized ? 10 : 1);
}

/// Extends a limit on wall time that is meant for an idle machine. The average
/// load lags behind, and a disk may stall everything for seconds: hence the
/// constant part.
inline std::chrono::nanoseconds Patient(std::chrono::nanoseconds limit) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(limit *
                                                              Slowness()) +
         std::chrono::seconds(3);
}
inline double PatientSeconds(double limit) {
  const std::chrono::duration<double> patient =
      Patient(std::chrono::nanoseconds(static_cast<std::int64_t>(limit * 1e9)));
  return patient.count();
}

/// True if one of five calls takes less than `limit`, or ten times that under a
/// sanitizer, for limits close to what the test is to tell apart: a fault makes
/// every call slow, a busy machine hardly all of them.
template <typename Call>
bool IsOnceFasterThan(std::chrono::nanoseconds limit, const Call& call) {
  if (kSanitized) limit *= 10;
  for (int i = 0; i < 5; ++i) {
    const auto start = std::chrono::steady_clock::now();
    call();
    if (std::chrono::steady_clock::now() - start < limit) return true;
  }
  return false;
}

/// Returns the CPU time that this process has used. Other processes do not
/// advance it, so limits on it hold on a busy machine, too.
inline std::chrono::nanoseconds CpuTime() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) +
         std::chrono::nanoseconds(time.tv_nsec);
}

}  // namespace dtrain
