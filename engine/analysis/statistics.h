#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
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

/// Pearson's correlation of x and y, from -1 to 1; that of their ranks is
/// Spearman's. Empty if one of the two is constant. REQUIRES: x and y have one
/// size, at least 2; their numbers are finite.
std::optional<double> LinearCorrelation(std::span<const double> x,
                                        std::span<const double> y);

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
  double epochs = 0;  // that the trial had trained
};

/// Effort of a search up to a moment.
enum class Effort {
  kTrials,   // trials that have reported a value
  kBatches,  // batches that all trials together have trained
  kEpochs,   // epochs that all trials together have trained
  kSeconds,  // seconds since `start`
};

/// The effort of the search at each observation. REQUIRES: `observations` are
/// in the order of their times.
std::vector<double> ComputeEfforts(std::span<const Observation> observations,
                                   Effort effort, Timestamp start);

/// The best value found so far against the effort: one point per improvement
/// and a last one at the full effort. Values that are not finite are never
/// best; they count as effort only. REQUIRES: `observations` are in the order
/// of their times.
std::vector<CurvePoint> BestSoFar(std::span<const Observation> observations,
                                  Effort effort, Timestamp start,
                                  bool smaller_is_better);

/// Replaces the y of each point by the exponential moving average of those so
/// far, corrected for its bias to 0 (Kingma and Ba, 2015). Values that are not
/// finite stay and do not count. REQUIRES: 0 <= weight < 1.
void Smooth(double weight, std::vector<CurvePoint>& points);

/// Limits of an axis, and the numbers of values outside.
struct RobustLimits {
  double low = 0;
  double high = 0;
  std::size_t below = 0;
  std::size_t above = 0;
};

/// Returns limits without outliers: values beyond three interquartile ranges
/// from the quartiles (Tukey, "Some Graphic and Semigraphic Displays", 1972),
/// with a margin of 3 %. Empty if there are fewer than 5 finite values, or if
/// the others would fill a third of the axis or more even with the outliers.
/// `lows` and `highs` are the least and greatest value of each curve, or both
/// the values of points. Those that are not finite are left out.
std::optional<RobustLimits> FindRobustLimits(std::vector<double> lows,
                                             std::vector<double> highs);

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

/// The median of several curves, at the places of their points, or at 200 even
/// ones if there are more: of those curves that have a finite value there, with
/// straight lines between their points. Places that only one curve reaches are
/// left out. REQUIRES: ascending x.
std::vector<CurvePoint> MedianCurve(
    std::span<const std::vector<CurvePoint>> curves);

/// A place of several curves, and what they have there.
struct MeanPoint {
  double x = 0;
  double mean = 0;
  double deviation = 0;  // standard deviation of a sample: n - 1
  std::size_t count = 0;

  friend auto operator<=>(const MeanPoint&, const MeanPoint&) = default;
};

/// Mean and standard deviation of several curves, at the places of MedianCurve.
std::vector<MeanPoint> MeanCurve(
    std::span<const std::vector<CurvePoint>> curves);

/// A part of a line, of time for example.
struct Span {
  double begin = 0;
  double end = 0;
};

/// Splits times at the longest gaps between them into at most `parts` spans, in
/// their order: the periods of activity of something that paused. REQUIRES: no
/// NaN.
std::vector<Span> SplitAtGaps(std::vector<double> times, std::size_t parts);

/// When each run of a trial's process was active, collected from its reports.
class RunTimes {
 public:
  /// Adds the time of a report. `run`: of the trial, from 1; 0: unknown.
  /// REQUIRES: no NaN.
  void Add(double time, std::int64_t run);

  /// True if runs of reports are unknown, or known.
  bool has_unknown() const { return !unknown_.empty(); }
  bool has_known() const { return !known_.empty(); }

  /// Returns a span for each run that reported, in the order of time. Reports
  /// of unknown runs are split at their longest gaps, into as many of `runs` as
  /// remain.
  std::vector<Span> Spans(std::int64_t runs) const;

 private:
  std::map<std::int64_t, Span> known_;
  std::vector<double> unknown_;
};

/// Returns a lane of each span, from 0: spans in one lane do not overlap. Uses
/// as few lanes as possible and prefers low ones. REQUIRES: begin <= end, no
/// NaN.
std::vector<std::size_t> PackLanes(std::span<const Span> spans);

/// Number of trials that completed a rung of a search, by what they did next.
struct RungCount {
  std::size_t went_on = 0;    // completed the next rung
  std::size_t completed = 0;  // had no other: trained as long as they were to
  std::size_t ended = 0;      // ended before they completed the next one
  std::size_t open = 0;       // have neither ended nor completed the next one

  std::size_t reached() const { return went_on + completed + ended + open; }
};

/// A trial's place in the rungs.
struct RungProgress {
  enum class End { kOpen, kEnded, kCompleted };
  std::size_t completed = 0;  // rungs
  End end = End::kOpen;
};

/// Counts by rung; [0] counts all trials, [i] those that completed i rungs.
std::vector<RungCount> CountRungs(std::span<const RungProgress> trials);

/// A value known at a place of the unit square.
struct FieldSample {
  double x = 0;
  double y = 0;
  double value = 0;
};

/// An axis of a field, from 0 to 1, in equal cells.
struct FieldAxis {
  std::size_t cells = 1;
  // Cells are categories: a sample says nothing about other cells.
  bool categories = false;
};

/// Estimates a field in the middle of each cell: [row * x.cells + column], rows
/// from the bottom. The estimate is the mean of the samples' values, weighted
/// by the inverse square of their distances (Shepard, 1968), which count as at
/// least 0.05 so that single samples are smoothed. NaN where no sample is
/// nearer than 0.15, so that no value is made up.
std::vector<double> EstimateField(std::span<const FieldSample> samples,
                                  FieldAxis x, FieldAxis y);

/// Reduces a curve to at most four points a column, with the range of x split
/// into `columns` equal parts: the first, the lowest, the highest and the last
/// point of each, so that a drawing `columns` pixels wide looks the same.
/// Curves that are short enough are returned as they are; points that are not
/// finite are kept only in those. REQUIRES: ascending x; columns > 0.
std::vector<CurvePoint> Decimate(std::vector<CurvePoint> curve,
                                 std::size_t columns);
/// Indices of the points that Decimate keeps, ascending.
std::vector<std::size_t> DecimatedPoints(std::span<const CurvePoint> curve,
                                         std::size_t columns);

}  // namespace dtrain
