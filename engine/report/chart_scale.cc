// Scales and ticks of charts, and curves reduced to what can be drawn; for text
// and SVG alike.
//
// A scale maps values to shares from 0 to 1 of an axis. On a logarithmic one
// `low` and `high` are exponents of ten. Values that have no place (NaN, beyond
// 1e300, not positive on a logarithmic axis) are NaN and break a curve into
// pieces.
//
// Ticks are multiples of 1, 2 or 5 times a power of ten. They are computed as
// multiples, not by adding, and compared with a slack, so that rounding errors
// neither accumulate nor drop the last one.
//
// Curves of millions of points keep at most four points for each column of the
// picture (Decimate): first, lowest, highest and last, which looks the same.

#include "engine/report/chart_scale.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "engine/base/rounding.h"
#include "engine/base/text.h"
#include "engine/report/format.h"

namespace dtrain {
namespace {

// Limit above which the size of a range overflows.
constexpr double kMax = 1e300;

// Free part of a scale at both ends, so that no point lies on the frame.
constexpr double kDotMargin = 0.03;

// Limits of what the marks of a chart show.
struct Extent {
  double left = HUGE_VAL;
  double right = -HUGE_VAL;
  double bottom = HUGE_VAL;
  double top = -HUGE_VAL;

  void Include(double x, double y, const Chart& chart) {
    const bool shown = std::abs(x) < kMax && std::abs(y) < kMax &&
                       (!chart.x.log || x > 0) && (!chart.y.log || y > 0);
    if (!shown) return;
    left = std::min(left, x);
    right = std::max(right, x);
    bottom = std::min(bottom, y);
    top = std::max(top, y);
  }
};

Extent ComputeExtent(const Chart& chart) {
  Extent extent;
  for (const CurveMark& curve : chart.curves) {
    for (const auto& [x, y] : curve.points) extent.Include(x, y, chart);
  }
  for (const BandMark& band : chart.bands) {
    for (const auto& [x, y] : band.low) extent.Include(x, y, chart);
    for (const auto& [x, y] : band.high) extent.Include(x, y, chart);
  }
  for (const DotMark& dots : chart.dots) {
    for (const auto& [x, y] : dots.points) extent.Include(x, y, chart);
  }
  for (const BarMark& bar : chart.bars) {
    extent.Include(bar.from, static_cast<double>(bar.row), chart);
    extent.Include(bar.to, static_cast<double>(bar.row), chart);
  }
  for (const CellMark& cell : chart.cells) {
    extent.Include(cell.left, cell.bottom, chart);
    extent.Include(cell.right, cell.top, chart);
  }
  return extent;
}

Scale ScaleOver(double low, double high, bool log) {
  if (!(low <= high)) return {.log = log};
  if (log) {
    low = std::log10(low);
    high = std::log10(high);
  }
  if (low == high) {
    const double margin = low == 0 ? 1 : std::abs(low) * 0.1;
    low -= margin;
    high += margin;
  }
  return {.low = low, .high = high, .log = log};
}

Scale MakeScale(const ChartAxis& axis, double low, double high, double margin) {
  if (!axis.names.empty()) {
    return {.low = -0.5,
            .high = static_cast<double>(axis.names.size()) - 0.5,
            .names = axis.names};
  }
  if (axis.range) {
    std::tie(low, high) = *axis.range;
    Scale scale = ScaleOver(low, high, axis.log);
    scale.arrows = axis.arrows;
    return scale;
  }
  Scale scale = ScaleOver(low, high, axis.log);
  const double width = scale.high - scale.low;
  scale.low -= margin * width;
  scale.high += margin * width;
  return scale;
}

// Round values for a logarithmic scale: powers of ten, and 2 and 5 times them
// if it has few.
std::vector<double> LogTicks(const Scale& scale, int count) {
  const double decades = scale.high - scale.low;
  std::vector<double> ticks;
  if (decades * 3 > count && decades >= 2) {
    ticks = AxisTicks(scale.low, scale.high, count);
    // Half a power of ten is not a round number.
    std::erase_if(ticks, [](double at) { return at != std::round(at); });
    return ticks;
  }
  for (double power = std::floor(scale.low); power <= scale.high; ++power) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double at = power + std::log10(factor);
      if (at >= scale.low && at <= scale.high) ticks.push_back(at);
    }
  }
  return ticks;
}

}  // namespace

double Scale::Share(double value) const {
  if (!(std::abs(value) < kMax) || (log && value <= 0)) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  const double at = log ? std::log10(value) : value;
  return (at - low) / (high - low);
}

Scales MakeScales(const Chart& chart) {
  const Extent extent = ComputeExtent(chart);
  const double margin =
      chart.dots.empty() || !chart.cells.empty() ? 0 : kDotMargin;
  Scales scales = {MakeScale(chart.x, extent.left, extent.right, margin),
                   MakeScale(chart.y, extent.bottom, extent.top, margin)};
  // Rows are read from the top.
  if (!chart.y.names.empty() && !chart.bars.empty()) {
    std::swap(scales.y.low, scales.y.high);
  }
  if (!chart.parallel.empty()) {
    scales.x.low = -0.5;
    scales.x.high = static_cast<double>(chart.parallel.size()) - 0.5;
    scales.y.low = 0;
    scales.y.high = 1;
  }
  return scales;
}

