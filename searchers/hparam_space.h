#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/base/rng.h"

namespace dtrain {

/// The hyperparameters of a trial with its request id and seed.
struct Sample {
  nlohmann::json hparams;
  std::string request_id;
  std::uint32_t seed = 0;
};

/// Draws hyperparameters at random. `space` is the map of the YAML. Its values
/// are scalars or lists (constants), maps with `type` (const, int, double, log,
/// categorical), or maps of further hyperparameters. `space` itself is never a
/// range, so a hyperparameter may be named `type`. Names are visited in byte
/// order, depth first; constants draw nothing. REQUIRES: `space` was checked.
nlohmann::json SampleHparams(const nlohmann::json& space, Rng& rng);

/// Draws hyperparameters, request id and seed, in this order.
Sample SampleTrial(const nlohmann::json& space, Rng& rng);

/// Draws request id and seed for these hyperparameters.
Sample Identify(nlohmann::json hparams, Rng& rng);

/// Returns the hyperparameters of a point of `searcher.points`: its values for
/// searched hyperparameters, and the constants of `space`. Draws nothing.
/// REQUIRES: the point was checked against the space.
nlohmann::json HparamsOfPoint(const nlohmann::json& space,
                              const nlohmann::json& point);

/// Returns the point of `searcher.points` that has the values of these
/// hyperparameters, which may be those of another space. Nothing, with the
/// reason in `problem` ("optimizer.lr is out of range"), if a searched one is
/// missing or its value is not in the range. REQUIRES: `space` was checked.
std::optional<nlohmann::json> PointOfHparams(const nlohmann::json& space,
                                             const nlohmann::json& hparams,
                                             std::string& problem);

/// True if every hyperparameter of `space` has only one value.
bool IsConstant(const nlohmann::json& space);

/// True if `value` is a map with a `type`, which describes one hyperparameter.
/// REQUIRES: `value` is not the map of all hyperparameters.
bool HasType(const nlohmann::json& value);

/// A value inside of the values of a hyperparameter that are maps: opt.lr of
/// the categories {name: adam, lr: 0.1} and {name: sgd} of opt.
struct HparamPart {
  std::string name;
  // The different ones, in the order of the categories.
  std::vector<nlohmann::json> values;
  // The first category without it; null if there is none.
  const nlohmann::json* lacking = nullptr;
};

/// Returns the parts of the hyperparameter `name` in byte order, each nested
/// one joined by dots; none if no value of it is a map. REQUIRES:
/// HasType(range). `range` must outlive the result.
std::vector<HparamPart> HparamParts(const std::string& name,
                                    const nlohmann::json& range);

/// A name of a hyperparameter.
struct HparamName {
  std::string name;     // nested ones joined by dots
  std::string whole{};  // of a part: the hyperparameter it is a part of
};

/// Returns the names by which the hyperparameters of `space` are found with
/// FindMember, in byte order, depth first, each followed by those of its parts.
std::vector<HparamName> HparamNames(const nlohmann::json& space);

/// Returns the values of the hyperparameter or part `name`: those of a
/// category, the one of a constant, null for a range of numbers; nothing if
/// `space` has none of this name. REQUIRES: `space` was checked.
std::optional<nlohmann::json> HparamChoices(const nlohmann::json& space,
                                            const std::string& name);

/// Returns the names of the hyperparameters that have parts.
std::vector<std::string> NamesWithParts(const nlohmann::json& space);

/// Returns a trial's values by all their names: FlattenNames, and those of
/// `with_parts`, the result of NamesWithParts, as a whole.
std::map<std::string, nlohmann::json> HparamValues(
    const nlohmann::json& hparams, const std::vector<std::string>& with_parts);

/// True for `type: double` with `log: true`, whose minval and maxval are values
/// (not exponents) and which is uniform in the logarithm. REQUIRES:
/// HasType(range).
bool IsLogDouble(const nlohmann::json& range);

/// The grid over a space of hyperparameters: every combination of their values,
/// with axes in byte order of the names, depth first, the last axis fastest.
/// Points are computed on demand. REQUIRES: the space was checked for a grid;
/// its size fits std::int64_t.
class HparamGrid {
 public:
  explicit HparamGrid(nlohmann::json space);

  /// Number of points; 1 if nothing is searched.
  std::int64_t size() const { return size_; }
  /// Returns the hyperparameters of a point. REQUIRES: 0 ≤ index < size().
  nlohmann::json At(std::int64_t index) const;

 private:
  nlohmann::json space_;
  std::vector<std::vector<nlohmann::json>> axes_;  // values, in axis order
  std::int64_t size_ = 1;
};

/// Returns the values of one hyperparameter, a map with `type`, in a grid:
/// `count` evenly spaced values from minval to maxval (for `log` in the
/// exponent, for `double` with `log: true` in the logarithm), the midpoint if
/// `count` is 1; all values of a categorical, and of an int without a count.
std::vector<nlohmann::json> GridValues(const nlohmann::json& hparam);

/// Returns the values that each searched hyperparameter chooses from, by its
/// path joined with dots: those of a categorical, of an int with two values
/// and, in a grid, of each axis. Those with more than 1,000 values are left
/// out. REQUIRES: `space` was checked.
nlohmann::json Alternatives(const nlohmann::json& space, bool is_grid);

}  // namespace dtrain
