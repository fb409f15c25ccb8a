#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "engine/base/clock.h"

namespace dtrain {

/// The trials that want a process: those that wait for a slot, in the order of
/// their turns, and those that failed and wait a while before that, with or
/// without the slot that they had. Trials are known by number. Every call takes
/// O(log n).
class StartQueue {
 public:
  /// The trial waits for a slot from now on. Does nothing if it does already
  /// or was put off.
  void Add(std::int64_t turn, std::int64_t trial);
  /// The trial waits for a slot from `when` on. If it `keeps_slot`, `held`
  /// counts it until then. REQUIRES: it does not wait.
  void PutOff(Duration when, std::int64_t turn, std::int64_t trial,
              bool keeps_slot = false);
  /// Lets those wait for a slot that were put off until `now` at most.
  void Wake(Duration now);
  /// When `Wake` has something to do.
  std::optional<Duration> next_wake() const;

  /// Takes out the trial whose turn it is. REQUIRES: size() > 0.
  std::int64_t Pop();
  void Clear();

  /// How many wait for a slot; without those put off.
  std::size_t size() const { return waiting_.size(); }
  bool empty() const { return waiting_.empty() && later_.empty(); }
  /// Number of slots that are kept free for trials that were put off.
  std::size_t held() const { return held_.size(); }

 private:
  using Place = std::pair<std::int64_t, std::int64_t>;  // turn, trial

  std::set<Place> waiting_;
  std::multimap<Duration, Place> later_;
  std::set<std::int64_t> put_off_;  // the trials in `later_`
  std::set<std::int64_t> held_;     // those of them that keep their slot
};

}  // namespace dtrain
