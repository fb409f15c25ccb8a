#pragma once

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>

namespace dtrain {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

/// How often longer than on an idle machine something may take here: as often
/// as there are processes for each core, and ten times that under a sanitizer.
inline double Slowness() {
  double load = 0;
  ::getloadavg(&load, 1);
  const double share = load / std::max(1U, std::thread::hardware_concurrency());
  return std::max(2.0, 2 * share) * (kSanitized ? 10 : 1);
}

/// A limit on a clock's time, which is meant for an idle machine, as it is to
/// be here.
inline std::chrono::nanoseconds Patient(std::chrono::nanoseconds limit) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(limit *
                                                              Slowness());
}

}  // namespace dtrain
