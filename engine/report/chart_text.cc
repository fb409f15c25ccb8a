// Figures in characters.
//
// A panel is a grid of characters. Each holds 2 × 4 Braille dots or one glyph;
// the last mark drawn there decides. The gutter left of the grid has the
// numbers or names of the vertical axis, the one right of it the tags of curves
// and the texts of bars.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string_view>

#include "engine/base/text.h"
#include "engine/report/chart.h"
#include "engine/report/chart_scale.h"
#include "engine/report/format.h"

namespace dtrain {
namespace {

constexpr std::size_t kMaxTag = 12;
constexpr std::size_t kMinColumns = 10;
constexpr std::size_t kMinPanelRows = 8;  // of a panel that is made lower

// Colours of marks in a terminal: the six that show on light and dark ones.
constexpr std::array kAnsiColors = {"\x1b[34m", "\x1b[33m", "\x1b[32m",
                                    "\x1b[35m", "\x1b[36m", "\x1b[31m"};

// Fillings of bars by their number, and shades of cells from light to dark.
constexpr std::array kFillings = {"█", "▒", "░", "▓", "▚", "▪"};
constexpr std::array kAsciiFillings = {"#", "=", "-", "%", "+", "~"};
constexpr std::array kShades = {"░", "▒", "▓", "█"};
constexpr std::array kAsciiShades = {".", ":", "-", "=", "+", "*", "%", "@"};

std::string AnsiColor(const MarkStyle& style) {
  return style.faint ? "\x1b[2m"
                     : kAnsiColors[style.color % kAnsiColors.size()];
}

std::string MarkLetter(const MarkStyle& style) {
  if (style.faint) return ".";
  return std::string(
      1, static_cast<char>((style.dashed ? 'a' : 'A') + style.color % 26));
}

std::string FillGlyph(const MarkStyle& style, bool utf8) {
  return utf8 ? kFillings[style.color % kFillings.size()]
              : kAsciiFillings[style.color % kAsciiFillings.size()];
}

template <typename Shades>
std::string Pick(const Shades& shades, double shade) {
  const auto count = static_cast<double>(shades.size());
  const double step = std::clamp(std::floor(shade * count), 0.0, count - 1);
  return shades[static_cast<std::size_t>(step)];
}

std::string ShadeGlyph(double shade, bool utf8) {
  return utf8 ? Pick(kShades, shade) : Pick(kAsciiShades, shade);
}

std::string Colored(bool color, const MarkStyle& style,
                    const std::string& text) {
  if (!color) return text;
  return AnsiColor(style) + text + "\x1b[0m";
}

// One line without control characters, and without the ellipsis of a cut name
// where the terminal cannot show it.
std::string OneLine(const std::string& text, bool utf8) {
  constexpr std::string_view kEllipsis = "…";
  std::string line = EscapeForTerminal(text);
  if (utf8) return line;
  for (std::size_t at = line.find(kEllipsis); at != std::string::npos;
       at = line.find(kEllipsis, at)) {
    line.replace(at, kEllipsis.size(), "~");
  }
  return line;
}

// Does as OneLine, at most `width` columns wide.
std::string Plain(const std::string& text, std::size_t width, bool utf8) {
  const std::string line = OneLine(text, utf8);
  return DisplayWidth(line) <= width ? line
                                     : OneLine(Truncate(line, width), utf8);
}

std::string PadLeft(const std::string& text, std::size_t width) {
  const std::size_t own = DisplayWidth(text);
  return std::string(width - std::min(own, width), ' ') + text;
}

// Splits at blanks into lines of at most `width` columns; longer words stand
// alone.
std::vector<std::string> Wrap(const std::string& text,
                              const TextCanvas& canvas) {
  std::vector<std::string> lines;
  for (const std::string& word : Split(OneLine(text, canvas.utf8), ' ')) {
    if (!lines.empty() &&
        DisplayWidth(lines.back()) + 1 + DisplayWidth(word) <= canvas.width) {
      lines.back() += " " + word;
    } else {
      lines.push_back(word);
    }
  }
  return lines;
}

// The characters of a panel, from its upper left corner.
class CellGrid {
 public:
  CellGrid(std::size_t width, std::size_t height, const TextCanvas& canvas)
      : width_(width),
        height_(height),
        utf8_(canvas.utf8),
        color_(canvas.color),
        cells_(width_ * height_) {}

