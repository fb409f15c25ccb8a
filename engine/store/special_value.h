#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>

namespace dtrain {

/// A double as the database keeps it: its value, or NULL and a number that
/// says which of the values it is that SQLite cannot store or sort.
struct SpecialValue {
  explicit SpecialValue(double number)
      : special(std::isnan(number)      ? 1
                : std::isfinite(number) ? 0
                : number > 0            ? 2
                                        : 3) {
    if (special == 0) value = number;
  }
  SpecialValue(std::optional<double> stored, int stored_special)
      : value(stored), special(stored_special) {}

  double Number() const {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    if (value) return *value;
    if (special == 1) return std::numeric_limits<double>::quiet_NaN();
    return special == 2 ? kInfinity : -kInfinity;
  }

  std::optional<double> value;
  int special;
};

/// Finite in any case, for columns that must have a number and whose value
/// decides nothing.
inline double FiniteOrZero(double number) {
  return std::isfinite(number) ? number : 0;
}

}  // namespace dtrain
