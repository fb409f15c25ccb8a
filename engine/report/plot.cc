// Plots of metrics as SVG and as text.
//
// A curve may have millions of points. Of the points that fall on one pixel
// column only the first, the lowest, the highest and the last are drawn, which
// gives the same picture. NaN and infinities interrupt a curve.

#include "engine/report/plot.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>

#include "engine/base/text.h"
#include "engine/report/format.h"

namespace dtrain {
namespace {

// Sizes of the SVG in its units.
constexpr double kWidth = 900;
constexpr double kHeight = 540;
constexpr double kLeft = 80;
constexpr double kRight = 20;
constexpr double kTop = 40;
constexpr double kBottom = 55;
constexpr double kLegendLine = 18;
// Colours that people with colour vision deficiencies can distinguish (Okabe
// and Ito, 2008).
constexpr std::array kColors = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                "#e69f00", "#56b4e9", "#000000", "#999933"};
constexpr char kLetters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

// Limit above which the size of a range overflows.
constexpr double kMax = 1e300;

bool IsShown(const std::pair<double, double>& point) {
  return std::abs(point.first) < kMax && std::abs(point.second) < kMax;
}

// A non-empty range of values.
struct Range {
  double low = 0;
  double high = 1;

  double size() const { return high - low; }
  // 0 at `low`, 1 at `high`.
  double Share(double value) const { return (value - low) / size(); }
};

template <typename Coordinate>
Range RangeOf(const std::vector<PlotSeries>& series, Coordinate coordinate) {
  Range range{.low = INFINITY, .high = -INFINITY};
  for (const PlotSeries& one : series) {
    for (const auto& point : one.points) {
      if (!IsShown(point)) continue;
      range.low = std::min(range.low, coordinate(point));
      range.high = std::max(range.high, coordinate(point));
    }
  }
  if (!(range.low <= range.high)) return {};
  if (range.low == range.high) {
    const double margin = range.low == 0 ? 1 : std::abs(range.low) * 0.1;
    range = {.low = range.low - margin, .high = range.high + margin};
  }
  return range;
}

Range XRange(const std::vector<PlotSeries>& series) {
  return RangeOf(series, [](const auto& point) { return point.first; });
}

Range YRange(const std::vector<PlotSeries>& series) {
  return RangeOf(series, [](const auto& point) { return point.second; });
}

std::string Fixed(double value) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%.1f", value);
  return text.data();
}

// The points of one curve on the canvas. Of those that fall on one column only
// the first, the lowest, the highest and the last are drawn.
class Path {
 public:
  Path(Range x, Range y) : x_(x), y_(y) {}

  std::string Draw(const PlotSeries& series) {
    for (const auto& point : series.points) {
      if (!IsShown(point)) {
        EndColumn();
        pen_down_ = false;
        continue;
      }
      Take(kLeft + x_.Share(point.first) * (kWidth - kLeft - kRight),
           kTop + (1 - y_.Share(point.second)) * (kHeight - kTop - kBottom));
    }
    EndColumn();
    return std::move(text_);
  }

 private:
  void Take(double x, double y) {
    if (count_ > 0 && std::floor(x) != std::floor(column_)) EndColumn();
    if (count_++ == 0) {
      column_ = x;
      first_ = low_ = high_ = y;
    }
    low_ = std::min(low_, y);
    high_ = std::max(high_, y);
    last_ = y;
  }

  void EndColumn() {
    if (count_ == 0) return;
    LineTo(first_);
    if (count_ > 2) {
      LineTo(low_);
      LineTo(high_);
    }
    if (count_ > 1) LineTo(last_);
    count_ = 0;
  }

  void LineTo(double y) {
    text_ += (pen_down_ ? "L" : "M") + Fixed(column_) + " " + Fixed(y);
    pen_down_ = true;
  }

  const Range x_;
  const Range y_;
  std::string text_;
  bool pen_down_ = false;
  int count_ = 0;
  double column_ = 0;
  double first_ = 0;
  double low_ = 0;
  double high_ = 0;
  double last_ = 0;
};

std::string SvgText(double x, double y, const char* anchor,
                    const std::string& text) {
  return "<text x=\"" + Fixed(x) + "\" y=\"" + Fixed(y) + "\" text-anchor=\"" +
         anchor + "\">" + EscapeXml(text) + "</text>\n";
}

std::string SvgLine(double x1, double y1, double x2, double y2,
                    const char* color) {
  return "<path d=\"M" + Fixed(x1) + " " + Fixed(y1) + "L" + Fixed(x2) + " " +
         Fixed(y2) + "\" stroke=\"" + color + "\"/>\n";
}

