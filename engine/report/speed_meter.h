#pragma once

#include <cstdint>
#include <deque>
#include <map>

#include "engine/base/clock.h"
#include "engine/run/reporter.h"

namespace dtrain {

/// How fast each running trial is, over the last few seconds. Pure.
class SpeedMeter {
 public:
  /// Takes in where the trials are; forgets those that do not run any more.
  void Update(const RunStatus& status, Duration now);

  /// Batches a second; 0 where it is not known yet.
  double BatchesPerSecond(TrialId trial) const;

 private:
  struct Sample {
    Duration time{0};
    std::int64_t batches = 0;
  };
  std::map<TrialId, std::deque<Sample>> samples_;
};

}  // namespace dtrain
