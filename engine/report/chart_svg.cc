// Figures as SVG.
//
// A curve may have millions of points, and a figure thousands of curves. Of the
// points in one pixel column only the first, the lowest, the highest and the
// last are drawn (Decimate), which gives the same picture as all of them; where
// there are many curves the columns are wider. Dots and bars that coincide to
// the pixel are drawn once. If the document is too large nevertheless, it is
// drawn again with wider columns and fewer faint marks, and says so.

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <map>
#include <set>

#include "engine/base/text.h"
#include "engine/report/chart.h"
#include "engine/report/chart_scale.h"
#include "engine/report/format.h"

namespace dtrain {
namespace {

// Sizes in the units of the document, in which the font has kFont: another font
// size scales the whole.
constexpr double kFont = 13;
constexpr double kTitle = 30;
constexpr double kLegendLine = 18;
constexpr std::size_t kMaxInOneColumn = 5;  // entries of the legend
constexpr double kPanelHeight = 510;
constexpr double kRowHeight = 20;
constexpr double kCharacter = 8.18;  // width of one in a line of text
constexpr double kMinPanelHeight = 150;

// Points of all coloured curves together, of all faint ones, and of dots; a
// point takes some 12 bytes.
constexpr std::size_t kMaxColumns = 800;  // a pixel each
constexpr std::size_t kMaxPoints = 7'500;
constexpr std::size_t kMaxFaintPoints = 6'500;
constexpr std::size_t kMaxFaintCurves = 200;

// ---- Elements of SVG as text. A dot is a stroke of length 0.1 with round or
// square ends, so that all dots of a style are one path element: thousands of
// circle elements would make a browser slow. Coordinates have one digit after
// the point, a tenth of a pixel.

// Colours that people with colour vision deficiencies can distinguish (after
// Okabe and Ito, 2008), with a contrast of 3:1 on white; the page has the same
// (c0 to c7 in style.css).
constexpr std::array kColors = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                "#b07c00", "#2e96d2", "#8c6bb1", "#7f7f7f"};
// Stroke patterns: of the first eight curves, of the next eight, and so on.
constexpr std::array kSolidPatterns = {"", "12 3 2 3", "2 2"};
constexpr std::array kDashedPatterns = {"6 4", "6 2 6 6", "3 6"};

// A coordinate, with one decimal.
std::string SvgNumber(double value) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%.1f", value);
  return text.data();
}

// A text of at most `width` characters. `style`: further attributes, each
// after a blank.
std::string SvgText(double x, double y, const char* anchor,
                    const std::string& text, std::size_t width = 100,
                    const std::string& style = "") {
  return "<text x=\"" + SvgNumber(x) + "\" y=\"" + SvgNumber(y) +
         "\" text-anchor=\"" + anchor + "\"" + style + ">" +
         EscapeXml(Truncate(ToValidUtf8(text), width)) + "</text>\n";
}

std::string SvgLine(double x1, double y1, double x2, double y2,
                    const std::string& style) {
  return "<path d=\"M" + SvgNumber(x1) + " " + SvgNumber(y1) + "L" +
         SvgNumber(x2) + " " + SvgNumber(y2) + "\" " + style + "/>\n";
}

// The colour of a subject: one of eight, or gray if it is faint.
const char* SvgColor(const MarkStyle& style) {
  return style.faint ? "#bbbbbb" : kColors[style.color % kColors.size()];
}

// The stroke attributes of a curve: eight colours, and three patterns of
// dashes for solid curves and three for dashed ones.
std::string SvgStroke(const MarkStyle& style) {
  if (style.faint) return "stroke=\"#bbbbbb\" stroke-width=\"0.7\"";
  const auto& patterns = style.dashed ? kDashedPatterns : kSolidPatterns;
  const std::string pattern =
      patterns[style.color / kColors.size() % patterns.size()];
  return std::string("stroke=\"") + SvgColor(style) +
         "\" stroke-width=\"1.5\"" +
         (pattern.empty() ? "" : " stroke-dasharray=\"" + pattern + "\"");
}

