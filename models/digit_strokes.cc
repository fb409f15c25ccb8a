// Handwritten digits without files: glyphs drawn by hand, distorted, inked and
// scanned by a random generator.
//
// The first half of this file is the glyphs: four ways of writing each digit,
// as strokes in the unit square. The second half draws: Hand bends, rotates,
// shears and shifts the glyph, DrawStroke follows its Catmull-Rom curve with a
// soft pen, and noise is added to the bytes.
//
// Each digit has a generator of its own, seeded by its number, so digits can be
// drawn in any order by any number of threads. The pixels are floating-point
// results of std::sin and std::cos, which may differ between C libraries;
// data_sets.cc therefore names its cache by the first digits drawn.

#include "models/digit_strokes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <span>
#include <thread>
#include <vector>

#include "engine/base/rng.h"

namespace dtrain {

namespace {

// A point of a glyph in the unit square, y downwards.
struct Point {
  double x = 0;
  double y = 0;
};

// A smooth curve through its points (Catmull-Rom); two points make a line.
// Strokes meet at corners.
using Stroke = std::span<const Point>;

// One way of writing a digit.
using Glyph = std::span<const Stroke>;

// Drawn by hand in the unit square: four ways of writing each digit.

constexpr Point k0a1[] = {{0.5, 0.05},  {0.28, 0.22}, {0.2, 0.5},
                          {0.28, 0.78}, {0.5, 0.95},  {0.72, 0.78},
                          {0.8, 0.5},   {0.72, 0.22}, {0.5, 0.05}};
constexpr Stroke k0a[] = {k0a1};
constexpr Point k0b1[] = {{0.6, 0.09}, {0.42, 0.08}, {0.28, 0.35},
                          {0.27, 0.7}, {0.44, 0.94}, {0.64, 0.84},
                          {0.74, 0.5}, {0.68, 0.16}, {0.48, 0.06}};
constexpr Stroke k0b[] = {k0b1};
constexpr Point k0c1[] = {{0.5, 0.15},  {0.28, 0.25}, {0.18, 0.5},
                          {0.28, 0.76}, {0.5, 0.86},  {0.72, 0.76},
                          {0.82, 0.5},  {0.72, 0.25}, {0.5, 0.15}};
constexpr Stroke k0c[] = {k0c1};
constexpr Point k0d1[] = {{0.66, 0.12}, {0.47, 0.04}, {0.27, 0.25}, {0.24, 0.6},
                          {0.42, 0.92}, {0.63, 0.86}, {0.77, 0.55}, {0.7, 0.22},
                          {0.52, 0.09}, {0.4, 0.14}};
constexpr Stroke k0d[] = {k0d1};
constexpr Glyph k0[] = {k0a, k0b, k0c, k0d};

constexpr Point k1a1[] = {{0.5, 0.05}, {0.5, 0.95}};
constexpr Stroke k1a[] = {k1a1};
constexpr Point k1b1[] = {{0.32, 0.27}, {0.52, 0.06}};
constexpr Point k1b2[] = {{0.52, 0.06}, {0.52, 0.95}};
constexpr Stroke k1b[] = {k1b1, k1b2};
constexpr Point k1c1[] = {{0.34, 0.26}, {0.52, 0.06}};
constexpr Point k1c2[] = {{0.52, 0.06}, {0.52, 0.94}};
constexpr Point k1c3[] = {{0.3, 0.94}, {0.73, 0.94}};
constexpr Stroke k1c[] = {k1c1, k1c2, k1c3};
constexpr Point k1d1[] = {{0.61, 0.05}, {0.53, 0.45}, {0.41, 0.95}};
constexpr Stroke k1d[] = {k1d1};
constexpr Glyph k1[] = {k1a, k1b, k1c, k1d};

constexpr Point k2a1[] = {{0.25, 0.28}, {0.33, 0.1},  {0.52, 0.05},
                          {0.72, 0.15}, {0.72, 0.36}, {0.55, 0.62},
                          {0.25, 0.93}};
constexpr Point k2a2[] = {{0.25, 0.93}, {0.79, 0.93}};
constexpr Stroke k2a[] = {k2a1, k2a2};
constexpr Point k2b1[] = {{0.26, 0.24}, {0.42, 0.07}, {0.66, 0.11},
                          {0.71, 0.33}, {0.55, 0.6},  {0.35, 0.85},
                          {0.22, 0.9},  {0.24, 0.77}, {0.4, 0.8},
                          {0.6, 0.92},  {0.8, 0.86}};
constexpr Stroke k2b[] = {k2b1};
constexpr Point k2c1[] = {{0.24, 0.16}, {0.48, 0.05}, {0.7, 0.12},
                          {0.7, 0.32},  {0.5, 0.62},  {0.24, 0.9}};
constexpr Point k2c2[] = {{0.24, 0.9}, {0.5, 0.86}, {0.78, 0.95}};
constexpr Stroke k2c[] = {k2c1, k2c2};
constexpr Point k2d1[] = {{0.22, 0.3},  {0.36, 0.14}, {0.58, 0.12},
                          {0.72, 0.27}, {0.64, 0.47}, {0.2, 0.9}};
constexpr Point k2d2[] = {{0.2, 0.9}, {0.76, 0.88}};
constexpr Stroke k2d[] = {k2d1, k2d2};
constexpr Glyph k2[] = {k2a, k2b, k2c, k2d};

constexpr Point k3a1[] = {
    {0.27, 0.15}, {0.48, 0.05}, {0.7, 0.15}, {0.67, 0.36}, {0.45, 0.47}};
constexpr Point k3a2[] = {
    {0.45, 0.47}, {0.72, 0.58}, {0.75, 0.8}, {0.5, 0.95}, {0.25, 0.84}};
constexpr Stroke k3a[] = {k3a1, k3a2};
constexpr Point k3b1[] = {{0.25, 0.08}, {0.72, 0.08}};
constexpr Point k3b2[] = {{0.72, 0.08}, {0.45, 0.42}};
constexpr Point k3b3[] = {
    {0.45, 0.42}, {0.7, 0.5}, {0.76, 0.73}, {0.55, 0.95}, {0.26, 0.86}};
constexpr Stroke k3b[] = {k3b1, k3b2, k3b3};
constexpr Point k3c1[] = {{0.3, 0.1},   {0.52, 0.05}, {0.7, 0.18}, {0.62, 0.37},
                          {0.42, 0.46}, {0.38, 0.5},  {0.45, 0.5}, {0.66, 0.56},
                          {0.74, 0.76}, {0.55, 0.93}, {0.26, 0.9}};
constexpr Stroke k3c[] = {k3c1};
constexpr Point k3d1[] = {
    {0.24, 0.22}, {0.4, 0.07}, {0.62, 0.1}, {0.65, 0.3}, {0.43, 0.44}};
constexpr Point k3d2[] = {
    {0.43, 0.44}, {0.68, 0.52}, {0.68, 0.82}, {0.42, 0.94}, {0.22, 0.8}};
constexpr Stroke k3d[] = {k3d1, k3d2};
constexpr Glyph k3[] = {k3a, k3b, k3c, k3d};

constexpr Point k4a1[] = {{0.32, 0.06}, {0.24, 0.57}};
constexpr Point k4a2[] = {{0.24, 0.57}, {0.8, 0.55}};
constexpr Point k4a3[] = {{0.66, 0.06}, {0.62, 0.95}};
constexpr Stroke k4a[] = {k4a1, k4a2, k4a3};
constexpr Point k4b1[] = {{0.62, 0.05}, {0.2, 0.64}};
constexpr Point k4b2[] = {{0.2, 0.64}, {0.83, 0.64}};
constexpr Point k4b3[] = {{0.62, 0.05}, {0.62, 0.95}};
constexpr Stroke k4b[] = {k4b1, k4b2, k4b3};
constexpr Point k4c1[] = {
    {0.28, 0.08}, {0.22, 0.38}, {0.32, 0.53}, {0.5, 0.53}, {0.68, 0.46}};
constexpr Point k4c2[] = {{0.7, 0.08}, {0.67, 0.5}, {0.62, 0.95}};
constexpr Stroke k4c[] = {k4c1, k4c2};
constexpr Point k4d1[] = {{0.44, 0.05}, {0.2, 0.6}};
constexpr Point k4d2[] = {{0.2, 0.6}, {0.82, 0.58}};
constexpr Point k4d3[] = {{0.64, 0.3}, {0.58, 0.96}};
constexpr Stroke k4d[] = {k4d1, k4d2, k4d3};
constexpr Glyph k4[] = {k4a, k4b, k4c, k4d};

constexpr Point k5a1[] = {{0.74, 0.07}, {0.32, 0.07}};
constexpr Point k5a2[] = {{0.32, 0.07}, {0.29, 0.43}};
constexpr Point k5a3[] = {{0.29, 0.43}, {0.52, 0.37}, {0.74, 0.52},
                          {0.73, 0.8},  {0.5, 0.95},  {0.25, 0.86}};
constexpr Stroke k5a[] = {k5a1, k5a2, k5a3};
constexpr Point k5b1[] = {{0.74, 0.07}, {0.5, 0.09}, {0.34, 0.12}};
constexpr Point k5b2[] = {{0.34, 0.12}, {0.28, 0.4}, {0.45, 0.42},
                          {0.68, 0.54}, {0.7, 0.8},  {0.48, 0.95},
                          {0.22, 0.87}};
constexpr Stroke k5b[] = {k5b1, k5b2};
constexpr Point k5c1[] = {{0.8, 0.1}, {0.38, 0.08}};
constexpr Point k5c2[] = {{0.38, 0.08}, {0.3, 0.46}};
constexpr Point k5c3[] = {
    {0.3, 0.46}, {0.56, 0.46}, {0.66, 0.66}, {0.55, 0.88}, {0.24, 0.94}};
constexpr Stroke k5c[] = {k5c1, k5c2, k5c3};
constexpr Point k5d1[] = {{0.36, 0.06}, {0.31, 0.42}, {0.5, 0.42}, {0.7, 0.56},
                          {0.68, 0.82}, {0.46, 0.94}, {0.24, 0.83}};
constexpr Point k5d2[] = {{0.36, 0.06}, {0.76, 0.1}};
constexpr Stroke k5d[] = {k5d1, k5d2};
constexpr Glyph k5[] = {k5a, k5b, k5c, k5d};

constexpr Point k6a1[] = {{0.66, 0.06}, {0.42, 0.22}, {0.27, 0.55},
                          {0.32, 0.85}, {0.52, 0.95}, {0.72, 0.8},
                          {0.68, 0.6},  {0.48, 0.52}, {0.3, 0.68}};
constexpr Stroke k6a[] = {k6a1};
constexpr Point k6b1[] = {{0.6, 0.04},  {0.4, 0.33},  {0.27, 0.66},
                          {0.38, 0.92}, {0.6, 0.92},  {0.71, 0.73},
                          {0.57, 0.56}, {0.38, 0.62}, {0.3, 0.74}};
constexpr Stroke k6b[] = {k6b1};
constexpr Point k6c1[] = {
    {0.72, 0.12}, {0.52, 0.05}, {0.32, 0.28}, {0.24, 0.62}, {0.36, 0.9},
    {0.58, 0.93}, {0.74, 0.76}, {0.62, 0.55}, {0.42, 0.55}, {0.27, 0.7}};
constexpr Stroke k6c[] = {k6c1};
constexpr Point k6d1[] = {{0.36, 0.04}, {0.27, 0.4}, {0.27, 0.75},
                          {0.46, 0.95}, {0.7, 0.85}, {0.72, 0.65},
                          {0.52, 0.54}, {0.32, 0.66}};
constexpr Stroke k6d[] = {k6d1};
constexpr Glyph k6[] = {k6a, k6b, k6c, k6d};

constexpr Point k7a1[] = {{0.22, 0.1}, {0.77, 0.1}};
constexpr Point k7a2[] = {{0.77, 0.1}, {0.42, 0.95}};
constexpr Stroke k7a[] = {k7a1, k7a2};
constexpr Point k7b1[] = {{0.22, 0.1}, {0.77, 0.1}};
constexpr Point k7b2[] = {{0.77, 0.1}, {0.44, 0.95}};
constexpr Point k7b3[] = {{0.36, 0.5}, {0.74, 0.48}};
constexpr Stroke k7b[] = {k7b1, k7b2, k7b3};
constexpr Point k7c1[] = {{0.22, 0.25}, {0.25, 0.09}};
constexpr Point k7c2[] = {{0.25, 0.09}, {0.78, 0.09}};
constexpr Point k7c3[] = {{0.78, 0.09}, {0.55, 0.48}, {0.46, 0.95}};
constexpr Stroke k7c[] = {k7c1, k7c2, k7c3};
constexpr Point k7d1[] = {{0.2, 0.15}, {0.4, 0.08}, {0.6, 0.14}, {0.8, 0.07}};
constexpr Point k7d2[] = {{0.8, 0.07}, {0.6, 0.4}, {0.5, 0.95}};
constexpr Stroke k7d[] = {k7d1, k7d2};
constexpr Glyph k7[] = {k7a, k7b, k7c, k7d};

constexpr Point k8a1[] = {{0.7, 0.18},  {0.5, 0.05},  {0.3, 0.18}, {0.38, 0.4},
                          {0.62, 0.56}, {0.74, 0.76}, {0.5, 0.95}, {0.26, 0.77},
                          {0.38, 0.55}, {0.62, 0.4},  {0.7, 0.18}};
constexpr Stroke k8a[] = {k8a1};
constexpr Point k8b1[] = {
    {0.5, 0.05},   {0.6, 0.079}, {0.673, 0.16}, {0.7, 0.27},   {0.673, 0.38},
    {0.6, 0.461},  {0.5, 0.49},  {0.4, 0.461},  {0.327, 0.38}, {0.3, 0.27},
    {0.327, 0.16}, {0.4, 0.079}, {0.5, 0.05}};
constexpr Point k8b2[] = {{0.5, 0.49},  {0.63, 0.521},  {0.725, 0.605},
                          {0.76, 0.72}, {0.725, 0.835}, {0.63, 0.919},
                          {0.5, 0.95},  {0.37, 0.919},  {0.275, 0.835},
                          {0.24, 0.72}, {0.275, 0.605}, {0.37, 0.521},
                          {0.5, 0.49}};
constexpr Stroke k8b[] = {k8b1, k8b2};
constexpr Point k8c1[] = {{0.66, 0.12}, {0.45, 0.06}, {0.33, 0.22},
                          {0.46, 0.42}, {0.62, 0.6},  {0.64, 0.84},
                          {0.46, 0.94}, {0.33, 0.8},  {0.4, 0.58},
                          {0.6, 0.38},  {0.7, 0.14}};
constexpr Stroke k8c[] = {k8c1};
constexpr Point k8d1[] = {{0.582, 0.474}, {0.682, 0.543}, {0.735, 0.651},
                          {0.729, 0.772}, {0.665, 0.875}, {0.559, 0.933},
                          {0.438, 0.932}, {0.333, 0.872}, {0.27, 0.769},
                          {0.266, 0.648}, {0.321, 0.54},  {0.421, 0.473},
                          {0.542, 0.464}};
constexpr Point k8d2[] = {{0.58, 0.48}, {0.34, 0.3},  {0.44, 0.07},
                          {0.68, 0.12}, {0.66, 0.34}, {0.44, 0.48}};
constexpr Stroke k8d[] = {k8d1, k8d2};
constexpr Glyph k8[] = {k8a, k8b, k8c, k8d};

constexpr Point k9a1[] = {{0.7, 0.22},  {0.52, 0.05}, {0.3, 0.14},
                          {0.27, 0.36}, {0.46, 0.5},  {0.7, 0.32}};
constexpr Point k9a2[] = {{0.7, 0.16}, {0.7, 0.55}, {0.62, 0.95}};
constexpr Stroke k9a[] = {k9a1, k9a2};
constexpr Point k9b1[] = {{0.71, 0.28},   {0.67, 0.409},  {0.565, 0.489},
                          {0.435, 0.489}, {0.33, 0.409},  {0.29, 0.28},
                          {0.33, 0.151},  {0.435, 0.071}, {0.565, 0.071},
                          {0.67, 0.151},  {0.71, 0.28}};
constexpr Point k9b2[] = {{0.71, 0.1}, {0.71, 0.95}};
constexpr Stroke k9b[] = {k9b1, k9b2};
constexpr Point k9c1[] = {
    {0.7, 0.22}, {0.5, 0.06}, {0.28, 0.25}, {0.42, 0.48}, {0.69, 0.3}};
constexpr Point k9c2[] = {{0.71, 0.12}, {0.73, 0.6}, {0.6, 0.9}, {0.32, 0.92}};
constexpr Stroke k9c[] = {k9c1, k9c2};
constexpr Point k9d1[] = {{0.68, 0.12}, {0.45, 0.06}, {0.27, 0.28},
                          {0.4, 0.46},  {0.62, 0.36}, {0.7, 0.12},
                          {0.66, 0.5},  {0.52, 0.95}};
constexpr Stroke k9d[] = {k9d1};
constexpr Glyph k9[] = {k9a, k9b, k9c, k9d};

constexpr std::array<std::span<const Glyph>, 10> kGlyphs = {k0, k1, k2, k3, k4,
                                                            k5, k6, k7, k8, k9};

// Ways of writing `digit`, 0 to 9.
std::span<const Glyph> FindGlyphs(int digit) {
  return kGlyphs.at(static_cast<std::size_t>(digit));
}

constexpr double kTurn = 2 * std::numbers::pi;
constexpr int kSteps = 5;  // line segments between two points of a stroke

using Canvas = std::array<float, kDigitPixels>;

// Bijective on 32 bits, so that different digits have different seeds (the
// finalizer of MurmurHash3).
std::uint32_t Mix(std::uint32_t value) {
  value = (value ^ (value >> 16)) * 0x85EBCA6B;
  value = (value ^ (value >> 13)) * 0xC2B2AE35;
  return value ^ (value >> 16);
}

// Random distortion of a glyph: a slow wave bends the paper, a matrix rotates,
// shears and scales, and then it is shifted.
class Hand {
 public:
  explicit Hand(Rng& rng) {
    for (Wave& wave : waves_) {
      wave = {.amplitude = rng.Uniform(0.0, 0.06),
              .fx = rng.Uniform(-1.1, 1.1),
              .fy = rng.Uniform(-1.1, 1.1),
              .phase = rng.Uniform(0.0, kTurn)};
    }
    const double angle = rng.Uniform(-0.35, 0.35);
    const double shear = rng.Uniform(-0.4, 0.4);
    const double size = rng.Uniform(13.5, 23.0);
    const double wide = size * rng.Uniform(0.7, 1.2);
    const double c = std::cos(angle);
    const double s = std::sin(angle);
    xx_ = c * wide;
    xy_ = (c * shear - s) * size;
    yx_ = s * wide;
    yy_ = (s * shear + c) * size;
    x_ = kDigitSide / 2.0 + rng.Uniform(-3.0, 3.0);
    y_ = kDigitSide / 2.0 + rng.Uniform(-3.0, 3.0);
  }