  std::size_t height() const { return height_; }

  // Marks curves by letters, too.
  void AddLetters() { letters_ = utf8_ && !color_; }

  void DrawCurve(const CurveMark& curve, const Scales& scales) {
    for (const auto& piece : CurvePieces(curve, scales, width_)) {
      if (!utf8_ || piece.size() == 1) {
        for (const auto& [x, y] : piece) SetDot(curve.style, x, y);
        continue;
      }
      for (std::size_t i = 1; i < piece.size(); ++i) {
        DrawLine(curve.style, piece[i - 1], piece[i]);
      }
      // Without colours a letter tells lines apart, in each other columns.
      if (!letters_ || curve.style.faint) continue;
      constexpr std::size_t kDistance = 16;
      for (std::size_t i = 0; i < piece.size(); ++i) {
        const auto [x, y] = piece[i];
        if (!IsInside(x, y)) continue;
        const std::size_t column = ColumnAt(x);
        if (i + 1 == piece.size() ||
            column % kDistance == curve.style.color * 5 % kDistance) {
          SetGlyph(column, RowAt(y), curve.style, MarkLetter(curve.style));
        }
      }
    }
    for (const auto& piece : CurvePieces(curve, scales, width_)) {
      DrawArrow(curve.style, FindArrow(piece, scales));
    }
  }

  // Faint dots are small; others are the letters of the legend.
  void DrawDots(const DotMark& dots, const Scales& scales) {
    for (const auto& [x, y] : dots.points) {
      double at_x = scales.x.Share(x), at_y = scales.y.Share(y);
      if (const auto arrow = FindArrow({at_x, at_y}, scales)) {
        if (!dots.cross) {
          DrawArrow(dots.style, arrow);
          continue;
        }
        at_x = arrow->x;
        at_y = arrow->y;
      }
      if (dots.style.faint && !dots.cross) {
        SetDot(dots.style, at_x, at_y);
      } else if (IsInside(at_x, at_y)) {
        SetGlyph(ColumnAt(at_x), RowAt(at_y), dots.style,
                 dots.cross ? "x" : MarkLetter(dots.style));
      }
    }
  }

  void DrawBar(const BarMark& bar, const Scales& scales) {
    const double from = scales.x.Share(bar.from), to = scales.x.Share(bar.to);
    if (!(from <= to) || to < 0 || from > 1) return;
    const std::size_t row = RowAt(scales.y.Share(static_cast<double>(bar.row)));
    const std::string block =
        bar.hatched ? utf8_ ? "░" : "/" : FillGlyph(bar.style, utf8_);
    // A bar takes the columns whose middle it covers, at least one if it is
    // not empty.
    bool any = false;
    for (std::size_t column = 0; column < width_; ++column) {
      const double middle =
          (static_cast<double>(column) + 0.5) / static_cast<double>(width_);
      if (middle < from || middle >= to) continue;
      SetGlyph(column, row, bar.style, block);
      any = true;
    }
    if (!any && from < to) {
      SetGlyph(ColumnAt(std::clamp(from, 0.0, 1.0)), row, bar.style, block);
    }
  }

  // Each character takes the cell that its middle lies in.
  void DrawShades(const std::vector<CellMark>& marks, const Scales& scales) {
    for (std::size_t row = 0; row < height_; ++row) {
      for (std::size_t column = 0; column < width_; ++column) {
        const double x =
            (static_cast<double>(column) + 0.5) / static_cast<double>(width_);
        const double y =
            1 - (static_cast<double>(row) + 0.5) / static_cast<double>(height_);
        for (const CellMark& cell : marks) {
          if (!(x >= scales.x.Share(cell.left) &&
                x < scales.x.Share(cell.right) &&
                y >= scales.y.Share(cell.bottom) &&
                y < scales.y.Share(cell.top))) {
            continue;
          }
          SetGlyph(column, row, {.faint = true}, ShadeGlyph(cell.shade, utf8_));
          break;
        }
      }
    }
  }

  void DrawVertical(double share) {
    for (std::size_t row = 0; row < height_; ++row) {
      SetGlyph(ColumnAt(share), row, {.faint = true}, "|");
    }
  }