// Dots or crosses at the positions in `path`: disks, squares and rings for the
// first eight colours, the next eight, and so on.
std::string SvgDots(const MarkStyle& style, bool cross,
                    const std::string& path) {
  const std::string d = " d=\"" + path + "\"/>\n";
  if (cross) {
    return "<path stroke=\"#cc0000\" stroke-width=\"1.5\"" + d;
  }
  if (style.faint) {
    return "<path stroke=\"#888888\" stroke-width=\"4\" "
           "stroke-linecap=\"round\"" +
           d;
  }
  const std::size_t shape = style.color / kColors.size() % 3;
  const std::string cap = shape == 1 ? "square" : "round";
  std::string svg = std::string("<path stroke=\"") + SvgColor(style) +
                    "\" stroke-width=\"8\" stroke-linecap=\"" + cap + "\"" + d;
  if (shape == 2) {
    svg +=
        "<path stroke=\"white\" stroke-width=\"4\" stroke-linecap=\"round\"" +
        d;
  }
  return svg;
}

// The part of a path that is a dot, or a cross.
std::string SvgDotPath(double x, double y, bool cross) {
  if (!cross) return "M" + SvgNumber(x) + " " + SvgNumber(y) + "h.1";
  return "M" + SvgNumber(x - 4) + " " + SvgNumber(y - 4) + "l8 8m0-8l-8 8";
}

// ---- The figure.

// The triangle of an arrow, as a part of a path.
std::string SvgArrowPath(double x, double y, const EdgeArrow& arrow) {
  std::string path = "M" + SvgNumber(x) + " " + SvgNumber(y);
  if (arrow.right != 0)
    return path + (arrow.right > 0 ? "l-9-5v10z" : "l9-5v10z");
  return path + (arrow.up > 0 ? "l-5 9h10z" : "l-5-9h10z");
}

// Shade of a cell in ten steps.
int ShadeStep(double shade) {
  return static_cast<int>(std::clamp(std::floor(shade * 10), 0.0, 9.0));
}

// The path of colours that the page has for ranks (style.css).
std::string ShadeColor(int step) {
  constexpr std::array kShades = {"#839123", "#63933a", "#489251", "#368d67",
                                  "#2c847b", "#2b7687", "#316489", "#384d82",
                                  "#3e3073", "#42115f"};
  return kShades[static_cast<std::size_t>(step)];
}

// Width of the document, and the height that each row of panels has beyond that
// of its own.
struct Layout {
  double width = 900;
  double extra = 0;

  std::size_t LineLength() const {
    return static_cast<std::size_t>(width / kCharacter);
  }
};

// The rectangle of a panel, and within it that of its marks.
struct Frame {
  double left = 0;
  double top = 0;
  double width = 0;
  double height = 0;
  double margin = 0;  // space left of it

  double X(double share) const { return left + share * width; }
  double Y(double share) const { return top + (1 - share) * height; }
};

// Marks of the vertical axis of a panel.
std::vector<Tick> YTicks(const Scale& scale, double height) {
  return MakeTicks(scale, std::max(static_cast<int>(height / 70), 5));
}

// Coarseness of marks: 1 at first, doubled while the document is too
// large.
struct Detail {
  std::size_t coarseness = 1;
  std::size_t coloured_curves = 0;  // in all panels
  std::size_t faint_curves = 0;
  std::size_t dots = 0;

  std::size_t FaintCurvesDrawn() const {
    return std::min(faint_curves,
                    std::max<std::size_t>(kMaxFaintCurves / coarseness, 1));
  }
  // Columns for each of `curves`, so that all together stay within `points`.
  std::size_t ColumnsFor(std::size_t curves, std::size_t points) const {
    if (curves == 0) return kMaxColumns;
    return std::clamp<std::size_t>(points / coarseness / (4 * curves), 1,
                                   kMaxColumns);
  }
};

Detail CountMarks(const Figure& figure) {
  Detail detail;
  for (const Chart& chart : figure.panels) {
    for (const CurveMark& curve : chart.curves) {
      ++(curve.style.faint ? detail.faint_curves : detail.coloured_curves);
    }
    for (const DotMark& dots : chart.dots) detail.dots += dots.points.size();
  }
  return detail;
}

