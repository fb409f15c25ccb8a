// Plots of curves as SVG and as text.
//
// A curve may have millions of points, and a plot thousands of curves. Of the
// points in one column only the first, the lowest, the highest and the last are
// drawn (Decimate), which gives the same picture as all of them; where there
// are many curves the columns are wider, so that the document stays small. NaN,
// infinities and what a logarithmic axis cannot show interrupt a curve.
//
// Both drawings work in two steps: Axes map values to shares of the canvas, 0
// to 1; DrawSvg and DrawText map shares to pixels or dots.

#include "engine/report/plot.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <tuple>

#include "engine/analysis/statistics.h"
#include "engine/base/text.h"
#include "engine/report/format.h"

namespace dtrain {
namespace {

// Limit above which the size of a range overflows.
constexpr double kMax = 1e300;

// An axis: a non-empty range of values, or of their logarithms.
struct Axis {
  double low = 0;
  double high = 1;
  bool log = false;

  // 0 at the lower end, 1 at the upper one; NaN for what it cannot show.
  double Share(double value) const {
    if (!(std::abs(value) < kMax) || (log && value <= 0)) return NAN;
    const double at = log ? std::log10(value) : value;
    return (at - low) / (high - low);
  }
  double ValueAt(double place) const {
    return log ? std::pow(10, place) : place;
  }
};

Axis AxisOver(double low, double high, bool log) {
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

struct Axes {
  Axis x;
  Axis y;
};

Axes AxesOf(const std::vector<PlotSeries>& series, const PlotLabels& labels) {
  double left = HUGE_VAL, right = -HUGE_VAL;
  double bottom = HUGE_VAL, top = -HUGE_VAL;
  for (const PlotSeries& one : series) {
    for (const auto& [x, y] : one.points) {
      const bool shown = std::abs(x) < kMax && std::abs(y) < kMax &&
                         (!labels.log_x || x > 0) && (!labels.log_y || y > 0);
      if (!shown) continue;
      left = std::min(left, x);
      right = std::max(right, x);
      bottom = std::min(bottom, y);
      top = std::max(top, y);
    }
  }
  if (labels.y_range) std::tie(bottom, top) = *labels.y_range;
  return {.x = AxisOver(left, right, labels.log_x),
          .y = AxisOver(bottom, top, labels.log_y)};
}

struct Tick {
  double share;
  std::string text;
};

// Round values for a logarithmic axis: powers of ten, and 2 and 5 times them if
// it has few.
std::vector<double> LogTicks(const Axis& axis, int wanted) {
  const double decades = axis.high - axis.low;
  if (decades * 3 > wanted) return AxisTicks(axis.low, axis.high, wanted);
  std::vector<double> ticks;
  for (double power = std::floor(axis.low); power <= axis.high; ++power) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double at = power + std::log10(factor);
      if (at >= axis.low && at <= axis.high) ticks.push_back(at);
    }
  }
  return ticks;
}

std::vector<Tick> TicksOf(const Axis& axis, int wanted) {
  std::vector<Tick> ticks;
  for (const double at : axis.log ? LogTicks(axis, wanted)
                                  : AxisTicks(axis.low, axis.high, wanted)) {
    ticks.push_back({(at - axis.low) / (axis.high - axis.low),
                     FormatMetric(axis.ValueAt(at))});
  }
  return ticks;
}

// The parts of a curve without interruptions, as shares of the canvas, each
// reduced to `columns`.
std::vector<std::vector<CurvePoint>> Pieces(const PlotSeries& series,
                                            const Axes& axes,
                                            std::size_t columns) {
  std::vector<std::vector<CurvePoint>> pieces(1);
  for (const auto& [x, y] : series.points) {
    const CurvePoint point(axes.x.Share(x), axes.y.Share(y));
    if (std::isnan(point.first) || std::isnan(point.second)) {
      if (!pieces.back().empty()) pieces.emplace_back();
      continue;
    }
    pieces.back().push_back(point);
  }
  for (auto& piece : pieces) {
    if (piece.size() < 2) continue;
    const double width = piece.back().first - piece.front().first;
    const double own = std::ceil(width * static_cast<double>(columns));
    piece = Decimate(std::move(piece),
                     std::max<std::size_t>(static_cast<std::size_t>(own), 1));
  }
  std::erase_if(pieces, [](const auto& piece) { return piece.empty(); });
  return pieces;
}

// Faint curves first, so that others are drawn over them.
std::vector<const PlotSeries*> DrawingOrder(
    const std::vector<PlotSeries>& series) {
  std::vector<const PlotSeries*> order;
  for (const PlotSeries& one : series) order.push_back(&one);
  std::ranges::stable_partition(
      order, [](const PlotSeries* one) { return one->faint; });
  return order;
}

std::size_t CountFaint(const std::vector<PlotSeries>& series) {
  return static_cast<std::size_t>(
      std::ranges::count(series, true, &PlotSeries::faint));
}

}  // namespace

