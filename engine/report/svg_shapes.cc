// Elements of SVG as text. A dot is a stroke of length 0.1 with round or square
// ends, so that all dots of a style are one path element: thousands of circle
// elements would make a browser slow. Coordinates have one digit after the
// point, a tenth of a pixel.

#include "engine/report/svg_shapes.h"

#include <array>
#include <cstdio>

#include "engine/base/text.h"
#include "engine/report/format.h"

namespace dtrain {
namespace {

// Colours that people with colour vision deficiencies can distinguish (Okabe
// and Ito, 2008).
constexpr std::array kColors = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                "#e69f00", "#56b4e9", "#000000", "#999933"};
// Stroke patterns: of the first eight curves, of the next eight, and so on.
constexpr std::array kSolidPatterns = {"", "12 3 2 3", "2 2"};
constexpr std::array kDashedPatterns = {"6 4", "6 2 6 6", "3 6"};

}  // namespace

std::string SvgNumber(double value) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%.1f", value);
  return text.data();
}

std::string SvgText(double x, double y, const char* anchor,
                    const std::string& text, std::size_t width,
                    const std::string& style) {
  return "<text x=\"" + SvgNumber(x) + "\" y=\"" + SvgNumber(y) +
         "\" text-anchor=\"" + anchor + "\"" + style + ">" +
         EscapeXml(Truncate(ToValidUtf8(text), width)) + "</text>\n";
}

std::string SvgLine(double x1, double y1, double x2, double y2,
                    const std::string& style) {
  return "<path d=\"M" + SvgNumber(x1) + " " + SvgNumber(y1) + "L" +
         SvgNumber(x2) + " " + SvgNumber(y2) + "\" " + style + "/>\n";
}

const char* SvgColor(const MarkStyle& style) {
  return style.faint ? "#bbbbbb" : kColors[style.color % kColors.size()];
}

std::string SvgStroke(const MarkStyle& style) {
  if (style.faint) return "stroke=\"#bbbbbb\" stroke-width=\"0.7\"";
  const auto& patterns = style.dashed ? kDashedPatterns : kSolidPatterns;
  const std::string pattern =
      patterns[style.color / kColors.size() % patterns.size()];
  return std::string("stroke=\"") + SvgColor(style) +
         "\" stroke-width=\"1.5\"" +
         (pattern.empty() ? "" : " stroke-dasharray=\"" + pattern + "\"");
}

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

std::string SvgDotPath(double x, double y, bool cross) {
  if (!cross) return "M" + SvgNumber(x) + " " + SvgNumber(y) + "h.1";
  return "M" + SvgNumber(x - 4) + " " + SvgNumber(y - 4) + "l8 8m0-8l-8 8";
}

}  // namespace dtrain