// Draws one panel into its frame.
class PanelDrawing {
 public:
  PanelDrawing(const Chart& chart, const Frame& frame, const Detail& detail,
               std::size_t& faint_seen)
      : chart_(chart),
        frame_(frame),
        detail_(detail),
        faint_seen_(faint_seen),
        scales_(MakeScales(chart)) {}

  std::string Draw() {
    if (!chart_.empty.empty()) {
      return SvgText(frame_.X(0.5), frame_.Y(0.5), "middle", chart_.empty,
                     static_cast<std::size_t>(frame_.width / 7));
    }
    std::string svg = chart_.parallel.empty() ? Axes() : ParallelAxes();
    svg += "<svg x=\"" + SvgNumber(frame_.left) + "\" y=\"" +
           SvgNumber(frame_.top) + "\" width=\"" + SvgNumber(frame_.width) +
           "\" height=\"" + SvgNumber(frame_.height) + "\" viewBox=\"" +
           SvgNumber(frame_.left) + " " + SvgNumber(frame_.top) + " " +
           SvgNumber(frame_.width) + " " + SvgNumber(frame_.height) +
           "\" fill=\"none\" stroke-linejoin=\"round\">\n";
    svg += Cells() + Bars() + Bands();
    svg += Curves(/*faint=*/true) + Dots(/*faint=*/true);
    svg += Curves(/*faint=*/false) + Dots(/*faint=*/false);
    svg += Arrows();
    svg += "</svg>\n" + BarTexts();
    if (!chart_.parallel.empty()) svg += ParallelTexts();
    return svg;
  }

 private:
  static std::size_t TextWidth(double pixels) {
    return std::max<std::size_t>(static_cast<std::size_t>(pixels / 7), 4);
  }

  std::string Axes() const {
    const std::string line = "stroke=\"#555555\"";
    const double bottom = frame_.Y(0), right = frame_.X(1);
    std::string svg;
    for (const auto& [share, text] : YTicks(scales_.y, frame_.height)) {
      const double at = frame_.Y(share);
      if (chart_.bars.empty()) {
        svg += SvgLine(frame_.left, at, right, at, "stroke=\"#dddddd\"");
      }
      svg += SvgText(frame_.left - 8, at + 4, "end", text,
                     TextWidth(frame_.margin - 8));
    }
    const auto ticks =
        MakeTicks(scales_.x, std::max(static_cast<int>(frame_.width / 100), 5));
    for (const auto& [share, text] : ticks) {
      const double at = frame_.X(share);
      svg += SvgLine(at, bottom, at, bottom + 5, line);
      const double space = frame_.width / static_cast<double>(ticks.size());
      svg += SvgText(at, bottom + 19, "middle", text, TextWidth(space));
    }
    svg += SvgLine(frame_.left, bottom, right, bottom, line) +
           SvgLine(frame_.left, frame_.top, frame_.left, bottom, line);
    svg += SvgText(frame_.X(0.5), bottom + 40, "middle", chart_.x.label,
                   TextWidth(frame_.width));
    if (chart_.y.label.empty()) return svg;
    return svg + "<g transform=\"translate(" +
           SvgNumber(frame_.left - frame_.margin + 16) + " " +
           SvgNumber(frame_.Y(0.5)) + ") rotate(-90)\">" +
           SvgText(0, 0, "middle", chart_.y.label, TextWidth(frame_.height)) +
           "</g>\n";
  }

  std::string ParallelAxes() const {
    std::string svg;
    for (std::size_t i = 0; i < chart_.parallel.size(); ++i) {
      const double x = frame_.X(scales_.x.Share(static_cast<double>(i)));
      svg += SvgLine(x, frame_.Y(0), x, frame_.Y(1), "stroke=\"#555555\"");
    }
    return svg;
  }

  // Names and numbers of parallel axes, over the curves. Names of neighbours
  // stand above and below.
  std::string ParallelTexts() const {
    const double space =
        frame_.width / static_cast<double>(chart_.parallel.size());
    const std::string halo =
        " font-size=\"11\" stroke=\"white\" stroke-width=\"3\" "
        "paint-order=\"stroke\"";
    std::string svg;
    for (std::size_t i = 0; i < chart_.parallel.size(); ++i) {
      const double x = frame_.X(scales_.x.Share(static_cast<double>(i)));
      svg += SvgText(x, i % 2 == 0 ? frame_.top - 10 : frame_.Y(0) + 20,
                     "middle", chart_.parallel[i].name, TextWidth(2 * space));
      for (const auto& [share, text] : chart_.parallel[i].ticks) {
        svg += SvgText(x + 4, frame_.Y(share) + 4, "start", text,
                       TextWidth(space - 4), halo);
      }
    }
    return svg;
  }