std::vector<double> AxisTicks(double low, double high, int wanted) {
  if (low == high) return {low};
  const double rough = (high - low) / wanted;
  if (rough < std::numeric_limits<double>::min()) return {low};
  const double power = std::pow(10, std::floor(std::log10(rough)));
  double step = power;
  for (const double factor : {2.0, 5.0, 10.0}) {
    if (step < rough) step = power * factor;
  }
  std::vector<double> ticks;
  // Multiples of the step, so that rounding errors do not accumulate.
  const double slack = step * 1e-9;
  for (double i = std::ceil((low - slack) / step); i * step <= high + slack;
       ++i) {
    ticks.push_back(i * step + 0.0);  // not -0
  }
  return ticks;
}

namespace {

// Sizes of the SVG in its units.
constexpr double kWidth = 900;
constexpr double kHeight = 540;
constexpr double kLeft = 80;
constexpr double kRight = 20;
constexpr double kTop = 40;
constexpr double kBottom = 55;
constexpr double kLegendLine = 18;
constexpr double kPlotWidth = kWidth - kLeft - kRight;
constexpr double kPlotHeight = kHeight - kTop - kBottom;

// Budgets that keep the document below 200 kB: a point takes 12 bytes.
constexpr std::size_t kMaxColumns = 800;  // a pixel each
constexpr std::size_t kMaxPoints = 7'500;
constexpr std::size_t kMaxFaintPoints = 6'500;
constexpr std::size_t kMaxFaint = 200;
constexpr std::size_t kMaxText = 100;

// Colours that people with colour vision deficiencies can distinguish (Okabe
// and Ito, 2008).
constexpr std::array kColors = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                "#e69f00", "#56b4e9", "#000000", "#999933"};
// Stroke patterns: of the first eight curves, of the next eight, and so on.
constexpr std::array kSolidPatterns = {"", "12 3 2 3", "2 2"};
constexpr std::array kDashedPatterns = {"6 4", "6 2 6 6", "3 6"};

std::string Fixed(double value) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%.1f", value);
  return text.data();
}

std::string SvgText(double x, double y, const char* anchor,
                    const std::string& text) {
  return "<text x=\"" + Fixed(x) + "\" y=\"" + Fixed(y) + "\" text-anchor=\"" +
         anchor + "\">" + EscapeXml(Truncate(text, kMaxText)) + "</text>\n";
}

std::string SvgLine(double x1, double y1, double x2, double y2,
                    const std::string& style) {
  return "<path d=\"M" + Fixed(x1) + " " + Fixed(y1) + "L" + Fixed(x2) + " " +
         Fixed(y2) + "\" " + style + "/>\n";
}

std::string SvgAxes(const Axes& axes) {
  const std::string line = "stroke=\"#555555\"";
  const double bottom = kTop + kPlotHeight;
  const double right = kLeft + kPlotWidth;
  std::string svg;
  for (const auto& [share, text] : TicksOf(axes.y, 6)) {
    const double at = bottom - share * kPlotHeight;
    svg += SvgLine(kLeft, at, right, at, "stroke=\"#dddddd\"");
    svg += SvgText(kLeft - 8, at + 4, "end", text);
  }
  for (const auto& [share, text] : TicksOf(axes.x, 8)) {
    const double at = kLeft + share * kPlotWidth;
    svg += SvgLine(at, bottom, at, bottom + 5, line);
    svg += SvgText(at, bottom + 19, "middle", text);
  }
  return svg + SvgLine(kLeft, bottom, right, bottom, line) +
         SvgLine(kLeft, kTop, kLeft, bottom, line);
}

