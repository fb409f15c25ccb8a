#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "engine/report/chart.h"

// Steps that every drawing of a chart shares: values become shares of the
// canvas, 0 to 1, which the drawing maps to pixels or characters.

namespace dtrain {

/// A non-empty range of values, or of their logarithms.
struct Scale {
  double low = 0;
  double high = 1;
  bool log = false;
  std::vector<std::string> names = {};
  bool arrows = false;  // for what lies beyond

  /// 0 at the lower end, 1 at the upper one; NaN for what it cannot show.
  double Share(double value) const;
};

struct Scales {
  Scale x;
  Scale y;
};

/// Scales over all marks of the chart, or over the limits that it sets.
Scales MakeScales(const Chart& chart);

/// An arrow at the edge, for a point beyond it.
struct EdgeArrow {
  double x = 0;  // share of the canvas, 0 to 1
  double y = 0;
  int right = 0;  // direction: -1, 0 or 1, one of the two is 0
  int up = 0;
};

/// Returns the arrow of a point (shares of the canvas); empty if it is inside,
/// or beyond an axis without arrows.
std::optional<EdgeArrow> FindArrow(const CurvePoint& point,
                                   const Scales& scales);
/// Returns the arrow where a piece of a curve first leaves the canvas.
std::optional<EdgeArrow> FindArrow(const std::vector<CurvePoint>& piece,
                                   const Scales& scales);

/// A mark of an axis.
struct Tick {
  double share = 0;
  std::string text;
};

/// About `count` round numbers within the scale, or all of its names.
std::vector<Tick> MakeTicks(const Scale& scale, int count);

/// Returns round numbers, ascending, that mark an axis from `low` to `high`:
/// about `count` of them, all within. REQUIRES: both finite, low ≤ high.
std::vector<double> AxisTicks(double low, double high, int count);

/// Parts of a curve without interruptions, as shares of the canvas, each
/// reduced to `columns` for the whole width.
std::vector<std::vector<CurvePoint>> CurvePieces(const CurveMark& curve,
                                                 const Scales& scales,
                                                 std::size_t columns);

}  // namespace dtrain
