// Statistics of trials and curves, as pure functions: ranks and correlations,
// progress of the best value, smoothing, medians, Pareto fronts, packing of
// time spans, fields for contours, and reduction of curves.
//
// Values that are NaN are left out; a result that needs more values than there
// are is absent or NaN, never 0. "Better" is decided by RankKey
// (engine/base/metric_order.h), by which smaller keys are better in both
// directions.
//
// Functions that see all trials or points must be fast: the page and the plots
// call them with 10,000 trials and millions of points. MedianCurve and
// MeanCurve evaluate at 200 places at most, the Pareto front compares only with
// its members.

#include "engine/analysis/statistics.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <set>

#include "engine/base/metric_order.h"

namespace dtrain {

namespace {

using KeyedIndex = std::pair<std::uint64_t, std::size_t>;

// Maps numbers to integers in the same order; 0 and -0 are equal.
std::uint64_t OrderedBits(double value) {
  constexpr std::uint64_t kSign = std::uint64_t{1} << 63;
  const auto bits = std::bit_cast<std::uint64_t>(value + 0.0);
  return (bits & kSign) != 0 ? ~bits : bits | kSign;
}

// Sorts by the key, byte by byte from the lowest one (a radix sort): for 10,000
// trials four times as fast as comparisons, which an importance has to do for
// each hyperparameter.
void SortByKey(std::vector<KeyedIndex>& entries) {
  std::vector<KeyedIndex> sorted(entries.size());
  for (int shift = 0; shift < 64; shift += 8) {
    const auto digit = [&](const KeyedIndex& entry) {
      return static_cast<std::size_t>(entry.first >> shift & 0xff);
    };
    std::array<std::size_t, 257> starts{};
    for (const KeyedIndex& entry : entries) ++starts[digit(entry) + 1];
    std::partial_sum(starts.begin(), starts.end(), starts.begin());
    for (const KeyedIndex& entry : entries) {
      sorted[starts[digit(entry)]++] = entry;
    }
    std::swap(entries, sorted);
  }
}

}  // namespace

std::vector<double> Ranks(std::span<const double> values) {
  std::vector<KeyedIndex> sorted;
  sorted.reserve(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    sorted.emplace_back(OrderedBits(values[i]), i);
  }
  SortByKey(sorted);
  std::vector<double> ranks(values.size());
  for (std::size_t begin = 0, end = 0; begin < sorted.size(); begin = end) {
    while (end < sorted.size() && sorted[end].first == sorted[begin].first) {
      ++end;
    }
    // The mean of begin + 1 … end.
    const double rank = static_cast<double>(begin + 1 + end) / 2;
    for (std::size_t i = begin; i < end; ++i) ranks[sorted[i].second] = rank;
  }
  return ranks;
}

std::optional<double> LinearCorrelation(std::span<const double> x,
                                        std::span<const double> y) {
  const auto count = static_cast<double>(x.size());
  const double mean_x = std::accumulate(x.begin(), x.end(), 0.0) / count;
  const double mean_y = std::accumulate(y.begin(), y.end(), 0.0) / count;
  double xx = 0, xy = 0, yy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double dx = x[i] - mean_x;
    const double dy = y[i] - mean_y;
    xx += dx * dx;
    xy += dx * dy;
    yy += dy * dy;
  }
  if (xx == 0 || yy == 0) return std::nullopt;
  return std::clamp(xy / std::sqrt(xx * yy), -1.0, 1.0);
}

std::optional<double> RankCorrelation(std::span<const double> x,
                                      std::span<const double> y) {
  assert(x.size() == y.size());
  std::vector<double> kept_x, kept_y;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (!std::isfinite(x[i]) || !std::isfinite(y[i])) continue;
    kept_x.push_back(x[i]);
    kept_y.push_back(y[i]);
  }
  if (kept_x.size() < 2) return std::nullopt;
  return LinearCorrelation(Ranks(kept_x), Ranks(kept_y));
}

