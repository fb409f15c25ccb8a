#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "engine/base/clock.h"

// Pure functions from recorded values to the numbers that tables and plots
// show.

namespace dtrain {

/// A point of a curve, x and y.
using CurvePoint = std::pair<double, double>;

/// Ranks of the values, from 1 for the smallest; equal values share the mean of
/// their ranks. REQUIRES: no value is NaN.
std::vector<double> Ranks(std::span<const double> values);

/// Spearman's rank correlation of x and y, from -1 to 1. Pairs in which one of
/// the two is not a finite number are left out. Empty if fewer than two pairs
/// remain or if one of the two is constant. REQUIRES: x and y have one size.
std::optional<double> RankCorrelation(std::span<const double> x,
                                      std::span<const double> y);

/// A validation, as the search saw it.
struct Observation {
  Timestamp time{0};
  std::int64_t trial = 0;
  std::int64_t batches = 0;  // that the trial had trained
  double value = 0;
};

/// Effort of a search up to a moment.
enum class Effort {
  kTrials,   // trials that have reported a value
  kBatches,  // batches that all trials together have trained
  kSeconds,  // seconds since `start`
};

/// The best value found so far against the effort: one point per improvement
/// and a last one at the full effort. Values that are NaN count as effort only.
/// REQUIRES: `observations` are in the order of their times.
std::vector<CurvePoint> BestSoFar(std::span<const Observation> observations,
                                  Effort effort, Timestamp start,
                                  bool smaller_is_better);

/// The empirical distribution function: for each distinct value, ascending, the
/// share of values that are at most as large. NaN is left out.
std::vector<CurvePoint> EmpiricalDistribution(std::vector<double> values);

/// Indices of the points that no other point dominates, ascending. A point
/// dominates another if it is at least as good in every metric and better in
/// one; so of equal points all are in the front. Points with a NaN are left
/// out. REQUIRES: every point has smaller_is_better.size() values.
std::vector<std::size_t> ParetoFront(
    std::span<const std::vector<double>> points,
    const std::vector<bool>& smaller_is_better);

/// Reduces a curve to at most four points a column, with the range of x split
/// into `columns` equal parts: the first, the lowest, the highest and the last
/// point of each, so that a drawing `columns` pixels wide looks the same.
/// Curves that are short enough are returned as they are; points that are not
/// finite are kept only in those. REQUIRES: ascending x; columns > 0.
std::vector<CurvePoint> Decimate(std::vector<CurvePoint> curve,
                                 std::size_t columns);

}  // namespace dtrain
