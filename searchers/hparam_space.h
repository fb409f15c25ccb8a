#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/base/rng.h"

namespace dtrain {

/// A trial's hyperparameters with what belongs to them.
struct Sample {
  nlohmann::json hparams;
  std::string request_id;
  std::uint32_t seed = 0;
};

/// Hyperparameters drawn at random. `space` is the map that the YAML gives. A
/// value of it is a scalar or list (constant), a map with `type` (const, int,
/// double, log, categorical), or a map of further hyperparameters. `space`
/// itself is never a range, so a hyperparameter may be named `type`. Maps are
/// visited in byte order of their names, depth first; constants draw nothing.
/// REQUIRES: `space` was checked.
nlohmann::json SampleHparams(const nlohmann::json& space, Rng& rng);

/// A whole trial: hyperparameters, request id, seed, drawn in this order.
Sample SampleTrial(const nlohmann::json& space, Rng& rng);

/// The hyperparameters with the request id and seed drawn for them.
Sample Identify(nlohmann::json hparams, Rng& rng);

/// The hyperparameters of a starting point: its value for all that is searched,
/// the constants of `space` for the rest. Draws nothing. REQUIRES: the point
/// was checked against the space.
nlohmann::json HparamsOfPoint(const nlohmann::json& space,
                              const nlohmann::json& point);

/// Whether every hyperparameter of `space` has but one value.
bool IsConstant(const nlohmann::json& space);

/// Whether `value` is a map that describes one hyperparameter by its `type`.
/// REQUIRES: `value` is not the map of all hyperparameters, which never does.
bool HasType(const nlohmann::json& value);

/// Whether the range is `type: double` with `log: true`: its minval and maxval
/// are values, not exponents, and it is drawn uniformly in the logarithm.
/// REQUIRES: HasType(range).
bool IsLogDouble(const nlohmann::json& range);

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
