#pragma once

#include <chrono>
#include <functional>

namespace dtrain {

/// Wall-clock time as microseconds since 1970-01-01 UTC: what is recorded.
using Timestamp = std::chrono::microseconds;

/// Monotonic time since an arbitrary origin: what durations are taken from, so
/// that a clock that jumps makes no timeout.
using Duration = std::chrono::nanoseconds;

/// The only door to time. Pure code is handed values, never a Clock; whoever
/// needs one takes it by value, and a test gives its own two functions.
struct Clock {
  std::function<Timestamp()> now;
  std::function<Duration()> monotonic;

  /// The clocks of this machine.
  static Clock System();
};

}  // namespace dtrain