  // Position of a point of the glyph, in pixels.
  Point operator()(Point p) const {
    double x = p.x - 0.5;
    double y = p.y - 0.5;
    for (std::size_t i = 0; i < waves_.size(); ++i) {
      const Wave& wave = waves_[i];
      const double bend =
          wave.amplitude *
          std::sin(kTurn * (wave.fx * p.x + wave.fy * p.y) + wave.phase);
      (i % 2 == 0 ? x : y) += bend;
    }
    return {x_ + xx_ * x + xy_ * y, y_ + yx_ * x + yy_ * y};
  }

 private:
  struct Wave {
    double amplitude = 0;
    double fx = 0;
    double fy = 0;
    double phase = 0;
  };
  std::array<Wave, 6> waves_;
  double xx_, xy_, yx_, yy_, x_, y_;
};

struct Pen {
  double radius = 1;
  double softness = 1;  // pixels from full ink to none
};

// Darkens the pixels near the line from `a` to `b`.
void DrawLine(Point a, Point b, Pen pen, Canvas& canvas) {
  const double reach = pen.radius + pen.softness / 2;
  const auto clamp = [](double v) {
    return static_cast<int>(std::clamp(v, 0.0, double{kDigitSide - 1}));
  };
  const int left = clamp(std::min(a.x, b.x) - reach);
  const int right = clamp(std::max(a.x, b.x) + reach);
  const int top = clamp(std::min(a.y, b.y) - reach);
  const int bottom = clamp(std::max(a.y, b.y) + reach);
  const Point along = {b.x - a.x, b.y - a.y};
  const double length2 = std::max(along.x * along.x + along.y * along.y, 1e-9);
  for (int row = top; row <= bottom; ++row) {
    for (int column = left; column <= right; ++column) {
      const Point to = {column + 0.5 - a.x, row + 0.5 - a.y};
      const double t =
          std::clamp((to.x * along.x + to.y * along.y) / length2, 0.0, 1.0);
      const double dx = to.x - t * along.x;
      const double dy = to.y - t * along.y;
      const double ink = (reach - std::sqrt(dx * dx + dy * dy)) / pen.softness;
      float& pixel = canvas[row * kDigitSide + column];
      pixel = std::max(pixel, static_cast<float>(std::clamp(ink, 0.0, 1.0)));
    }
  }
}

// Point of the Catmull-Rom curve from `b` to `c` at parameter `t`.
Point Between(Point a, Point b, Point c, Point d, double t) {
  const auto blend = [t](double p, double q, double r, double s) {
    return 0.5 * (2 * q + (r - p) * t + (2 * p - 5 * q + 4 * r - s) * t * t +
                  (3 * q - p - 3 * r + s) * t * t * t);
  };
  return {blend(a.x, b.x, c.x, d.x), blend(a.y, b.y, c.y, d.y)};
}

void DrawStroke(Stroke stroke, const Hand& hand, Pen pen, Canvas& canvas) {
  const auto at = [&](std::size_t i) {
    return stroke[std::min(i, stroke.size() - 1)];
  };
  Point last = hand(stroke[0]);
  for (std::size_t i = 0; i + 1 < stroke.size(); ++i) {
    for (int step = 1; step <= kSteps; ++step) {
      const Point next = hand(Between(at(i == 0 ? 0 : i - 1), at(i), at(i + 1),
                                      at(i + 2), step / double{kSteps}));
      DrawLine(last, next, pen, canvas);
      last = next;
    }
  }
}

std::uint8_t DrawDigit(std::uint32_t seed, std::span<std::uint8_t> image) {
  Rng rng(seed);
  const auto digit = static_cast<std::uint8_t>(rng.Below(10));
  const std::span<const Glyph> glyphs = FindGlyphs(digit);
  const Glyph glyph = glyphs[rng.Below(glyphs.size())];
  const Hand hand(rng);
  const Pen pen = {.radius = rng.Uniform(0.65, 1.8),
                   .softness = rng.Uniform(0.8, 1.6)};
  Canvas canvas{};
  for (const Stroke stroke : glyph) DrawStroke(stroke, hand, pen, canvas);

  const double pressure = rng.Uniform(130.0, 255.0);
  const double grain = rng.Uniform(4.0, 28.0);
  for (std::size_t i = 0; i < image.size(); ++i) {
    // The sum of the four bytes of a draw is nearly normal, with mean 510 and
    // deviation 147.8.
    const std::uint64_t bytes = rng.Below(std::uint64_t{1} << 32);
    const auto sum = static_cast<double>((bytes & 255) + (bytes >> 8 & 255) +
                                         (bytes >> 16 & 255) + (bytes >> 24));
    const double noise = (sum - 510) / 147.8 * grain;
    image[i] = static_cast<std::uint8_t>(
        std::clamp(pressure * canvas[i] + noise, 0.0, 255.0));
  }
  return digit;
}

}  // namespace

void DrawDigits(std::uint32_t seed, std::uint32_t first, int threads,
                std::span<std::uint8_t> images,
                std::span<std::uint8_t> labels) {
  const std::uint32_t key = Mix(seed + 0x9E3779B9);
  const auto draw = [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const auto number = static_cast<std::uint32_t>(first + i);
      labels[i] = DrawDigit(Mix(number ^ key),
                            images.subspan(i * kDigitPixels, kDigitPixels));
    }
  };
  const auto parts = static_cast<std::size_t>(threads);
  std::vector<std::jthread> others;
  for (std::size_t part = 1; part < parts; ++part) {
    others.emplace_back(draw, labels.size() * part / parts,
                        labels.size() * (part + 1) / parts);
  }
  draw(0, labels.size() / parts);
}

}  // namespace dtrain
