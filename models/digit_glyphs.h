#pragma once

#include <span>

namespace dtrain {

/// A point of a glyph in the unit square, y down.
struct Point {
  double x = 0;
  double y = 0;
};

/// A smooth curve through its points (Catmull and Rom); two make a line.
/// Corners are where strokes meet.
using Stroke = std::span<const Point>;

/// One way to write a digit.
using Glyph = std::span<const Stroke>;

/// The ways to write `digit`, 0 to 9.
std::span<const Glyph> GlyphsOf(int digit);

}  // namespace dtrain
