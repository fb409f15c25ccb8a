#include "engine/base/clock.h"

namespace dtrain {

Clock Clock::System() {
  return {
      .now =
          [] {
            return std::chrono::duration_cast<Timestamp>(
                std::chrono::system_clock::now().time_since_epoch());
          },
      .monotonic =
          [] {
            return std::chrono::duration_cast<Duration>(
                std::chrono::steady_clock::now().time_since_epoch());
          },
  };
}

}  // namespace dtrain