  std::string Cells() const {
    std::map<int, std::string> paths;
    for (const CellMark& cell : chart_.cells) {
      const double x = frame_.X(scales_.x.Share(cell.left));
      const double y = frame_.Y(scales_.y.Share(cell.top));
      const double width = frame_.X(scales_.x.Share(cell.right)) - x;
      const double height = frame_.Y(scales_.y.Share(cell.bottom)) - y;
      // Written so that a NaN is left out.
      if (!(width > 0 && height > 0)) continue;
      paths[ShadeStep(cell.shade)] +=
          "M" + SvgNumber(x) + " " + SvgNumber(y) + "h" + SvgNumber(width) +
          "v" + SvgNumber(height) + "h-" + SvgNumber(width) + "z";
    }
    std::string svg;
    for (const auto& [step, path] : paths) {
      const std::string color = ShadeColor(step);
      svg += "<path fill=\"" + color + "\" stroke=\"" + color +
             "\" stroke-width=\"0.5\" d=\"" + path + "\"/>\n";
    }
    return svg;
  }

  double BarHeight() const {
    const auto rows = std::max<std::size_t>(chart_.y.names.size(), 1);
    return 0.7 * frame_.height / static_cast<double>(rows);
  }

  double RowY(const BarMark& bar) const {
    return frame_.Y(scales_.y.Share(static_cast<double>(bar.row)));
  }

  // Bars of one style and row that touch are joined.
  std::string Bars() const {
    std::map<MarkStyle, std::map<double, std::vector<Span>>> spans;
    for (const BarMark& bar : chart_.bars) {
      const double from = frame_.X(scales_.x.Share(bar.from));
      const double to = frame_.X(scales_.x.Share(bar.to));
      if (!(from <= to) || bar.hatched) continue;
      spans[bar.style][RowY(bar)].push_back({from, to});
    }
    const double gap = 0.5 * static_cast<double>(detail_.coarseness);
    std::string svg;
    for (auto& [style, rows] : spans) {
      std::string path;
      for (auto& [y, row] : rows) {
        std::ranges::sort(row, {}, &Span::begin);
        for (std::size_t i = 0, next = 0; i < row.size(); i = next) {
          double to = row[i].end;
          for (next = i + 1; next < row.size() && row[next].begin < to + gap;
               ++next) {
            to = std::max(to, row[next].end);
          }
          path += "M" + SvgNumber(row[i].begin) + " " + SvgNumber(y) + "h" +
                  SvgNumber(std::max(to - row[i].begin, 0.5));
        }
      }
      svg += std::string("<path stroke=\"") + SvgColor(style) +
             "\" stroke-width=\"" + SvgNumber(BarHeight()) + "\" d=\"" + path +
             "\"/>\n";
    }
    return svg + HatchedBars() + Intervals();
  }

  // Outlines filled with oblique lines.
  std::string HatchedBars() const {
    std::string svg;
    const double height = BarHeight();
    for (const BarMark& bar : chart_.bars) {
      if (!bar.hatched) continue;
      const double from = frame_.X(scales_.x.Share(bar.from));
      const double to = frame_.X(scales_.x.Share(bar.to));
      const double bottom = RowY(bar) + height / 2;
      std::string path = "M" + SvgNumber(from) + " " + SvgNumber(bottom) + "H" +
                         SvgNumber(to) + "v" + SvgNumber(-height) + "H" +
                         SvgNumber(from) + "z";
      for (double x = from - height; x < to; x += 6) {
        // Cut at the ends of the bar.
        const double left = std::max(x, from), right = std::min(x + height, to);
        path += "M" + SvgNumber(left) + " " + SvgNumber(bottom - (left - x)) +
                "L" + SvgNumber(right) + " " + SvgNumber(bottom - (right - x));
      }
      svg += std::string("<path stroke=\"") + SvgColor(bar.style) + "\" d=\"" +
             path + "\"/>\n";
    }
    return svg;
  }

