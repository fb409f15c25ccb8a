#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/base/api.h"

namespace dtrain {

/// Deals `samples` samples out at random into one subset for each fraction,
/// each in ascending order and no sample in two. A subset has
/// floor(fraction · samples) of them, and one more where that leaves some over,
/// the first subsets before the last. The same split for the same `seed`.
/// Throws Error(kFailed) if there is no fraction, if one is not above 0, if
/// they do not sum to 1 (to 1e-6), or if a subset would be empty.
DTRAIN_API std::vector<std::vector<std::int64_t>> RandomSplit(
    std::int64_t samples, std::span<const double> fractions,
    std::uint32_t seed);

}  // namespace dtrain
