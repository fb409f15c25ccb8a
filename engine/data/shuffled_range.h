#pragma once

#include <cstdint>
#include <numeric>
#include <span>
#include <utility>

#include "searchers/rng.h"

namespace dtrain {

/// Fills `order` with the numbers from 0 on in random order: as
/// numpy.random.RandomState.shuffle does with range(n).
inline void ShuffledRange(std::span<std::int64_t> order, Rng& rng) {
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t left = order.size(); left > 1; --left) {
    std::swap(order[left - 1], order[rng.Below(left)]);
  }
}

}  // namespace dtrain