  // The row, or column, in which a share of an axis lies.
  std::size_t RowAt(double share) const { return Place(1 - share, height_); }
  std::size_t ColumnAt(double share) const { return Place(share, width_); }

  std::string Line(std::size_t row) const {
    std::string line;
    for (std::size_t column = 0; column < width_; ++column) {
      line += CellText(cells_[row * width_ + column]);
    }
    return line;
  }

 private:
  struct GridCell {
    std::uint8_t dots = 0;
    std::string glyph = {};  // in place of the dots
    MarkStyle style;
  };

  static std::size_t Place(double share, std::size_t size) {
    const auto last = static_cast<double>(size - 1);
    return static_cast<std::size_t>(
        std::clamp(std::round(share * last), 0.0, last));
  }

  // False for NaN.
  static bool IsInside(double x, double y) {
    return x >= 0 && x <= 1 && y >= 0 && y <= 1;
  }

  void DrawArrow(const MarkStyle& style,
                 const std::optional<EdgeArrow>& arrow) {
    if (!arrow) return;
    const char* glyph = arrow->right > 0   ? utf8_ ? "▶" : ">"
                        : arrow->right < 0 ? utf8_ ? "◀" : "<"
                        : arrow->up > 0    ? utf8_ ? "▲" : "^"
                        : utf8_            ? "▼"
                                           : "v";
    SetGlyph(ColumnAt(arrow->x), RowAt(arrow->y), style, glyph);
  }

  void SetGlyph(std::size_t column, std::size_t row, const MarkStyle& style,
                const std::string& glyph) {
    cells_[row * width_ + column] = {.glyph = glyph, .style = style};
  }

