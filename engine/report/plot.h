#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace dtrain {

/// A curve: its points in the order of x. Points that are not finite numbers
/// interrupt it.
struct PlotSeries {
  std::string name;  // in the legend
  std::vector<std::pair<double, double>> points;
  std::string tag;        // short name at its end in a terminal, or empty
  std::size_t color = 0;  // curves of one number have one colour and letter
  bool dashed = false;    // a second kind of curve, as training metrics are
  // Drawn behind all others, gray, in no legend: one of very many.
  bool faint = false;
};

/// Labels and scales of a plot.
struct PlotLabels {
  std::string title;
  std::string x;
  std::string y = {};  // only in an SVG
  // Logarithmic axes; points that are not positive interrupt a curve.
  bool log_x = false;
  bool log_y = false;
  // Limits of the vertical axis; empty: those of the values.
  std::optional<std::pair<double, double>> y_range;
};

/// Curves that are not faint: more cannot be told apart, and the legend would
/// outgrow the plot.
inline constexpr std::size_t kMaxPlotCurves = 20;

/// Returns round numbers, ascending, that mark an axis from `low` to `high`:
/// about `wanted` of them, all within. REQUIRES: both finite, low ≤ high.
std::vector<double> AxisTicks(double low, double high, int wanted);

/// Returns the curves as a self-contained SVG document of at most 200 kB,
/// however many curves and points there are: curves are reduced to the extremes
/// of each pixel column or of wider ones, and of more than 200 faint curves
/// every n-th is drawn. Texts are escaped and cut at 100 characters. REQUIRES:
/// at most kMaxPlotCurves are not faint.
std::string DrawSvg(const std::vector<PlotSeries>& series,
                    const PlotLabels& labels);

/// Number of faint curves that DrawSvg draws of `faint`.
std::size_t FaintCurvesDrawn(std::size_t faint);

/// Means of a terminal.
struct TextCanvas {
  std::size_t width = 72;  // columns of the plot, without the axis
  std::size_t height = 18;
  bool utf8 = false;   // lines of Braille dots; else a letter for each curve
  bool color = false;  // colours, by ANSI sequences
};

/// Returns the curves in characters, with axes, the tags of curves at their
/// ends, and a legend of as many lines as curves that are not faint. In letters
/// a solid curve is A, its dashed one a; faint ones are dots.
std::string DrawText(const std::vector<PlotSeries>& series,
                     const PlotLabels& labels, const TextCanvas& canvas);

}  // namespace dtrain
