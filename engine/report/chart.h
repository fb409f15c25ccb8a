#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/analysis/statistics.h"

// A figure as data: panels with axes and marks, and a legend. Functions of
// plot.h make figures; DrawSvg and DrawText draw any figure.

namespace dtrain {

/// Style of the marks of one subject (a trial, an experiment, a state).
/// Subjects of one `color` have one colour, stroke pattern and letter.
struct MarkStyle {
  std::size_t color = 0;
  bool dashed = false;  // a second kind of curve, as training metrics are
  bool faint = false;   // gray, behind all others: one of very many

  friend auto operator<=>(const MarkStyle&, const MarkStyle&) = default;
};

/// A curve: its points in the order of x. Points that are not finite numbers
/// interrupt it.
struct CurveMark {
  MarkStyle style;
  std::vector<CurvePoint> points;
  std::string tag = {};  // short name at its end in a terminal, or empty
};

/// An area between two curves with points at the same places, in the order of
/// x.
struct BandMark {
  MarkStyle style;
  std::vector<CurvePoint> low;
  std::vector<CurvePoint> high;
};

/// Unconnected points. Those that are not finite numbers are not drawn.
struct DotMark {
  MarkStyle style;
  std::vector<CurvePoint> points;
  bool cross = false;  // crosses: failures
};

/// A horizontal bar in a row of a chart whose y axis has names.
struct BarMark {
  MarkStyle style;
  std::size_t row = 0;
  double from = 0;
  double to = 0;
  std::string text = {};  // beside it, or empty
  // Ends of a line over it: where it may end as well.
  std::optional<std::pair<double, double>> interval = {};
  bool hatched = false;  // a matter of chance
};

/// A shaded rectangle.
struct CellMark {
  double left = 0;
  double right = 0;
  double bottom = 0;
  double top = 0;
  double shade = 0;  // 0: lightest, 1: darkest
};

struct ChartAxis {
  std::string label;
  // Logarithmic: points that are not positive are not drawn.
  bool log = false;
  // Limits; empty: those of the marks.
  std::optional<std::pair<double, double>> range = {};
  // Names of the places 0, 1, …; on a vertical axis from the top. Empty: an
  // axis of numbers.
  std::vector<std::string> names = {};
  // What lies beyond the limits is an arrow at the edge; otherwise not drawn.
  bool arrows = false;
};

/// A vertical axis of parallel coordinates. Its marks have y from 0 to 1.
struct ParallelAxis {
  std::string name;
  std::vector<std::pair<double, std::string>> ticks;  // ascending
};

/// Marks on common axes. The first ones of a kind lie over the others, but
/// faint ones under all.
struct Chart {
  std::string title;  // of a panel; empty for the only one of a figure
  ChartAxis x;
  ChartAxis y;
  std::vector<CellMark> cells = {};
  std::vector<BarMark> bars = {};
  std::vector<BandMark> bands = {};  // in a terminal in place of faint curves
  std::vector<CurveMark> curves = {};
  std::vector<DotMark> dots = {};
  // Axes at x = 0, 1, …, in place of those at the sides.
  std::vector<ParallelAxis> parallel = {};
  // Reason that nothing is drawn; empty if there is something.
  std::string empty = {};
};

/// A line of the legend.
struct LegendEntry {
  enum class Sample { kCurve, kDot, kCross, kBar };
  MarkStyle style;
  Sample sample = Sample::kCurve;
  std::string name;
};

struct Figure {
  std::string title;
  std::vector<Chart> panels;
  std::vector<LegendEntry> legend = {};
  // Meanings of the lightest and the darkest shade; empty without cells.
  std::string light = {};
  std::string dark = {};
  // Sentences on what is left out or must be known to read it.
  std::vector<std::string> notes = {};
};

/// More entries of a legend cannot be told apart, and the legend would outgrow
/// the figure.
inline constexpr std::size_t kMaxLegend = 20;

/// Limit of the size of an SVG document.
inline constexpr std::size_t kMaxSvgBytes = 200'000;

/// Size of an SVG document, in pixels of 1/96 inch.
struct SvgSize {
  double width = 900;
  // Of all, with title, legend and notes; empty, or too low for the texts: as
  // high as its panels are.
  std::optional<double> height = {};
  double font_size = 13;  // lines and dots grow with it
};

/// The least width of an SVG document, in font sizes.
inline constexpr double kMinSvgWidth = 28;

/// A drawing, and sentences on what was left out to keep it small, which an SVG
/// also contains.
struct Drawing {
  std::string text;
  std::vector<std::string> notes;
};

/// Returns the figure as a self-contained SVG document of at most `max_bytes`,
/// however many marks there are: curves are reduced to the extremes of pixel
/// columns, points and bars that coincide are drawn once, and of very many
/// faint curves or points every n-th is drawn. Texts are escaped and cut.
/// REQUIRES: at most kMaxLegend entries in the legend; a width of at least
/// kMinSvgWidth font sizes.
Drawing DrawSvg(const Figure& figure, const SvgSize& size = {},
                std::size_t max_bytes = kMaxSvgBytes);

/// Means of a terminal.
struct TextCanvas {
  std::size_t width = 96;   // columns of the whole
  std::size_t height = 18;  // lines of a panel without rows
  // Lines of the terminal, 0: none. A panel that does not fit with its title
  // and legend is made lower, to 8 lines at least; the legend has columns.
  std::size_t max_lines = 0;
  bool utf8 = false;   // Braille dots and blocks; else ASCII
  bool color = false;  // colours, by ANSI sequences
};

/// Returns the figure in characters, with axes, the tags of curves at their
/// ends, and the legend. In ASCII a solid curve is A,
/// its dashed one a; faint marks are dots.
std::string DrawText(const Figure& figure, const TextCanvas& canvas);

}  // namespace dtrain