  std::string Intervals() const {
    std::string svg;
    for (const BarMark& bar : chart_.bars) {
      if (!bar.interval) continue;
      svg += SvgLine(frame_.X(scales_.x.Share(bar.interval->first)), RowY(bar),
                     frame_.X(scales_.x.Share(bar.interval->second)), RowY(bar),
                     "stroke=\"#222222\" stroke-width=\"2\"");
    }
    return svg;
  }

  std::string BarTexts() const {
    std::string svg;
    for (const BarMark& bar : chart_.bars) {
      if (bar.text.empty()) continue;
      const double end =
          bar.interval ? std::max(bar.to, bar.interval->second) : bar.to;
      svg += SvgText(frame_.X(scales_.x.Share(end)) + 6, RowY(bar) + 4, "start",
                     bar.text);
    }
    return svg;
  }

  // Areas; what lies beyond the axes is cut by the element around them.
  std::string Bands() const {
    std::string svg;
    for (const BandMark& band : chart_.bands) {
      std::string path;
      const auto add = [&](const CurvePoint& point) {
        const double x = scales_.x.Share(point.first);
        if (!std::isfinite(x)) return;
        // Not positive on a logarithmic axis: below all.
        const double share = scales_.y.Share(point.second);
        const double y =
            std::isfinite(share) ? std::clamp(share, -9.0, 9.0) : -9.0;
        path += (path.empty() ? "M" : "L") + SvgNumber(frame_.X(x)) + " " +
                SvgNumber(frame_.Y(y));
      };
      const std::size_t step = detail_.coarseness;
      const std::size_t last = band.low.size() - 1;
      for (std::size_t i = 0; i < last + step; i += step) {
        add(band.high[std::min(i, last)]);
      }
      for (std::size_t i = 0; i < last + step; i += step) {
        add(band.low[last - std::min(i, last)]);
      }
      svg += std::string("<path fill=\"") + SvgColor(band.style) +
             "\" fill-opacity=\"0.2\" d=\"" + path + "z\"/>\n";
    }
    return svg;
  }

  std::string Curves(bool faint) {
    const std::size_t drawn = detail_.FaintCurvesDrawn();
    const std::size_t columns =
        faint ? detail_.ColumnsFor(drawn, kMaxFaintPoints)
              : detail_.ColumnsFor(detail_.coloured_curves, kMaxPoints);
    std::string svg;
    for (auto mark = chart_.curves.rbegin(); mark != chart_.curves.rend();
         ++mark) {
      const CurveMark& curve = *mark;
      if (curve.style.faint != faint) continue;
      if (faint) {
        // Every n-th, spread over all.
        const std::size_t seen = faint_seen_++;
        if ((seen + 1) * drawn / detail_.faint_curves ==
            seen * drawn / detail_.faint_curves) {
          continue;
        }
      }
      const std::string path = CurvePath(curve, columns);
      if (path.empty()) continue;
      svg += "<path " + SvgStroke(curve.style) + " d=\"" + path + "\"/>\n";
    }
    return svg;
  }

  std::string CurvePath(const CurveMark& curve, std::size_t columns) const {
    std::string path;
    for (const auto& piece : CurvePieces(curve, scales_, columns)) {
      char command = 'M';
      for (const auto& [x, y] : piece) {
        path += command + SvgNumber(frame_.X(x)) + " " + SvgNumber(frame_.Y(y));
        command = 'L';
      }
      // A single point would be invisible.
      if (piece.size() == 1) path += "h1";
    }
    return path;
  }