std::vector<double> ComputeEfforts(std::span<const Observation> observations,
                                   Effort effort, Timestamp start) {
  std::map<std::int64_t, Observation> latest;  // by trial
  std::int64_t batches = 0;                    // of all trials
  double epochs = 0;
  std::vector<double> efforts;
  efforts.reserve(observations.size());
  for (const Observation& seen : observations) {
    Observation& last = latest[seen.trial];
    batches += std::max<std::int64_t>(seen.batches - last.batches, 0);
    epochs += std::max(seen.epochs - last.epochs, 0.0);
    last.batches = std::max(last.batches, seen.batches);
    last.epochs = std::max(last.epochs, seen.epochs);
    switch (effort) {
      case Effort::kTrials:
        efforts.push_back(static_cast<double>(latest.size()));
        break;
      case Effort::kBatches:
        efforts.push_back(static_cast<double>(batches));
        break;
      case Effort::kEpochs:
        efforts.push_back(epochs);
        break;
      case Effort::kSeconds:
        efforts.push_back(static_cast<double>((seen.time - start).count()) /
                          1e6);
        break;
    }
  }
  return efforts;
}

std::vector<CurvePoint> BestSoFar(std::span<const Observation> observations,
                                  Effort effort, Timestamp start,
                                  bool smaller_is_better) {
  const auto efforts = ComputeEfforts(observations, effort, start);
  std::vector<CurvePoint> curve;
  for (std::size_t i = 0; i < observations.size(); ++i) {
    const double value = observations[i].value;
    if (!std::isfinite(value)) continue;
    if (curve.empty() ||
        IsBetter(value, curve.back().second, smaller_is_better)) {
      // Improvements at one place are one step.
      if (!curve.empty() && curve.back().first == efforts[i]) curve.pop_back();
      curve.emplace_back(efforts[i], value);
    }
  }
  if (!curve.empty() && curve.back().first < efforts.back()) {
    curve.emplace_back(efforts.back(), curve.back().second);
  }
  return curve;
}

// An exponential moving average, divided by the sum of the weights so far:
// without that, the first values would be pulled towards 0.
void Smooth(double weight, std::vector<CurvePoint>& points) {
  double sum = 0, weights = 0;
  for (CurvePoint& point : points) {
    if (!std::isfinite(point.second)) continue;
    sum = weight * sum + (1 - weight) * point.second;
    weights = weight * weights + (1 - weight);
    point.second = sum / weights;
  }
}

std::optional<RobustLimits> FindRobustLimits(std::vector<double> lows,
                                             std::vector<double> highs) {
  constexpr std::size_t kMin = 5;
  constexpr double kReach = 3;  // interquartile ranges
  constexpr double kMargin = 0.03;
  for (std::vector<double>* values : {&lows, &highs}) {
    std::erase_if(*values, [](double value) { return !std::isfinite(value); });
    std::ranges::sort(*values);
    if (values->size() < kMin) return std::nullopt;
  }
  const auto quartile = [](const std::vector<double>& sorted, std::size_t n) {
    return sorted[n * (sorted.size() - 1) / 4];
  };
  const auto spread = [&](const std::vector<double>& sorted) {
    return kReach * (quartile(sorted, 3) - quartile(sorted, 1));
  };
  const double lowest =
      *std::ranges::lower_bound(lows, quartile(lows, 1) - spread(lows));
  const double highest = *std::prev(
      std::ranges::upper_bound(highs, quartile(highs, 3) + spread(highs)));
  const bool flattens = highest > lowest && !(highs.back() - lows.front() <=
                                              3 * (highest - lowest));
  if (!flattens) return std::nullopt;
  const double margin = kMargin * (highest - lowest);
  RobustLimits limits = {.low = lowest - margin, .high = highest + margin};
  limits.below = static_cast<std::size_t>(
      std::ranges::lower_bound(lows, limits.low) - lows.begin());
  limits.above = static_cast<std::size_t>(
      highs.end() - std::ranges::upper_bound(highs, limits.high));
  return limits;
}

