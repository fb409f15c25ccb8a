#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "engine/base/rng.h"

namespace dtrain {

/// Fills `order` with the numbers from 0 on in random order: as
/// numpy.random.RandomState.shuffle does with range(n).
inline void ShuffledRange(std::span<std::int64_t> order, Rng& rng) {
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t left = order.size(); left > 1; --left) {
    std::swap(order[left - 1], order[rng.Below(left)]);
  }
}

/// The same through a buffer of `size` numbers: the next one is any that is in
/// the buffer, and the next number of the range takes its place, while there is
/// one.
inline void BufferShuffledRange(std::span<std::int64_t> order,
                                std::int64_t size, Rng& rng) {
  const auto count = static_cast<std::int64_t>(order.size());
  std::vector<std::int64_t> buffer(
      static_cast<std::size_t>(std::min(size, count)));
  std::iota(buffer.begin(), buffer.end(), 0);
  auto next = static_cast<std::int64_t>(buffer.size());
  for (std::int64_t& number : order) {
    std::int64_t& taken = buffer[rng.Below(buffer.size())];
    number = taken;
    if (next < count) {
      taken = next++;
    } else {
      taken = buffer.back();
      buffer.pop_back();
    }
  }
}

}  // namespace dtrain