std::string StrokeOf(const PlotSeries& series) {
  if (series.faint) return "stroke=\"#bbbbbb\" stroke-width=\"0.7\"";
  const auto& patterns = series.dashed ? kDashedPatterns : kSolidPatterns;
  const std::string pattern =
      patterns[series.color / kColors.size() % patterns.size()];
  return std::string("stroke=\"") + kColors[series.color % kColors.size()] +
         "\" stroke-width=\"1.5\"" +
         (pattern.empty() ? "" : " stroke-dasharray=\"" + pattern + "\"");
}

std::string SvgCurve(const PlotSeries& series, const Axes& axes,
                     std::size_t columns) {
  std::string path;
  for (const auto& piece : Pieces(series, axes, columns)) {
    char command = 'M';
    for (const auto& [x, y] : piece) {
      path += command + Fixed(kLeft + x * kPlotWidth) + " " +
              Fixed(kTop + (1 - y) * kPlotHeight);
      command = 'L';
    }
    // A single point would be invisible.
    if (piece.size() == 1) path += "h1";
  }
  return "<path " + StrokeOf(series) + " d=\"" + path + "\"/>\n";
}

// Columns for each of `curves`, so that all together stay within `points`.
std::size_t ColumnsFor(std::size_t curves, std::size_t points) {
  if (curves == 0) return kMaxColumns;
  return std::clamp<std::size_t>(points / (4 * curves), 1, kMaxColumns);
}

std::string SvgCurves(const std::vector<PlotSeries>& series, const Axes& axes) {
  const std::size_t faint = CountFaint(series);
  const std::size_t drawn = FaintCurvesDrawn(faint);
  const std::size_t faint_columns = ColumnsFor(drawn, kMaxFaintPoints);
  const std::size_t columns = ColumnsFor(series.size() - faint, kMaxPoints);
  std::string svg = "<svg x=\"0\" y=\"0\"><clipPath id=\"c\"><rect x=\"" +
                    Fixed(kLeft) + "\" y=\"" + Fixed(kTop) + "\" width=\"" +
                    Fixed(kPlotWidth) + "\" height=\"" + Fixed(kPlotHeight) +
                    "\"/></clipPath><g clip-path=\"url(#c)\" fill=\"none\" "
                    "stroke-linejoin=\"round\">\n";
  std::size_t seen = 0;
  for (const PlotSeries* one : DrawingOrder(series)) {
    if (!one->faint) {
      svg += SvgCurve(*one, axes, columns);
      continue;
    }
    // Every n-th, spread over all.
    const bool is_drawn = (seen + 1) * drawn / faint > seen * drawn / faint;
    ++seen;
    if (is_drawn) svg += SvgCurve(*one, axes, faint_columns);
  }
  return svg + "</g></svg>\n";
}

}  // namespace

std::size_t FaintCurvesDrawn(std::size_t faint) {
  return std::min(faint, kMaxFaint);
}

std::string DrawSvg(const std::vector<PlotSeries>& series,
                    const PlotLabels& labels) {
  const std::size_t legend = series.size() - CountFaint(series);
  assert(legend <= kMaxPlotCurves);
  const std::string height =
      Fixed(kHeight + kLegendLine * static_cast<double>(legend));
  std::string svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " +
                    Fixed(kWidth) + " " + height + "\" width=\"" +
                    Fixed(kWidth) + "\" height=\"" + height +
                    "\" font-family=\"sans-serif\" font-size=\"13\">\n" +
                    "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n";
  svg += SvgText(kWidth / 2, kTop - 16, "middle", labels.title);
  const Axes axes = AxesOf(series, labels);
  svg += SvgAxes(axes);
  svg += SvgText(kLeft + kPlotWidth / 2, kHeight - kBottom + 40, "middle",
                 labels.x);
  svg += "<g transform=\"translate(20 " + Fixed(kTop + kPlotHeight / 2) +
         ") rotate(-90)\">" + SvgText(0, 0, "middle", labels.y) + "</g>\n";
  svg += SvgCurves(series, axes);
  double at = kHeight;
  for (const PlotSeries& one : series) {
    if (one.faint) continue;
    svg += SvgLine(kLeft, at - 4, kLeft + 40, at - 4, StrokeOf(one));
    svg += SvgText(kLeft + 48, at, "start", one.name);
    at += kLegendLine;
  }
  return svg + "</svg>\n";
}