std::vector<CurvePoint> EmpiricalDistribution(std::vector<double> values) {
  std::erase_if(values, [](double value) { return std::isnan(value); });
  std::ranges::sort(values);
  std::vector<CurvePoint> curve;
  const auto count = static_cast<double>(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i + 1 < values.size() && values[i + 1] == values[i]) continue;
    curve.emplace_back(values[i], static_cast<double>(i + 1) / count);
  }
  return curve;
}

std::vector<std::size_t> ParetoFront(
    std::span<const std::vector<double>> points,
    const std::vector<bool>& smaller_is_better) {
  // The lower a key, the better. Sorted by their keys, a point can be dominated
  // only by an earlier one, and then by one of the front too.
  std::vector<std::pair<std::vector<double>, std::size_t>> sorted;
  for (std::size_t i = 0; i < points.size(); ++i) {
    assert(points[i].size() == smaller_is_better.size());
    std::vector<double> keys;
    for (std::size_t m = 0; m < points[i].size(); ++m) {
      keys.push_back(RankKey(points[i][m], smaller_is_better[m]));
    }
    const auto is_nan = [](double key) { return std::isnan(key); };
    if (std::ranges::none_of(keys, is_nan)) sorted.emplace_back(keys, i);
  }
  std::ranges::sort(sorted);
  std::vector<std::pair<std::vector<double>, std::size_t>> front;
  for (const auto& candidate : sorted) {
    const bool dominated = std::ranges::any_of(front, [&](const auto& other) {
      return other.first != candidate.first &&
             std::ranges::equal(other.first, candidate.first,
                                std::less_equal<>());
    });
    if (!dominated) front.push_back(candidate);
  }
  std::vector<std::size_t> indices;
  for (const auto& [keys, index] : front) indices.push_back(index);
  std::ranges::sort(indices);
  return indices;
}

namespace {

// The value of a curve between its points; NaN beyond its ends.
double ValueAt(const std::vector<CurvePoint>& curve, double x) {
  const auto after = std::ranges::upper_bound(curve, x, {}, &CurvePoint::first);
  if (after == curve.begin()) return std::nan("");
  const CurvePoint& left = *std::prev(after);
  if (left.first == x) return left.second;
  if (after == curve.end()) return std::nan("");
  const double part = (x - left.first) / (after->first - left.first);
  return left.second + part * (after->second - left.second);
}

// The places of all points, or 200 even ones.
std::vector<double> CollectPlaces(
    std::span<const std::vector<CurvePoint>> curves) {
  constexpr std::size_t kMaxPlaces = 200;
  std::set<double> all;
  for (const auto& curve : curves) {
    for (const auto& [x, y] : curve) {
      if (std::isfinite(x)) all.insert(x);
    }
  }
  std::vector<double> places(all.begin(), all.end());
  if (places.size() <= kMaxPlaces) return places;
  const double low = places.front();
  const double step = (places.back() - low) / (kMaxPlaces - 1);
  places.resize(kMaxPlaces);
  for (std::size_t i = 0; i < places.size(); ++i) {
    places[i] = low + static_cast<double>(i) * step;
  }
  return places;
}

// The finite values of the curves at each place, ascending, that two or more of
// them reach.
std::vector<std::pair<double, std::vector<double>>> CollectValues(
    std::span<const std::vector<CurvePoint>> curves) {
  std::vector<std::pair<double, std::vector<double>>> found;
  for (const double x : CollectPlaces(curves)) {
    std::vector<double> values;
    for (const auto& curve : curves) {
      const double value = ValueAt(curve, x);
      if (std::isfinite(value)) values.push_back(value);
    }
    if (values.size() < 2) continue;
    std::ranges::sort(values);
    found.emplace_back(x, std::move(values));
  }
  return found;
}

}  // namespace

std::vector<CurvePoint> MedianCurve(
    std::span<const std::vector<CurvePoint>> curves) {
  std::vector<CurvePoint> median;
  for (const auto& [x, values] : CollectValues(curves)) {
    const std::size_t middle = values.size() / 2;
    const double lower = values[middle - (values.size() % 2 == 0 ? 1 : 0)];
    median.emplace_back(x, std::midpoint(lower, values[middle]));
  }
  return median;
}