  // Arrows at the edges, for dots and curves that lie beyond; those of one
  // pixel and colour are drawn once.
  std::string Arrows() const {
    std::map<std::string, std::set<std::string>> paths;
    const auto add = [&](const MarkStyle& style,
                         const std::optional<EdgeArrow>& arrow) {
      if (!arrow) return;
      paths[SvgColor(style)].insert(SvgArrowPath(std::round(frame_.X(arrow->x)),
                                                 frame_.Y(arrow->y), *arrow));
    };
    if (!scales_.x.arrows && !scales_.y.arrows) return "";
    for (const CurveMark& curve : chart_.curves) {
      for (const auto& piece : CurvePieces(curve, scales_, kMaxColumns)) {
        add(curve.style, FindArrow(piece, scales_));
      }
    }
    for (const DotMark& dots : chart_.dots) {
      for (const auto& [x, y] : dots.points) {
        if (dots.cross) continue;
        add(dots.style,
            FindArrow({scales_.x.Share(x), scales_.y.Share(y)}, scales_));
      }
    }
    std::string svg;
    for (const auto& [color, arrows] : paths) {
      svg += "<path fill=\"" + color + "\" d=\"";
      for (const std::string& arrow : arrows) svg += arrow;
      svg += "\"/>\n";
    }
    return svg;
  }

  // Dots in one raster of pixels, wider the coarser, are drawn once.
  std::string Dots(bool faint) const {
    const double raster = static_cast<double>(detail_.coarseness);
    std::string svg;
    for (auto mark = chart_.dots.rbegin(); mark != chart_.dots.rend(); ++mark) {
      const DotMark& dots = *mark;
      if (dots.style.faint != faint) continue;
      std::set<std::pair<std::int64_t, std::int64_t>> seen;
      std::string path;
      for (const auto& [x, y] : dots.points) {
        double at_x = scales_.x.Share(x), at_y = scales_.y.Share(y);
        if (const auto arrow = FindArrow({at_x, at_y}, scales_)) {
          if (!dots.cross) continue;
          at_x = arrow->x;
          at_y = arrow->y;
        }
        if (!(at_x >= 0 && at_x <= 1 && at_y >= 0 && at_y <= 1)) continue;
        const double place_x = frame_.X(at_x), place_y = frame_.Y(at_y);
        const std::pair pixel(std::llround(place_x / raster),
                              std::llround(place_y / raster));
        if (seen.insert(pixel).second) {
          path += SvgDotPath(place_x, place_y, dots.cross);
        }
      }
      if (!path.empty()) svg += SvgDots(dots.style, dots.cross, path);
    }
    return svg;
  }

  const Chart& chart_;
  const Frame frame_;
  const Detail& detail_;
  std::size_t& faint_seen_;
  const Scales scales_;
};

// Number of panels beside each other: one if texts beside bars take the space.
std::size_t PanelsAcross(const Figure& figure, const Layout& layout) {
  constexpr std::size_t kLongText = 8;
  constexpr double kMinPanelWidth = 250;
  const bool has_texts =
      std::ranges::any_of(figure.panels, [](const Chart& chart) {
        return std::ranges::any_of(chart.bars, [](const BarMark& bar) {
          return bar.text.size() > kLongText;
        });
      });
  const std::size_t panels = figure.panels.size();
  const auto fit = static_cast<std::size_t>(layout.width / kMinPanelWidth);
  if (panels <= 1 || has_texts || fit <= 1) return 1;
  return std::min<std::size_t>(panels <= 4 ? 2 : 3, fit);
}

// Height of a panel: by its rows, if it has bars; lower in a narrow document.
double PanelHeight(const Chart& chart, std::size_t across,
                   const Layout& layout) {
  if (!chart.bars.empty()) {
    const auto rows = static_cast<double>(chart.y.names.size());
    return 90 + std::max(rows, 3.0) * kRowHeight;
  }
  const double height = across == 1 ? kPanelHeight : across == 2 ? 340 : 280;
  return height * std::min(1.0, layout.width / Layout().width);
}

// Space left of the axis, for its numbers or names and its label.
double LeftMargin(const Chart& chart, double width, double height) {
  if (!chart.parallel.empty()) return 60;
  std::size_t longest = 0;
  for (const Tick& tick : YTicks(MakeScales(chart).y, height)) {
    longest = std::max(longest, DisplayWidth(ToValidUtf8(tick.text)));
  }
  const double texts =
      (chart.y.label.empty() ? 15 : 34) + 8.3 * static_cast<double>(longest);
  return std::clamp(texts, 80.0, width / 3);
}

