#pragma once

#include <chrono>
#include <functional>

namespace dtrain {

/// Wall-clock time for records: microseconds since 1970-01-01 UTC.
using Timestamp = std::chrono::microseconds;

/// Monotonic time since an arbitrary origin. Durations and timeouts use it, so
/// that a change of the wall clock does not affect them.
using Duration = std::chrono::nanoseconds;

/// The only source of time. Pure code gets time values, never a Clock. Other
/// code takes a Clock by value, and tests pass two functions of their own.
struct Clock {
  std::function<Timestamp()> now;
  std::function<Duration()> monotonic;

  /// The clocks of this machine.
  static Clock System();
};

}  // namespace dtrain
