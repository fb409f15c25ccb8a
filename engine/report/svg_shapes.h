#pragma once

#include <cstddef>
#include <string>

#include "engine/report/chart.h"

// Elements of SVG documents. Texts are escaped and cut.

namespace dtrain {

/// A coordinate, with one decimal.
std::string SvgNumber(double value);

/// A text of at most `width` characters. `style`: further attributes, each
/// after a blank.
std::string SvgText(double x, double y, const char* anchor,
                    const std::string& text, std::size_t width = 100,
                    const std::string& style = "");

std::string SvgLine(double x1, double y1, double x2, double y2,
                    const std::string& style);

/// The colour of a subject: one of eight, or gray if it is faint.
const char* SvgColor(const MarkStyle& style);

/// The stroke attributes of a curve: eight colours, and three patterns of
/// dashes for solid curves and three for dashed ones.
std::string SvgStroke(const MarkStyle& style);

/// The part of a path that is a dot, or a cross.
std::string SvgDotPath(double x, double y, bool cross);

/// Dots or crosses at the positions in `path`: disks, squares and rings for the
/// first eight colours, the next eight, and so on.
std::string SvgDots(const MarkStyle& style, bool cross,
                    const std::string& path);

}  // namespace dtrain