// Space right of the axis, for the texts beside the longest bars.
double RightMargin(const Chart& chart) {
  std::size_t longest = 0;
  for (const BarMark& bar : chart.bars) {
    longest = std::max(longest, DisplayWidth(ToValidUtf8(bar.text)));
  }
  return 20 + 7.2 * static_cast<double>(longest);
}

std::string LegendSample(const LegendEntry& entry, double left, double y) {
  switch (entry.sample) {
    case LegendEntry::Sample::kCurve:
      return SvgLine(left, y, left + 40, y, SvgStroke(entry.style));
    case LegendEntry::Sample::kDot:
      return SvgDots(entry.style, false, SvgDotPath(left + 20, y, false));
    case LegendEntry::Sample::kCross:
      return SvgDots(entry.style, true, SvgDotPath(left + 20, y, true));
    case LegendEntry::Sample::kBar:
      break;
  }
  return SvgLine(left + 5, y, left + 35, y,
                 std::string("stroke=\"") + SvgColor(entry.style) +
                     "\" stroke-width=\"11\"");
}

// Draws the legend below `at` and moves it to its last line. Many entries stand
// in columns, the first ones below each other.
std::string SvgLegend(const std::vector<LegendEntry>& legend,
                      const Layout& layout, double& at) {
  constexpr double kLeft = 80, kSample = 48, kGap = 24;
  std::size_t longest = 0;
  for (const LegendEntry& entry : legend) {
    longest = std::max(longest, DisplayWidth(ToValidUtf8(entry.name)));
  }
  const double column = kSample + kGap + 8.3 * static_cast<double>(longest);
  const double fit = std::floor((layout.width - kLeft) / column);
  const auto columns =
      legend.size() <= kMaxInOneColumn
          ? std::size_t{1}
          : static_cast<std::size_t>(std::clamp(fit, 1.0, 4.0));
  const std::size_t rows = (legend.size() + columns - 1) / columns;
  std::string svg;
  for (std::size_t i = 0; i < legend.size(); ++i) {
    const double left = kLeft + column * static_cast<double>(i / rows);
    const double y = at + kLegendLine * static_cast<double>(i % rows + 1);
    svg += LegendSample(legend[i], left, y - 4) +
           SvgText(left + kSample, y, "start", legend[i].name);
  }
  at += kLegendLine * static_cast<double>(rows);
  return svg;
}

std::string ShadeLegend(const Figure& figure, double y) {
  std::string svg = SvgText(80, y, "start", figure.light, 30);
  const double left =
      80 + 8 * static_cast<double>(DisplayWidth(Truncate(figure.light, 30)));
  for (int step = 0; step < 10; ++step) {
    svg += SvgLine(left + step * 16, y - 4, left + step * 16 + 16, y - 4,
                   "stroke=\"" + ShadeColor(step) + "\" stroke-width=\"12\"");
  }
  return svg + SvgText(left + 168, y, "start", figure.dark, 30);
}

// Draws all panels below `top`; moves it below the last one.
std::string SvgPanels(const Figure& figure, const Detail& detail,
                      const Layout& layout, double& top) {
  const std::size_t across = PanelsAcross(figure, layout);
  const double width = layout.width / static_cast<double>(across);
  std::size_t faint_seen = 0;
  std::string svg;
  for (std::size_t first = 0; first < figure.panels.size(); first += across) {
    const std::size_t end = std::min(first + across, figure.panels.size());
    double height = 0;
    for (std::size_t i = first; i < end; ++i) {
      height = std::max(height, PanelHeight(figure.panels[i], across, layout));
    }
    const double extra = std::max(layout.extra, kMinPanelHeight - height);
    height += extra;
    for (std::size_t i = first; i < end; ++i) {
      const Chart& chart = figure.panels[i];
      const double left = static_cast<double>(i - first) * width;
      const double above = 10 + (chart.title.empty() ? 0 : 22) +
                           (chart.parallel.empty() ? 0 : 15);
      const double inner =
          PanelHeight(chart, across, layout) + extra - above - 55;
      const double margin = LeftMargin(chart, width, inner);
      const Frame frame = {
          .left = left + margin,
          .top = top + above,
          .width = std::max(width - margin - RightMargin(chart), width / 4),
          .height = inner,
          .margin = margin};
      if (!chart.title.empty()) {
        svg += SvgText(left + width / 2, top + 14, "middle", chart.title,
                       static_cast<std::size_t>(width / 7));
      }
      svg += PanelDrawing(chart, frame, detail, faint_seen).Draw();
    }
    top += height;
  }
  return svg;
}