std::vector<MeanPoint> MeanCurve(
    std::span<const std::vector<CurvePoint>> curves) {
  std::vector<MeanPoint> means;
  for (const auto& [x, values] : CollectValues(curves)) {
    const auto count = static_cast<double>(values.size());
    const double mean =
        std::accumulate(values.begin(), values.end(), 0.0) / count;
    double squares = 0;
    for (const double value : values)
      squares += (value - mean) * (value - mean);
    means.push_back({.x = x,
                     .mean = mean,
                     .deviation = std::sqrt(squares / (count - 1)),
                     .count = values.size()});
  }
  return means;
}

// Splits at the longest gaps.
std::vector<Span> SplitAtGaps(std::vector<double> times, std::size_t parts) {
  std::ranges::sort(times);
  std::vector<std::pair<double, std::size_t>> gaps;  // before the time [i]
  for (std::size_t i = 1; i < times.size(); ++i) {
    if (times[i] > times[i - 1]) gaps.emplace_back(times[i] - times[i - 1], i);
  }
  std::ranges::sort(gaps, std::greater<>());
  if (gaps.size() >= parts) gaps.resize(parts > 0 ? parts - 1 : 0);
  std::set<std::size_t> breaks;
  for (const auto& [gap, i] : gaps) breaks.insert(i);
  std::vector<Span> spans;
  for (std::size_t i = 0; i < times.size(); ++i) {
    if (i == 0 || breaks.contains(i)) spans.push_back({times[i], times[i]});
    spans.back().end = times[i];
  }
  return spans;
}

void RunTimes::Add(double time, std::int64_t run) {
  if (run == 0) {
    unknown_.push_back(time);
    return;
  }
  Span& span = known_.try_emplace(run, Span{time, time}).first->second;
  span.begin = std::min(span.begin, time);
  span.end = std::max(span.end, time);
}

std::vector<Span> RunTimes::Spans(std::int64_t runs) const {
  const auto known = static_cast<std::int64_t>(known_.size());
  const std::int64_t others = std::max<std::int64_t>(runs - known, 1);
  std::vector<Span> spans =
      SplitAtGaps(unknown_, static_cast<std::size_t>(others));
  for (const auto& [run, span] : known_) spans.push_back(span);
  std::ranges::sort(spans, {}, &Span::begin);
  return spans;
}

// Takes spans by their begin and gives each the lowest lane that is free, which
// needs as few lanes as spans overlap at most.
std::vector<std::size_t> PackLanes(std::span<const Span> spans) {
  std::vector<std::size_t> order(spans.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {},
                           [&](std::size_t i) { return spans[i].begin; });
  std::set<std::size_t> free;
  std::multimap<double, std::size_t> busy;  // lane by its end
  std::vector<std::size_t> lanes(spans.size());
  for (const std::size_t i : order) {
    while (!busy.empty() && busy.begin()->first <= spans[i].begin) {
      free.insert(busy.begin()->second);
      busy.erase(busy.begin());
    }
    if (free.empty()) free.insert(busy.size());
    lanes[i] = *free.begin();
    free.erase(free.begin());
    busy.emplace(spans[i].end, lanes[i]);
  }
  return lanes;
}

std::vector<RungCount> CountRungs(std::span<const RungProgress> trials) {
  std::vector<RungCount> counts(1);
  for (const RungProgress& trial : trials) {
    if (counts.size() <= trial.completed) counts.resize(trial.completed + 1);
    for (std::size_t i = 0; i < trial.completed; ++i) ++counts[i].went_on;
    RungCount& last = counts[trial.completed];
    ++(trial.end == RungProgress::End::kCompleted ? last.completed
       : trial.end == RungProgress::End::kEnded   ? last.ended
                                                  : last.open);
  }
  return counts;
}

