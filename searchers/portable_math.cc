// The normal distribution by W. J. Cody's rational approximations ("Rational
// Chebyshev Approximation for the Error Function", 1969; coefficients as in his
// Algorithm 715), and powers in double-double arithmetic.
//
// Both would be one call of the C library, whose last bit depends on its
// version. Here every operation is one that IEEE 754 rounds correctly, in the
// order that is written (see portable_math.h), so a result is the same
// everywhere. The square in the exponent of a tail is split into one that is
// exact and a small rest, since its rounding error would be multiplied by y².

#include "searchers/portable_math.h"

namespace dtrain {
namespace {

// The polynomials of Cody, by Horner's rule.

// Distance from 1/2 for |x| up to 0.67449.
double CentralArea(double x) {
  constexpr double a[] = {2.2352520354606839287, 161.02823106855587881,
                          1067.6894854603709582};
  constexpr double b[] = {47.20258190468824187, 976.09855173777669322,
                          10260.932208618978205};
  const double z = x * x;
  double num = 0.065682337918207449113 * z;
  double den = z;
  for (int i = 0; i < 3; ++i) {
    num = (num + a[i]) * z;
    den = (den + b[i]) * z;
  }
  return x * (num + 18154.981253343561249) / (den + 45507.789335026729956);
}

// The tail above y, divided by e^(-y² / 2), for y up to 5.65685.
double NearTail(double y) {
  constexpr double c[] = {.39894151208813466764, 8.8831497943883759412,
                          93.506656132177855979, 597.27027639480026226,
                          2494.5375852903726711, 6848.1904505362823326,
                          11602.651437647350124};
  constexpr double d[] = {22.266688044328115691, 235.38790178262499861,
                          1519.377599407554805,  6485.558298266760755,
                          18615.571640885098091, 34900.952721145977266,
                          38912.003286093271411};
  double num = 1.0765576773720192317e-8 * y;
  double den = y;
  for (int i = 0; i < 7; ++i) {
    num = (num + c[i]) * y;
    den = (den + d[i]) * y;
  }
  return (num + 9842.7148383839780218) / (den + 19685.429676859990727);
}

// The same for larger y: 1/sqrt(2π) less a rational function of 1/y², divided
// by y.
double FarTail(double y) {
  constexpr double p[] = {0.21589853405795699, 0.1274011611602473639,
                          0.022235277870649807, 0.001421619193227893466};
  constexpr double q[] = {1.28426009614491121, 0.468238212480865118,
                          0.0659881378689285515, 0.00378239633202758244};
  const double z = 1 / (y * y);
  double num = 0.02307344176494017303 * z;
  double den = z;
  for (int i = 0; i < 4; ++i) {
    num = (num + p[i]) * z;
    den = (den + q[i]) * z;
  }
  const double ratio =
      z * (num + 2.9112874951168792e-5) / (den + 7.29751555083966205e-5);
  return (0.39894228040143267794 - ratio) / y;
}

// A number as the sum of two, of which the second is at most half a unit in the
// last place of the first (Dekker, "A Floating-Point Technique for Extending
// the Available Precision", 1971).
struct DoubleDouble {
  double high = 0;
  double low = 0;
};

// Returns the exact product of two numbers up to 1e300.
DoubleDouble ExactProduct(double a, double b) {
  constexpr double kSplit = 0x1p27 + 1;
  const double a_high = kSplit * a - (kSplit * a - a);
  const double b_high = kSplit * b - (kSplit * b - b);
  const double a_low = a - a_high;
  const double b_low = b - b_high;
  const double high = a * b;
  const double low =
      ((a_high * b_high - high) + a_high * b_low + a_low * b_high) +
      a_low * b_low;
  return {high, low};
}

}  // namespace

double PortablePower(double base, std::int64_t exponent) {
  // Multiplies one factor at a time. Exponents are numbers of rungs, at most
  // 64, and the rounding error of each product is kept in `low`. The second
  // loop gives that up where ExactProduct could overflow.
  DoubleDouble power{.high = 1};
  for (; exponent > 0 && power.high < 1e250; --exponent) {
    const DoubleDouble product = ExactProduct(power.high, base);
    const double low = product.low + power.low * base;
    power.high = product.high + low;
    power.low = low - (power.high - product.high);
  }
  for (; exponent > 0 && power.high <= 1e300; --exponent) power.high *= base;
  return power.high;
}

double NormalProbability(double x) {
  const double y = x < 0 ? -x : x;
  if (y <= 0.67448975) return 0.5 + CentralArea(x);
  if (y > 1000) return x < 0 ? 0 : 1;
  // The square of a number with few digits is exact.
  const double near = static_cast<double>(static_cast<int>(y * 16)) / 16;
  const double tail = PortableExp(-near * near * 0.5) *
                      PortableExp(-(y - near) * (y + near) * 0.5) *
                      (y <= 5.656854249492380581 ? NearTail(y) : FarTail(y));
  return x < 0 ? tail : 1 - tail;
}

}  // namespace dtrain