// Splits titles and notes at blanks: their ends say how much is shown.
std::vector<std::string> WrapText(const std::string& text, std::size_t length) {
  std::vector<std::string> lines(1);
  for (const std::string& word : Split(text, ' ')) {
    std::string& line = lines.back();
    const bool fits = DisplayWidth(ToValidUtf8(line + word)) < length;
    if (line.empty() || fits) {
      line += (line.empty() ? "" : " ") + word;
    } else {
      lines.push_back(word);
    }
  }
  return lines;
}

// Draws all; `at` becomes the place of the last line.
std::string SvgBody(const Figure& figure, const Detail& detail,
                    const std::vector<std::string>& notes, const Layout& layout,
                    double& at) {
  const std::size_t length = layout.LineLength();
  at = kTitle - kLegendLine;
  std::string body;
  for (const std::string& line : WrapText(figure.title, length)) {
    at += kLegendLine;
    body += SvgText(layout.width / 2, at - 6, "middle", line, length);
  }
  body += SvgPanels(figure, detail, layout, at);
  if (!figure.dark.empty()) {
    at += kLegendLine;
    body += ShadeLegend(figure, at);
  }
  body += SvgLegend(figure.legend, layout, at);
  for (const std::string& note : notes) {
    for (const std::string& line : WrapText(note, length)) {
      at += kLegendLine;
      body += SvgText(80, at, "start", line, length,
                      " font-size=\"12\" fill=\"#555555\"");
    }
  }
  return body;
}

std::string SvgDocument(const Figure& figure, const Detail& detail,
                        const std::vector<std::string>& notes,
                        const SvgSize& size) {
  constexpr double kBelow = 12;
  const double scale = size.font_size / kFont;
  Layout layout{.width = size.width / scale};
  double at = 0;
  std::string body = SvgBody(figure, detail, notes, layout, at);
  if (size.height) {
    const std::size_t across = PanelsAcross(figure, layout);
    const std::size_t rows = (figure.panels.size() + across - 1) / across;
    layout.extra =
        (*size.height / scale - at - kBelow) / static_cast<double>(rows);
    body = SvgBody(figure, detail, notes, layout, at);
  }
  const double height = at + kBelow;
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " +
         SvgNumber(layout.width) + " " + SvgNumber(height) + "\" width=\"" +
         SvgNumber(size.width) + "\" height=\"" + SvgNumber(height * scale) +
         "\" font-family=\"sans-serif\" font-size=\"13\">\n"
         "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n" +
         body + "</svg>\n";
}

std::vector<std::string> MakeNotes(const Figure& figure, const Detail& detail) {
  std::vector<std::string> notes;
  if (detail.FaintCurvesDrawn() < detail.faint_curves) {
    notes.push_back("of the " + std::to_string(detail.faint_curves) +
                    " gray curves every n-th is drawn, " +
                    std::to_string(detail.FaintCurvesDrawn()) + " in all");
  }
  if (detail.coarseness > 1 && detail.dots > 0) {
    notes.push_back("points less than " + std::to_string(detail.coarseness) +
                    " pixels apart are drawn as one");
  }
  notes.insert(notes.begin(), figure.notes.begin(), figure.notes.end());
  return notes;
}

}  // namespace

Drawing DrawSvg(const Figure& figure, const SvgSize& size,
                std::size_t max_bytes) {
  assert(figure.legend.size() <= kMaxLegend);
  assert(size.width >= kMinSvgWidth * size.font_size);
  Detail detail = CountMarks(figure);
  while (true) {
    auto notes = MakeNotes(figure, detail);
    std::string svg = SvgDocument(figure, detail, notes, size);
    if (svg.size() <= max_bytes || detail.coarseness >= 1024) {
      notes.erase(notes.begin(), notes.begin() + static_cast<std::ptrdiff_t>(
                                                     figure.notes.size()));
      return {std::move(svg), std::move(notes)};
    }
    detail.coarseness *= 2;
  }
}

}  // namespace dtrain
