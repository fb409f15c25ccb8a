#pragma once

#include <cstddef>
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

  /// 0 at the lower end, 1 at the upper one; NaN for what it cannot show.
  double Share(double value) const;
};

struct Scales {
  Scale x;
  Scale y;
};

/// Scales over all marks of the chart, or over the limits that it sets.
Scales MakeScales(const Chart& chart);

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
