#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace dtrain {

/// A curve: its points in the order of x. Points that are not finite numbers
/// interrupt it.
struct PlotSeries {
  std::string name;
  std::vector<std::pair<double, double>> points;
};

/// Labels of a plot.
struct PlotLabels {
  std::string title;
  std::string x;
};

/// Round numbers, ascending, that mark an axis from `low` to `high`: about
/// `wanted` of them, all within. REQUIRES: both finite, low ≤ high.
std::vector<double> AxisTicks(double low, double high, int wanted);

/// The curves as a self-contained SVG document, the size of which does not
/// grow with the number of points. Texts are escaped.
std::string DrawSvg(const std::vector<PlotSeries>& series,
                    const PlotLabels& labels);

/// The curves in characters, `width` columns by `height` lines of them and the
/// axes; each curve has a letter, which the last lines explain.
std::string DrawText(const std::vector<PlotSeries>& series,
                     const PlotLabels& labels, std::size_t width,
                     std::size_t height);

}  // namespace dtrain
