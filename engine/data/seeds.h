#pragma once

#include <cstdint>

#include "engine/base/rng.h"

namespace dtrain {

/// Seed for everything random in one pass over a set, equal on all ranks.
constexpr std::uint64_t PassSeed(std::uint32_t seed, std::int64_t pass) {
  return SplitMix64(SplitMix64(std::uint64_t{seed} << 32) ^
                    static_cast<std::uint64_t>(pass));
}

/// Seed of one sample in that pass, whatever its rank and batch.
constexpr std::uint64_t SampleSeed(std::uint64_t pass_seed,
                                   std::int64_t sample) {
  return SplitMix64(pass_seed + static_cast<std::uint64_t>(sample));
}

}  // namespace dtrain