std::optional<EdgeArrow> FindArrow(const CurvePoint& point,
                                   const Scales& scales) {
  const auto beyond = [](double share) {
    return share > 1 ? 1 : share < 0 ? -1 : 0;
  };
  const auto [x, y] = point;
  const int right = beyond(x), up = beyond(y);
  if (std::isnan(x) || std::isnan(y) || (right == 0 && up == 0) ||
      (right != 0 && !scales.x.arrows) || (up != 0 && !scales.y.arrows)) {
    return std::nullopt;
  }
  return EdgeArrow{.x = std::clamp(x, 0.0, 1.0),
                   .y = std::clamp(y, 0.0, 1.0),
                   .right = right,
                   .up = right == 0 ? up : 0};
}

std::optional<EdgeArrow> FindArrow(const std::vector<CurvePoint>& piece,
                                   const Scales& scales) {
  for (const CurvePoint& point : piece) {
    if (auto arrow = FindArrow(point, scales)) return arrow;
  }
  return std::nullopt;
}

namespace {

// Large ticks are round, so that an exponent shortens them.
std::string TickText(double value) {
  constexpr double kLarge = 1e6;
  const double at = DropNoise(value);
  return std::abs(at) < kLarge ? FormatMetric(at) : FormatNumber(at);
}

}  // namespace

std::vector<Tick> MakeTicks(const Scale& scale, int count) {
  std::vector<Tick> ticks;
  for (std::size_t i = 0; i < scale.names.size(); ++i) {
    ticks.push_back({scale.Share(static_cast<double>(i)), scale.names[i]});
  }
  if (!ticks.empty()) return ticks;
  for (const double at : scale.log ? LogTicks(scale, count)
                                   : AxisTicks(scale.low, scale.high, count)) {
    ticks.push_back({(at - scale.low) / (scale.high - scale.low),
                     TickText(scale.log ? std::pow(10, at) : at)});
  }
  return ticks;
}

std::vector<double> AxisTicks(double low, double high, int count) {
  if (low == high) return {low};
  const double rough = (high - low) / count;
  if (rough < std::numeric_limits<double>::min()) return {low};
  const double power = std::pow(10, std::floor(std::log10(rough)));
  double step = power;
  for (const double factor : {2.0, 5.0, 10.0}) {
    if (step < rough) step = power * factor;
  }
  std::vector<double> ticks;
  // Multiples of the step, so that rounding errors do not accumulate.
  const double slack = step * 1e-9;
  const double first = std::ceil((low - slack) / step);
  for (int i = 0; i <= 2 * count; ++i) {
    const double at = (first + i) * step + 0.0;  // not -0
    if (at > high + slack) break;
    // Near the precision of large numbers steps round to the same one.
    if (ticks.empty() || at > ticks.back()) ticks.push_back(at);
  }
  return ticks;
}

namespace {

// Joins pieces whose gap is narrower than a column: a curve of very many short
// pieces would not be reduced by reducing each.
std::vector<std::vector<CurvePoint>> JoinNarrowGaps(
    std::vector<std::vector<CurvePoint>> pieces, std::size_t columns) {
  const auto column_of = [columns](const CurvePoint& point) {
    return std::floor(point.first * static_cast<double>(columns));
  };
  std::vector<std::vector<CurvePoint>> joined;
  for (auto& piece : pieces) {
    if (joined.empty() ||
        column_of(joined.back().back()) != column_of(piece.front())) {
      joined.push_back(std::move(piece));
      continue;
    }
    joined.back().insert(joined.back().end(), piece.begin(), piece.end());
  }
  return joined;
}

}  // namespace

std::vector<std::vector<CurvePoint>> CurvePieces(const CurveMark& curve,
                                                 const Scales& scales,
                                                 std::size_t columns) {
  std::vector<std::vector<CurvePoint>> pieces(1);
  for (const auto& [x, y] : curve.points) {
    // Far beyond the edge nothing is drawn.
    constexpr double kFar = 20;
    const CurvePoint point(std::clamp(scales.x.Share(x), -kFar, kFar),
                           std::clamp(scales.y.Share(y), -kFar, kFar));
    if (std::isnan(point.first) || std::isnan(point.second)) {
      if (!pieces.back().empty()) pieces.emplace_back();
      continue;
    }
    pieces.back().push_back(point);
  }
  if (pieces.back().empty()) pieces.pop_back();
  if (pieces.size() > columns) {
    pieces = JoinNarrowGaps(std::move(pieces), columns);
  }
  for (auto& piece : pieces) {
    if (piece.size() < 2) continue;
    const double width = piece.back().first - piece.front().first;
    const double own = std::ceil(width * static_cast<double>(columns));
    piece = Decimate(std::move(piece),
                     std::max<std::size_t>(static_cast<std::size_t>(own), 1));
  }
  return pieces;
}

}  // namespace dtrain
