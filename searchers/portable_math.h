#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace dtrain {

// Elementary functions with the same result on every machine. The functions of
// the C library differ in the last bit between versions, and one bit can change
// which trial a search creates. These use only + - * / and comparisons, which
// IEEE 754 fixes. Files that include this header are compiled with
// -ffp-contract=off (searchers/CMakeLists.txt), so that no multiplication is
// fused with an addition. Errors are below 1e-15 of the result.

inline constexpr double kLn2High = 0x1.62e42fee00000p-1;
inline constexpr double kLn2Low = 0x1.a39ef35793c76p-33;

/// Returns e^x. Below -708 it is e^-708, above 709 it is e^709.
inline double PortableExp(double x) {
  // Adding this number rounds to an integer, which is then in the low bits.
  constexpr double kRound = 0x1.8p52;
  x = x < -708 ? -708 : x;
  x = x > 709 ? 709 : x;
  const double shifted = x * 0x1.71547652b82fep0 + kRound;
  const double n = shifted - kRound;
  const double r = (x - n * kLn2High) - n * kLn2Low;
  // The Taylor series; |r| is at most ln(2) / 2.
  double sum = 1.0 / 6227020800.0;
  sum = sum * r + 1.0 / 479001600.0;
  sum = sum * r + 1.0 / 39916800.0;
  sum = sum * r + 1.0 / 3628800.0;
  sum = sum * r + 1.0 / 362880.0;
  sum = sum * r + 1.0 / 40320.0;
  sum = sum * r + 1.0 / 5040.0;
  sum = sum * r + 1.0 / 720.0;
  sum = sum * r + 1.0 / 120.0;
  sum = sum * r + 1.0 / 24.0;
  sum = sum * r + 1.0 / 6.0;
  sum = sum * r + 0.5;
  sum = sum * r + 1.0;
  sum = sum * r + 1.0;
  const std::uint64_t exponent = (std::bit_cast<std::uint64_t>(shifted) + 1023)
                                 << 52;
  return sum * std::bit_cast<double>(exponent);
}

/// Returns ln(x). REQUIRES: x is positive and finite; a subnormal x counts as
/// the smallest normal number.
inline double PortableLog(double x) {
  x = std::max(x, 0x1p-1022);
  std::uint64_t bits = std::bit_cast<std::uint64_t>(x);
  // The mantissa is taken from [sqrt(1/2), sqrt(2)).
  bits += 0x3ff0000000000000 - 0x3fe6a09e667f3bcd;
  const auto exponent = static_cast<std::int64_t>(bits >> 52) - 1023;
  bits = (bits & 0x000fffffffffffff) + 0x3fe6a09e667f3bcd;
  const double m = std::bit_cast<double>(bits);
  const double s = (m - 1) / (m + 1);
  const double z = s * s;
  double sum = 1.0 / 23.0;
  sum = sum * z + 1.0 / 21.0;
  sum = sum * z + 1.0 / 19.0;
  sum = sum * z + 1.0 / 17.0;
  sum = sum * z + 1.0 / 15.0;
  sum = sum * z + 1.0 / 13.0;
  sum = sum * z + 1.0 / 11.0;
  sum = sum * z + 1.0 / 9.0;
  sum = sum * z + 1.0 / 7.0;
  sum = sum * z + 1.0 / 5.0;
  sum = sum * z + 1.0 / 3.0;
  const auto n = static_cast<double>(exponent);
  return n * kLn2High + (2 * s + (2 * s * z * sum + n * kLn2Low));
}

/// Returns base^exponent, rounded once. REQUIRES: base >= 1, exponent >= 0. A
/// result above 1e250 may be rounded several times.
double PortablePower(double base, std::int64_t exponent);

/// Density of the standard normal distribution.
inline double NormalDensity(double x) {
  return 0.39894228040143267794 * PortableExp(-0.5 * x * x);
}

/// Probability that a standard normal number is below x (Cody, "Rational
/// Chebyshev Approximation for the Error Function", 1969). Its relative error
/// is small in both tails.
double NormalProbability(double x);

}  // namespace dtrain
