#pragma once

#include <cstdint>
#include <vector>

#include <nlohmann/json.hpp>

namespace dtrain {

/// The grid over a space of hyperparameters: every combination of the values
/// of each, the axes in byte order of their names, depth first, the last axis
/// fastest. Points are made on demand. REQUIRES: the space was checked for a
/// grid; its size fits std::int64_t.
class HparamGrid {
 public:
  explicit HparamGrid(nlohmann::json space);

  /// How many points there are; 1 if nothing is searched.
  std::int64_t size() const { return size_; }
  /// The hyperparameters of point `index`. REQUIRES: 0 ≤ index < size().
  nlohmann::json At(std::int64_t index) const;

 private:
  nlohmann::json space_;
  std::vector<std::vector<nlohmann::json>> axes_;  // values, in axis order
  std::int64_t size_ = 1;
};

/// The values that a grid takes of one hyperparameter, a map with `type`:
/// `count` of them spread evenly from minval to maxval (for `log` in the
/// exponent, for a `double` with `log: true` in the logarithm), the midpoint if
/// `count` is 1; all values of a categorical, and of an int without a count.
std::vector<nlohmann::json> GridValues(const nlohmann::json& hparam);

}  // namespace dtrain