namespace {

std::size_t FindCell(double place, const FieldAxis& axis) {
  const double cell = std::floor(place * static_cast<double>(axis.cells));
  return static_cast<std::size_t>(
      std::clamp(cell, 0.0, static_cast<double>(axis.cells - 1)));
}

double CellMiddle(std::size_t cell, const FieldAxis& axis) {
  return (static_cast<double>(cell) + 0.5) / static_cast<double>(axis.cells);
}

// The distance along one axis; infinite to another category.
double DistanceTo(double place, std::size_t cell, const FieldAxis& axis) {
  if (axis.categories) return FindCell(place, axis) == cell ? 0 : HUGE_VAL;
  return std::abs(place - CellMiddle(cell, axis));
}

}  // namespace

// Inverse distance weighting (Shepard, 1968), with weights 1 / d². A sample is
// nowhere nearer than kNear, so that no single one makes a peak; cells beyond
// kReach of all samples are left empty.
std::vector<double> EstimateField(std::span<const FieldSample> samples,
                                  FieldAxis x, FieldAxis y) {
  constexpr double kReach = 0.15;
  constexpr double kNear = 0.05;
  std::vector<double> field;
  field.reserve(x.cells * y.cells);
  for (std::size_t row = 0; row < y.cells; ++row) {
    for (std::size_t column = 0; column < x.cells; ++column) {
      double sum = 0, weights = 0, nearest = HUGE_VAL;
      for (const FieldSample& sample : samples) {
        const double distance = std::hypot(DistanceTo(sample.x, column, x),
                                           DistanceTo(sample.y, row, y));
        nearest = std::min(nearest, distance);
        const double near = std::max(distance, kNear);
        const double weight = 1 / (near * near);
        sum += weight * sample.value;
        weights += weight;
      }
      field.push_back(nearest < kReach ? sum / weights : std::nan(""));
    }
  }
  return field;
}

namespace {

// Appends the indices of the first, lowest, highest and last of the points that
// `points` names, each once and in their order.
void AppendExtremes(std::span<const CurvePoint> curve,
                    std::span<const std::size_t> points,
                    std::vector<std::size_t>& out) {
  const auto [lowest, highest] = std::ranges::minmax_element(
      points, {}, [&](std::size_t i) { return curve[i].second; });
  std::vector<std::size_t> chosen = {points.front(), *lowest, *highest,
                                     points.back()};
  std::ranges::sort(chosen);
  const auto repeated = std::ranges::unique(chosen);
  chosen.erase(repeated.begin(), repeated.end());
  out.insert(out.end(), chosen.begin(), chosen.end());
}

}  // namespace

// Of each column of pixels four points at most, its first, lowest, highest and
// last: a line through them covers the same pixels (M4: Jugel et al. 2014).
std::vector<std::size_t> DecimatedPoints(std::span<const CurvePoint> curve,
                                         std::size_t columns) {
  assert(columns > 0);
  std::vector<std::size_t> points(curve.size());
  std::iota(points.begin(), points.end(), std::size_t{0});
  if (points.size() <= 4 * columns) return points;
  std::erase_if(points, [&](std::size_t i) {
    return !std::isfinite(curve[i].first) || !std::isfinite(curve[i].second);
  });
  if (points.size() <= 4 * columns) return points;
  const double low = curve[points.front()].first;
  const double width = curve[points.back()].first - low;
  const auto column_of = [&](std::size_t i) -> std::size_t {
    if (width <= 0) return 0;
    const double part = (curve[i].first - low) / width;
    return std::min(
        static_cast<std::size_t>(part * static_cast<double>(columns)),
        columns - 1);
  };
  std::vector<std::size_t> kept;
  for (std::size_t begin = 0, end = 0; begin < points.size(); begin = end) {
    const std::size_t column = column_of(points[begin]);
    while (end < points.size() && column_of(points[end]) == column) ++end;
    AppendExtremes(curve, std::span(points).subspan(begin, end - begin), kept);
  }
  return kept;
}

std::vector<CurvePoint> Decimate(std::vector<CurvePoint> curve,
                                 std::size_t columns) {
  std::vector<CurvePoint> reduced;
  for (const std::size_t i : DecimatedPoints(curve, columns)) {
    reduced.push_back(curve[i]);
  }
  return reduced;
}

}  // namespace dtrain
