#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "searchers/hparam_conditions.h"
#include "searchers/hparam_constraints.h"

namespace dtrain {

/// The grid over a space of hyperparameters: every combination of their values,
/// with axes in byte order of the names, depth first, the last axis fastest.
/// Combinations that differ only in absent hyperparameters are one point.
/// Points that violate the constraints are left out. Points are computed on
/// demand. REQUIRES: the space was checked for a grid; its size fits
/// std::int64_t.
class HparamGrid {
 public:
  struct Axis {
    std::vector<std::string> path;
    std::vector<nlohmann::json> values;
  };

  static constexpr std::int64_t kNoLimit =
      std::numeric_limits<std::int64_t>::max() - 1;
  /// Number of values that are tried, one after the other, for the points that
  /// meet the constraints. All that follow from a violated one are left out.
  static constexpr std::int64_t kMaxTried = 500'000;

  /// `most`: a grid with conditions or constraints that has more points, or
  /// with constraints would try more than kMaxTried values, gets most + 1.
  explicit HparamGrid(nlohmann::json space, std::int64_t most = kNoLimit,
                      const std::vector<std::string>& constraints = {});

  /// Number of points; 1 if nothing is searched.
  std::int64_t size() const { return size_; }
  /// Returns the hyperparameters of a point. REQUIRES: 0 ≤ index < size().
  nlohmann::json At(std::int64_t index) const;

 private:
  void ListPoints(std::int64_t most);

  nlohmann::json space_;
  HparamConditions conditions_;
  HparamConstraints constraints_;
  std::vector<Axis> axes_;
  // With conditions or constraints: the points, by the index of the value on
  // each axis.
  std::vector<std::vector<std::uint32_t>> points_;
  std::int64_t size_ = 1;
};

}  // namespace dtrain
