#pragma once

#include <cstdint>

namespace dtrain {

/// One step of splitmix64 (Steele, Lea and Flood, 2014): spreads the bits of
/// `value` so that neighbours have nothing in common.
constexpr std::uint64_t SpreadBits(std::uint64_t value) {
  value += 0x9E3779B97F4A7C15;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EB;
  return value ^ (value >> 31);
}

}  // namespace dtrain
