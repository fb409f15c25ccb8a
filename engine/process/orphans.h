#pragma once

#include <cstdint>
#include <map>
#include <set>

#include "engine/base/clock.h"

namespace dtrain {

/// Ends what dead trials leave behind. A trial adopts what its processes set
/// loose, and this process adopts it when the trial dies; so every child that
/// it did not make itself is such an orphan, or the child of one. One thread,
/// one object in a process.
class Orphans {
 public:
  /// Makes this process adopt orphans. The children that it has already are
  /// none.
  explicit Orphans(Clock clock);

  /// Kills and reaps every child but those named; true if there is none left.
  /// One that does not die (it hangs in the kernel) is given up after a while.
  [[nodiscard]] bool Sweep(const std::set<std::int64_t>& others);

 private:
  Clock clock_;
  std::set<std::int64_t> known_;
  std::map<std::int64_t, Duration> killed_at_;  // by pid, for those not dead
};

}  // namespace dtrain