  // Sets the dot, or in ASCII the letter, at these shares of the axes.
  void SetDot(const MarkStyle& style, double x, double y) {
    if (!IsInside(x, y)) return;
    if (!utf8_)
      return SetGlyph(ColumnAt(x), RowAt(y), style, MarkLetter(style));
    // A character of Braille has dots in 2 columns and 4 rows.
    const std::size_t column = Place(x, width_ * 2);
    const std::size_t row = Place(1 - y, height_ * 4);
    // Bits of the dots in Unicode's Braille patterns, row by row.
    constexpr std::uint8_t kBits[4][2] = {
        {0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    GridCell& cell = cells_[row / 4 * width_ + column / 2];
    cell.dots |= kBits[row % 4][column % 2];
    cell.glyph.clear();
    cell.style = style;
  }

  void DrawLine(const MarkStyle& style, const CurvePoint& from,
                const CurvePoint& to) {
    const double dx = (to.first - from.first) * static_cast<double>(width_) * 2;
    const double dy =
        (to.second - from.second) * static_cast<double>(height_) * 4;
    // Beyond --y a line may be very long; the part inside needs no more steps.
    const double steps = std::clamp(
        std::ceil(std::max(std::abs(dx), std::abs(dy))), 1.0, 20'000.0);
    for (double step = 0; step <= steps; ++step) {
      const double part = step / steps;
      const double x = from.first + part * (to.first - from.first);
      // Two dots of four, by column, so that parts of a curve fit together.
      const auto dot = static_cast<std::int64_t>(
          std::round(x * static_cast<double>(width_ * 2 - 1)));
      if (style.dashed && dot % 4 > 1) continue;
      SetDot(style, x, from.second + part * (to.second - from.second));
    }
  }

  std::string CellText(const GridCell& cell) const {
    if (cell.glyph.empty() && cell.dots == 0) return " ";
    std::string text = cell.glyph;
    if (text.empty()) {
      // U+2800 + dots.
      text = {static_cast<char>(0xE2), static_cast<char>(0xA0 | cell.dots >> 6),
              static_cast<char>(0x80 | (cell.dots & 0x3F))};
    }
    return Colored(color_, cell.style, text);
  }

  std::size_t width_;
  std::size_t height_;
  bool utf8_;
  bool color_;
  bool letters_ = false;
  std::vector<GridCell> cells_;
};

// Draws one panel.
class PanelText {
 public:
  PanelText(const Chart& chart, const TextCanvas& canvas)
      : chart_(chart), canvas_(canvas), scales_(MakeScales(chart)) {
    height_ = chart.bars.empty() ? std::max<std::size_t>(canvas.height, 2)
                                 : chart.y.names.size();
    if (chart.parallel.empty()) {
      const int count = static_cast<int>(height_ / 3);
      ticks_ = MakeTicks(scales_.y, std::max(2, count));
    }
    const std::size_t longest = std::max<std::size_t>(canvas.width / 3, 8);
    for (Tick& tick : ticks_) {
      tick.text = Plain(tick.text, longest, canvas.utf8);
      margin_ = std::max(margin_, DisplayWidth(tick.text));
    }
    std::size_t tag = 0;
    for (const CurveMark& curve : chart.curves) {
      if (!curve.style.faint) tag = std::max(tag, TagWidth(curve.tag));
    }
    for (const BarMark& bar : chart.bars) {
      tag = std::max(tag, DisplayWidth(EscapeForTerminal(bar.text)) +
                              (bar.text.empty() ? 0 : 1));
    }
    const std::size_t others = margin_ + 2 + tag;
    columns_ =
        std::max(kMinColumns, canvas.width - std::min(canvas.width, others));
  }

  std::string Draw() const {
    std::string text;
    if (!chart_.title.empty()) {
      for (const std::string& line : Wrap(chart_.title, canvas_)) {
        text += line + "\n";
      }
    }
    if (!chart_.empty.empty()) {
      for (const std::string& line : Wrap(chart_.empty, canvas_)) {
        text += line + "\n";
      }
      return text;
    }
    return text + Rows() + Foot();
  }

 private:
  static std::size_t TagWidth(const std::string& tag) {
    if (tag.empty()) return 0;
    return std::min(DisplayWidth(EscapeForTerminal(tag)), kMaxTag) + 1;
  }

  CellGrid Grid() const {
    CellGrid grid(columns_, height_, canvas_);
    const auto is_colored = [](const CurveMark& curve) {
      return !curve.style.faint;
    };
    if (std::ranges::count_if(chart_.curves, is_colored) > 1) grid.AddLetters();
    grid.DrawShades(chart_.cells, scales_);
    for (std::size_t i = 0; i < chart_.parallel.size(); ++i) {
      grid.DrawVertical(scales_.x.Share(static_cast<double>(i)));
    }
    for (const BarMark& bar : chart_.bars) grid.DrawBar(bar, scales_);
    // Very many lines through parallel axes hide the axes and each other; the
    // edges of bands would not be seen among the curves behind them, nor
    // without colours those of several bands.
    constexpr std::ptrdiff_t kMaxFaintLines = 20;
    const bool tells_edges = canvas_.color || chart_.bands.size() == 1;
    for (const BandMark& band : chart_.bands) {
      if (!tells_edges) break;
      for (const auto& edge : {band.low, band.high}) {
        grid.DrawCurve({.style = MarkStyle{.faint = true}, .points = edge},
                       scales_);
      }
    }
    const bool hides_faint =
        !chart_.bands.empty() ||
        (!chart_.parallel.empty() &&
         std::ranges::count_if(chart_.curves, [](const CurveMark& curve) {
           return curve.style.faint;
         }) > kMaxFaintLines);
    for (const bool faint : {true, false}) {
      if (faint && hides_faint) continue;
      for (auto curve = chart_.curves.rbegin(); curve != chart_.curves.rend();
           ++curve) {
        if (curve->style.faint == faint) grid.DrawCurve(*curve, scales_);
      }
      for (auto dots = chart_.dots.rbegin(); dots != chart_.dots.rend();
           ++dots) {
        if (dots->style.faint == faint) grid.DrawDots(*dots, scales_);
      }
    }
    return grid;
  }

  // The tag beside each row: that of a curve that ends there, or in a free row
  // nearby; the first curves first. A tag far from its end would be taken for
  // another curve's: the legend has those.
  std::vector<std::string> Tags(const CellGrid& grid) const {
    constexpr std::size_t kNear = 2;  // rows
    std::vector<std::string> rows(height_);
    for (const BarMark& bar : chart_.bars) {
      if (!bar.text.empty()) rows[bar.row] = OneLine(bar.text, canvas_.utf8);
    }
    for (const CurveMark& curve : chart_.curves) {
      if (curve.style.faint || curve.tag.empty()) continue;
      const auto pieces = CurvePieces(curve, scales_, columns_);
      if (pieces.empty()) continue;
      const std::size_t end = grid.RowAt(pieces.back().back().second);
      for (std::size_t away = 0; away <= kNear; ++away) {
        const std::size_t below = end + away;
        const std::size_t above = end - away;  // wraps: then out of the grid
        const std::size_t row =
            below < height_ && rows[below].empty() ? below : above;
        if (row >= height_ || !rows[row].empty()) continue;
        rows[row] = Colored(canvas_.color, curve.style,
                            Plain(curve.tag, kMaxTag, canvas_.utf8));
        break;
      }
    }
    return rows;
  }

  std::string Rows() const {
    const CellGrid grid = Grid();
    const auto tags = Tags(grid);
    std::vector<std::string> marks(height_);
    for (const auto& [share, text] : ticks_) {
      std::string& mark = marks[grid.RowAt(share)];
      if (mark.empty()) mark = text;
    }
    const bool framed = chart_.parallel.empty();
    std::string text;
    for (std::size_t row = 0; row < height_; ++row) {
      std::string line = PadLeft(marks[row], margin_) +
                         (!framed              ? "  "
                          : marks[row].empty() ? " |"
                                               : " +") +
                         grid.Line(row);
      if (!tags[row].empty()) line += " " + tags[row];
      line.erase(line.find_last_not_of(' ') + 1);
      text += line + "\n";
    }
    return text;
  }

  // The horizontal axis with its ticks, and below it their texts.
  std::string Foot() const {
    if (!chart_.parallel.empty()) return ParallelFoot();
    std::string axis(columns_, '-');
    std::string numbers;
    std::size_t used = 0;
    const std::size_t limit =
        canvas_.width - std::min(canvas_.width, margin_ + 2);
    const int count = static_cast<int>(columns_ / 12);
    const auto ticks = MakeTicks(scales_.x, std::max(2, count));
    const std::size_t longest =
        std::max<std::size_t>(columns_ / std::max<std::size_t>(ticks.size(), 1),
                              4) -
        1;
    for (const auto& [share, full] : ticks) {
      const std::string text =
          scales_.x.names.empty() ? full : Plain(full, longest, canvas_.utf8);
      const auto at = static_cast<std::size_t>(
          std::round(share * static_cast<double>(columns_ - 1)));
      const std::size_t width = DisplayWidth(text);
      axis[at] = '+';
      // Below the tick, or left of it at the edge of the terminal.
      const std::size_t begin = std::min(at - std::min(at, width / 2),
                                         limit - std::min(limit, width));
      const std::size_t free = used == 0 ? 0 : used + 1;
      if (begin < free || begin + width > limit) continue;
      numbers += std::string(begin - used, ' ') + text;
      used = begin + width;
    }
    return std::string(margin_, ' ') + " +" + axis + "\n" +
           WithLabel(std::string(margin_ + 2, ' ') + numbers);
  }

  // The line of numbers with the name of the axis, below it where it is narrow.
  std::string WithLabel(const std::string& numbers) const {
    const std::string label = OneLine(chart_.x.label, canvas_.utf8);
    if (label.empty()) return numbers + "\n";
    if (DisplayWidth(numbers) + 2 + DisplayWidth(label) <= canvas_.width) {
      return numbers + "  " + label + "\n";
    }
    const std::string cut = Plain(chart_.x.label, canvas_.width, canvas_.utf8);
    return numbers + "\n" +
           PadLeft(cut, std::max(margin_ + 2 + columns_, DisplayWidth(cut))) +
           "\n";
  }

  // Numbers below the axes, and a line for each with its name and ends.
  std::string ParallelFoot() const {
    std::string numbers, names;
    for (std::size_t i = 0; i < chart_.parallel.size(); ++i) {
      const std::string number = std::to_string(i + 1);
      const auto at = static_cast<std::size_t>(
          std::round(scales_.x.Share(static_cast<double>(i)) *
                     static_cast<double>(columns_ - 1)));
      if (at >= numbers.size()) {
        numbers += std::string(at - numbers.size(), ' ') + number;
      }
      std::vector<std::string> ticks;
      for (const auto& tick : chart_.parallel[i].ticks) {
        ticks.push_back(tick.second);
      }
      const std::string line = chart_.parallel[i].name + ": " +
                               Join(ticks, ", ") +
                               (ticks.size() > 1 ? " (from the bottom)" : "");
      names += PadLeft(number, 3) + "  " +
               Plain(line, canvas_.width - 5, canvas_.utf8) + "\n";
    }
    return "  " + numbers + "\n" + names;
  }

  const Chart& chart_;
  const TextCanvas canvas_;
  const Scales scales_;
  std::size_t height_ = 0;
  std::size_t columns_ = 0;
  std::size_t margin_ = 0;  // width of the texts of the vertical axis
  std::vector<Tick> ticks_;
};

std::string SampleText(const LegendEntry& entry, const TextCanvas& canvas,
                       bool has_letters) {
  switch (entry.sample) {
    case LegendEntry::Sample::kCross:
      return "x";
    case LegendEntry::Sample::kBar:
      return FillGlyph(entry.style, canvas.utf8);
    case LegendEntry::Sample::kDot:
      return MarkLetter(entry.style);
    case LegendEntry::Sample::kCurve:
      break;
  }
  if (!canvas.utf8) return MarkLetter(entry.style);
  if (!canvas.color && has_letters) return "⠤" + MarkLetter(entry.style) + "⠤";
  return entry.style.dashed ? "⠤ ⠤" : "⠤⠤⠤";
}

std::string LegendText(const Figure& figure, const TextCanvas& canvas) {
  constexpr std::size_t kIndent = 4;
  std::string text;
  if (!figure.dark.empty()) {
    std::string shades;
    for (int i = 0; i < 8; ++i) shades += ShadeGlyph(i / 8.0, canvas.utf8);
    text += std::string(kIndent, ' ') + figure.light + " " + shades + " " +
            figure.dark + "\n";
  }
  // In columns on a terminal, the first entries below each other.
  std::vector<std::string> entries;
  std::vector<std::size_t> widths;
  std::size_t widest = 0;
  const auto curves = std::ranges::count(
      figure.legend, LegendEntry::Sample::kCurve, &LegendEntry::sample);
  for (const LegendEntry& entry : figure.legend) {
    const std::string sample = SampleText(entry, canvas, curves > 1);
    const std::size_t used = kIndent + DisplayWidth(sample) + 2;
    const std::string name =
        Plain(entry.name, canvas.width - std::min(canvas.width - 8, used),
              canvas.utf8);
    entries.push_back(std::string(kIndent, ' ') +
                      Colored(canvas.color, entry.style, sample) + "  " + name);
    widths.push_back(used + DisplayWidth(name));
    widest = std::max(widest, widths.back());
  }
  const std::size_t columns =
      canvas.max_lines == 0
          ? 1
          : std::max<std::size_t>(
                canvas.width / std::max<std::size_t>(widest, 1), 1);
  const std::size_t rows = (entries.size() + columns - 1) / columns;
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t i = row; i < entries.size(); i += rows) {
      text += entries[i];
      if (i + rows < entries.size())
        text += std::string(widest - widths[i], ' ');
    }
    text += "\n";
  }
  return text;
}

// The title and the panels.
std::string PanelsText(const Figure& figure, const TextCanvas& canvas) {
  std::string text;
  for (const std::string& line : Wrap(figure.title, canvas)) {
    text += line + "\n";
  }
  for (std::size_t i = 0; i < figure.panels.size(); ++i) {
    if (i > 0) text += "\n";
    text += PanelText(figure.panels[i], canvas).Draw();
  }
  return text;
}

std::size_t CountLines(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count(text, '\n'));
}

}  // namespace

std::string DrawText(const Figure& figure, const TextCanvas& canvas) {
  TextCanvas fitted = canvas;
  fitted.width = std::max<std::size_t>(canvas.width, 20);
  const std::string legend = LegendText(figure, fitted);
  const std::string panels = PanelsText(figure, fitted);
  const std::size_t lines = CountLines(panels) + CountLines(legend);
  if (canvas.max_lines == 0 || lines <= canvas.max_lines) {
    return panels + legend;
  }
  const std::size_t excess = figure.panels.size() > 1
                                 ? canvas.height / 2  // two are in view
                                 : lines - canvas.max_lines;
  fitted.height =
      std::max(kMinPanelRows, canvas.height - std::min(canvas.height, excess));
  return PanelsText(figure, fitted) + legend;
}

}  // namespace dtrain
