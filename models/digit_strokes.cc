#include "models/digit_strokes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <thread>
#include <vector>

#include "engine/base/rng.h"
#include "models/digit_glyphs.h"

namespace dtrain {
namespace {

constexpr double kTurn = 2 * std::numbers::pi;
constexpr int kSteps = 5;  // straight pieces between two points of a stroke

using Canvas = std::array<float, kDigitPixels>;

// One to one on 32 bits, so that different digits have different seeds
// (the finalizer of MurmurHash3).
std::uint32_t Mix(std::uint32_t value) {
  value = (value ^ (value >> 16)) * 0x85EBCA6B;
  value = (value ^ (value >> 13)) * 0xC2B2AE35;
  return value ^ (value >> 16);
}

// How one digit differs from its glyph: first a slow wave bends the paper, then
// a matrix turns, shears and scales, then it is shifted.
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

  // Where a point of the glyph comes to lie, in pixels.
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

// The Catmull-Rom curve from `b` to `c`, at `t` of the way.
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
  const std::span<const Glyph> glyphs = GlyphsOf(digit);
  const Glyph glyph = glyphs[rng.Below(glyphs.size())];
  const Hand hand(rng);
  const Pen pen = {.radius = rng.Uniform(0.65, 1.8),
                   .softness = rng.Uniform(0.8, 1.6)};
  Canvas canvas{};
  for (const Stroke stroke : glyph) DrawStroke(stroke, hand, pen, canvas);

  const double pressure = rng.Uniform(130.0, 255.0);
  const double grain = rng.Uniform(4.0, 28.0);
  for (std::size_t i = 0; i < image.size(); ++i) {
    // The four bytes of a draw add up to nearly a normal distribution, of mean
    // 510 and deviation 147.8.
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
