#pragma once

#include <map>
#include <optional>
#include <set>
#include <utility>

#include "engine/base/clock.h"

namespace dtrain {

/// Times at which something is due, one for each key. `Set` and `Pop` take
/// O(log n).
template <typename Key>
class Deadlines {
 public:
  /// Sets or replaces the time of `key`; none removes it.
  void Set(const Key& key, std::optional<Duration> time) {
    const auto found = times_.find(key);
    if (found != times_.end()) {
      if (found->second == time) return;
      order_.erase({found->second, key});
      times_.erase(found);
    }
    if (!time) return;
    times_.emplace(key, *time);
    order_.emplace(*time, key);
  }

  /// The earliest time; none if nothing is due.
  std::optional<Duration> next() const {
    if (order_.empty()) return std::nullopt;
    return order_.begin()->first;
  }

  /// Removes the key with the earliest time and returns it, if that time has
  /// come.
  [[nodiscard]] std::optional<Key> Pop(Duration now) {
    if (order_.empty() || order_.begin()->first > now) return std::nullopt;
    Key key = order_.begin()->second;
    Set(key, std::nullopt);
    return key;
  }

 private:
  std::map<Key, Duration> times_;
  std::set<std::pair<Duration, Key>> order_;
};

}  // namespace dtrain