namespace {

constexpr std::size_t kMaxTag = 12;

// Colours of curves in a terminal: the six that show on light and dark ones.
constexpr std::array kAnsiColors = {"\x1b[34m", "\x1b[33m", "\x1b[32m",
                                    "\x1b[35m", "\x1b[36m", "\x1b[31m"};

std::string AnsiColorOf(const PlotSeries& series) {
  return series.faint ? "\x1b[2m"
                      : kAnsiColors[series.color % kAnsiColors.size()];
}

char LetterOf(const PlotSeries& series) {
  if (series.faint) return '.';
  return static_cast<char>((series.dashed ? 'a' : 'A') + series.color % 26);
}

// The cells of a plot in characters, from its upper left corner. Each cell has
// 2 × 4 Braille dots, or a letter.
class CellGrid {
 public:
  explicit CellGrid(const TextCanvas& canvas)
      : width_(std::max<std::size_t>(canvas.width, 2)),
        height_(std::max<std::size_t>(canvas.height, 2)),
        utf8_(canvas.utf8),
        color_(canvas.color),
        cells_(width_ * height_) {}

  std::size_t width() const { return width_; }
  std::size_t height() const { return height_; }

  void Draw(const PlotSeries& series, const Axes& axes) {
    for (const auto& piece : Pieces(series, axes, width_)) {
      if (!utf8_ || piece.size() == 1) {
        for (const auto& point : piece) Mark(series, point.first, point.second);
        continue;
      }
      for (std::size_t i = 1; i < piece.size(); ++i) {
        DrawLine(series, piece[i - 1], piece[i]);
      }
    }
  }

  // The row in which a share of the vertical axis lies.
  std::size_t RowAt(double share) const {
    const double place =
        std::round((1 - share) * static_cast<double>(height_ - 1));
    return static_cast<std::size_t>(
        std::clamp(place, 0.0, static_cast<double>(height_ - 1)));
  }

  std::string Line(std::size_t row) const {
    std::string line;
    for (std::size_t column = 0; column < width_; ++column) {
      line += TextOf(cells_[row * width_ + column]);
    }
    return line;
  }

 private:
  struct Cell {
    std::uint8_t dots = 0;
    const PlotSeries* series = nullptr;  // the last one drawn here
  };

