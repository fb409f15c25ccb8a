#pragma once

#include <cstddef>
#include <span>

#include "engine/ranks/collective_call.h"

namespace dtrain {

/// Writes to `into` what `op` makes of the values of `sources`, each of which
/// has as many as `into`, from the first source to the last: for any element
/// ((source 0 op source 1) op source 2) … A minimum or maximum with a NaN is
/// NaN; sums and products of int64 wrap around. T: float, double, int64.
/// REQUIRES: at least two sources, none of which overlaps `into`.
template <typename T>
void Reduce(std::span<const T* const> sources, ReduceOp op, std::span<T> into);

}  // namespace dtrain