std::string SvgAxes(Range x, Range y) {
  const double bottom = kHeight - kBottom;
  const double right = kWidth - kRight;
  std::string svg;
  for (const double tick : AxisTicks(y.low, y.high, 6)) {
    const double at = kTop + (1 - y.Share(tick)) * (bottom - kTop);
    svg += SvgLine(kLeft, at, right, at, "#dddddd");
    svg += SvgText(kLeft - 8, at + 4, "end", FormatMetric(tick));
  }
  for (const double tick : AxisTicks(x.low, x.high, 8)) {
    const double at = kLeft + x.Share(tick) * (right - kLeft);
    svg += SvgLine(at, bottom, at, bottom + 5, "#555555");
    svg += SvgText(at, bottom + 19, "middle", FormatMetric(tick));
  }
  return svg + SvgLine(kLeft, bottom, right, bottom, "#555555") +
         SvgLine(kLeft, kTop, kLeft, bottom, "#555555");
}

// The canvas of DrawText, from its upper left corner.
class Grid {
 public:
  Grid(std::size_t width, std::size_t height)
      : lines_(height, std::string(width, ' ')) {}

  void Mark(double x, double y, char letter) {
    const auto at = [](double share, std::size_t size) {
      const double place = std::round(share * static_cast<double>(size - 1));
      return static_cast<std::size_t>(place);
    };
    const std::size_t row = at(1 - y, lines_.size());
    lines_[row][at(x, lines_[row].size())] = letter;
  }
  const std::vector<std::string>& lines() const { return lines_; }

 private:
  std::vector<std::string> lines_;
};

char LetterOf(std::size_t index) {
  return kLetters[index % (sizeof(kLetters) - 1)];
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
    ticks.push_back(i * step);
  }
  return ticks;
}

std::string DrawSvg(const std::vector<PlotSeries>& series,
                    const PlotLabels& labels) {
  const Range x = XRange(series);
  const Range y = YRange(series);
  const double height =
      kHeight + kLegendLine * static_cast<double>(series.size());
  std::string svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " +
                    Fixed(kWidth) + " " + Fixed(height) + "\" width=\"" +
                    Fixed(kWidth) + "\" height=\"" + Fixed(height) +
                    "\" font-family=\"sans-serif\" font-size=\"13\">\n" +
                    "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n";
  svg += SvgText(kWidth / 2, kTop - 16, "middle", labels.title);
  svg += SvgAxes(x, y);
  svg +=
      SvgText((kWidth + kLeft) / 2, kHeight - kBottom + 40, "middle", labels.x);
  for (std::size_t i = 0; i < series.size(); ++i) {
    const std::string color = kColors[i % kColors.size()];
    svg += "<path fill=\"none\" stroke=\"" + color +
           "\" stroke-width=\"1.5\" stroke-linejoin=\"round\" d=\"" +
           Path(x, y).Draw(series[i]) + "\"/>\n";
    const double at = kHeight + kLegendLine * static_cast<double>(i);
    svg += SvgLine(kLeft, at - 4, kLeft + 30, at - 4, color.c_str());
    svg += SvgText(kLeft + 38, at, "start", series[i].name);
  }
  return svg + "</svg>\n";
}

std::string DrawText(const std::vector<PlotSeries>& series,
                     const PlotLabels& labels, std::size_t width,
                     std::size_t height) {
  const Range x = XRange(series);
  const Range y = YRange(series);
  Grid grid(std::max<std::size_t>(width, 2), std::max<std::size_t>(height, 2));
  for (std::size_t i = 0; i < series.size(); ++i) {
    for (const auto& point : series[i].points) {
      if (!IsShown(point)) continue;
      grid.Mark(x.Share(point.first), y.Share(point.second), LetterOf(i));
    }
  }
  const std::string high = FormatMetric(y.high);
  const std::string low = FormatMetric(y.low);
  const std::size_t margin = std::max(high.size(), low.size());
  const auto before = [&](const std::string& text) {
    return std::string(margin - text.size(), ' ') + text;
  };
  std::string text = EscapeForTerminal(labels.title) + "\n";
  for (std::size_t row = 0; row < grid.lines().size(); ++row) {
    const bool first = row == 0;
    const bool last = row == grid.lines().size() - 1;
    text += before(first ? high : last ? low : "") + " |" + grid.lines()[row];
    text.erase(text.find_last_not_of(' ') + 1);
    text += '\n';
  }
  const std::size_t columns = grid.lines().front().size();
  text += before("") + " +" + std::string(columns, '-') + "\n";
  const std::string left = FormatMetric(x.low);
  const std::string right = FormatMetric(x.high) + " " + labels.x;
  const std::size_t used = left.size() + right.size();
  text += before("") + "  " + left +
          std::string(columns > used ? columns - used : 1, ' ') + right + "\n";
  for (std::size_t i = 0; i < series.size(); ++i) {
    text += before("") + "  " + LetterOf(i) + "  " +
            EscapeForTerminal(series[i].name) + "\n";
  }
  return text;
}

}  // namespace dtrain