  // Sets the dot, or in letters the cell, at these shares of the axes.
  void Mark(const PlotSeries& series, double x, double y) {
    if (!(y >= 0 && y <= 1)) return;
    const auto place = [](double share, std::size_t size) {
      return static_cast<std::size_t>(
          std::round(share * static_cast<double>(size - 1)));
    };
    const std::size_t across = utf8_ ? 2 : 1, down = utf8_ ? 4 : 1;
    const std::size_t column = place(x, width_ * across);
    const std::size_t row = place(1 - y, height_ * down);
    // Bits of the dots in Unicode's Braille patterns, row by row.
    constexpr std::uint8_t kBits[4][2] = {
        {0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    Cell& cell = cells_[row / down * width_ + column / across];
    cell.dots |= kBits[row % down][column % across];
    cell.series = &series;
  }

  void DrawLine(const PlotSeries& series, const CurvePoint& from,
                const CurvePoint& to) {
    const double dx = (to.first - from.first) * static_cast<double>(width_) * 2;
    const double dy =
        (to.second - from.second) * static_cast<double>(height_) * 4;
    const double steps =
        std::max(1.0, std::ceil(std::max(std::abs(dx), std::abs(dy))));
    for (double step = 0; step <= steps; ++step) {
      const double part = step / steps;
      const double x = from.first + part * (to.first - from.first);
      // Two dots of four, by column, so that parts of a curve fit together.
      const auto dot = static_cast<std::int64_t>(
          std::round(x * static_cast<double>(width_ * 2 - 1)));
      if (series.dashed && dot % 4 > 1) continue;
      Mark(series, x, from.second + part * (to.second - from.second));
    }
  }

  std::string TextOf(const Cell& cell) const {
    if (cell.series == nullptr) return " ";
    std::string text(1, LetterOf(*cell.series));
    if (utf8_) {
      // U+2800 + dots.
      text = {static_cast<char>(0xE2), static_cast<char>(0xA0 | cell.dots >> 6),
              static_cast<char>(0x80 | (cell.dots & 0x3F))};
    }
    if (!color_) return text;
    return AnsiColorOf(*cell.series) + text + "\x1b[0m";
  }

  std::size_t width_;
  std::size_t height_;
  bool utf8_;
  bool color_;
  std::vector<Cell> cells_;
};

// The tag beside each row: that of a curve that ends there, or a free row
// nearby; the first curves first.
std::vector<const PlotSeries*> TagRows(const std::vector<PlotSeries>& series,
                                       const Axes& axes, const CellGrid& grid) {
  std::vector<const PlotSeries*> rows(grid.height(), nullptr);
  for (const PlotSeries& one : series) {
    if (one.faint || one.tag.empty()) continue;
    const auto pieces = Pieces(one, axes, grid.width());
    if (pieces.empty()) continue;
    const std::size_t end = grid.RowAt(pieces.back().back().second);
    for (std::size_t away = 0; away < grid.height(); ++away) {
      const std::size_t below = end + away;
      const std::size_t above = end - away;  // wraps: then out of the grid
      const std::size_t row =
          below < rows.size() && rows[below] == nullptr ? below : above;
      if (row >= rows.size() || rows[row] != nullptr) continue;
      rows[row] = &one;
      break;
    }
  }
  return rows;
}

std::string Colored(const TextCanvas& canvas, const PlotSeries& series,
                    const std::string& text) {
  if (!canvas.color) return text;
  return AnsiColorOf(series) + text + "\x1b[0m";
}

std::string PlotRows(const std::vector<PlotSeries>& series, const Axes& axes,
                     const TextCanvas& canvas, const std::vector<Tick>& ticks,
                     std::size_t margin) {
  CellGrid grid(canvas);
  for (const PlotSeries* one : DrawingOrder(series)) grid.Draw(*one, axes);
  const auto tags = TagRows(series, axes, grid);
  std::vector<std::string> marks(grid.height());
  for (const auto& [share, text] : ticks) {
    std::string& mark = marks[grid.RowAt(share)];
    if (mark.empty()) mark = text;
  }
  std::string text;
  for (std::size_t row = 0; row < grid.height(); ++row) {
    std::string line = std::string(margin - marks[row].size(), ' ') +
                       marks[row] + (marks[row].empty() ? " |" : " +") +
                       grid.Line(row);
    if (tags[row] != nullptr) {
      const std::string tag =
          EscapeForTerminal(Truncate(tags[row]->tag, kMaxTag));
      line += " " + Colored(canvas, *tags[row], tag);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

// The horizontal axis with its ticks, and below it their numbers.
std::string PlotFoot(const Axis& x, const PlotLabels& labels,
                     std::size_t columns, std::size_t margin) {
  std::string axis(columns, '-');
  std::string numbers(columns + 16, ' ');
  std::size_t free = 0;
  for (const auto& [share, text] :
       TicksOf(x, std::max(2, static_cast<int>(columns / 12)))) {
    const auto at = static_cast<std::size_t>(
        std::round(share * static_cast<double>(columns - 1)));
    const std::size_t begin = at - std::min(at, text.size() / 2);
    if (begin < free || begin + text.size() > numbers.size()) continue;
    axis[at] = '+';
    numbers.replace(begin, text.size(), text);
    free = begin + text.size() + 2;
  }
  numbers.erase(numbers.find_last_not_of(' ') + 1);
  const std::string before(margin, ' ');
  return before + " +" + axis + "\n" + before + "  " + numbers + "  " +
         EscapeForTerminal(labels.x) + "\n";
}

}  // namespace

std::string DrawText(const std::vector<PlotSeries>& series,
                     const PlotLabels& labels, const TextCanvas& canvas) {
  const Axes axes = AxesOf(series, labels);
  const auto ticks =
      TicksOf(axes.y, std::max(2, static_cast<int>(canvas.height / 3)));
  std::size_t margin = 0;
  for (const Tick& tick : ticks) margin = std::max(margin, tick.text.size());
  std::string text =
      EscapeForTerminal(labels.title) + "\n" +
      PlotRows(series, axes, canvas, ticks, margin) +
      PlotFoot(axes.x, labels, std::max<std::size_t>(canvas.width, 2), margin);
  for (const PlotSeries& one : series) {
    if (one.faint) continue;
    const std::string sample = canvas.utf8 ? (one.dashed ? "⠤ ⠤" : "⠤⠤⠤")
                                           : std::string(1, LetterOf(one));
    text += std::string(margin, ' ') + "  " + Colored(canvas, one, sample) +
            "  " + EscapeForTerminal(one.name) + "\n";
  }
  return text;
}

}  // namespace dtrain
