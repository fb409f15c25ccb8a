#pragma once

#include <cstdint>
#include <optional>

#include <nlohmann/json.hpp>

namespace dtrain {

// Ranges of numbers of which not every number is as likely: steps, integers
// that are uniform in the logarithm, normal distributions. The same on every
// machine (searchers/portable_math.h).

/// Returns low + steps · step as the decimal number that the arguments mean:
/// 0.3 for 3 steps of 0.1, not 0.30000000000000004.
double AddSteps(double low, double steps, double step);

/// The values minval, minval + step, … up to maxval of a range of type int or
/// double; an int without `step` has all of them.
class SteppedRange {
 public:
  /// REQUIRES: `range` was checked, and is an int without `log`, or has a step.
  explicit SteppedRange(const nlohmann::json& range);

  /// Index of the last value; that of the first is 0.
  std::uint64_t last() const { return last_; }
  /// REQUIRES: index ≤ last().
  nlohmann::json At(std::uint64_t index) const;
  /// Returns the index of a value, which may have an error of rounding; nothing
  /// if it is not one of the values.
  std::optional<std::uint64_t> Find(const nlohmann::json& value) const;

 private:
  double NumberAt(std::uint64_t index) const;

  bool whole_;
  std::int64_t first_ = 0;  // of integers
  std::int64_t width_ = 1;
  double low_ = 0;  // of other numbers
  double step_ = 1;
  std::uint64_t last_ = 0;
};

/// The integers from minval to maxval, uniform in the logarithm: a number
/// between minval − ½ and maxval + ½ is rounded.
class LogInteger {
 public:
  /// REQUIRES: `range` was checked; it is an int with `log`.
  explicit LogInteger(const nlohmann::json& range);

  /// Returns the integer at a place, 0 to 1.
  std::int64_t At(double place) const;
  /// Returns the place of an integer. REQUIRES: it is in the range.
  double Place(std::int64_t value) const;

 private:
  std::int64_t low_;
  std::int64_t high_;
  double from_;
  double to_;
};

/// A normal distribution of numbers, or of their natural logarithms with `log`,
/// cut off at minval and maxval if they are given.
class NormalRange {
 public:
  /// REQUIRES: `range` has a mean, and a std above 0.
  explicit NormalRange(const nlohmann::json& range);

  /// True if the bounds leave nothing of the distribution that doubles can
  /// represent.
  bool empty() const { return !(mass_ > 1e-300); }
  /// True if all quantiles are numbers that a double can represent. REQUIRES:
  /// !empty().
  bool IsRepresentable() const;
  /// Returns the quantile `share` (0 to 1), which is finite also at the ends.
  /// REQUIRES: !empty().
  double At(double share) const;
  /// Returns the share of the distribution that is below a value.
  double Place(double value) const;

 private:
  bool log_;
  double mean_;
  double std_;
  std::optional<double> low_;
  std::optional<double> high_;
  // Probabilities of the whole distribution: below the lower bound, above the
  // upper one, and between them.
  double below_ = 0;
  double above_ = 0;
  double mass_ = 1;
};

/// Returns the quantile of the standard normal distribution (Wichura,
/// "Algorithm AS 241", 1988). REQUIRES: 0 < p ≤ 1/2.
double LowerNormalQuantile(double p);

}  // namespace dtrain
