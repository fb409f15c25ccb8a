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
/// normal, categorical), or maps of further hyperparameters. `space` itself is
/// never a range, so a hyperparameter may be named `type`. Names are visited in
/// byte order, depth first; constants draw nothing. Hyperparameters whose
/// conditions do not hold are left out afterwards. REQUIRES: `space` was
/// checked.
nlohmann::json SampleHparams(const nlohmann::json& space, Rng& rng);

/// Draws hyperparameters, request id and seed, in this order.
Sample SampleTrial(const nlohmann::json& space, Rng& rng);

/// Draws request id and seed for these hyperparameters.
Sample Identify(nlohmann::json hparams, Rng& rng);

/// Returns the hyperparameters of a point of `searcher.points`: its values,
/// drawn ones for the searched hyperparameters that it does not name, in the
/// order of SampleHparams, and the constants of `space`. REQUIRES: the point
/// was checked against the space.
nlohmann::json HparamsOfPoint(const nlohmann::json& space,
                              const nlohmann::json& point, Rng& rng);

/// Returns the point of `searcher.points` that has the values of these
/// hyperparameters, which may be those of another space. Nothing, with the
/// reason in `problem` ("optimizer.lr is out of range"), if a searched one is
/// missing, although its condition holds, or its value is not in the range.
/// REQUIRES: `space` was checked.
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
/// category, the one of a constant, and that of `else`; null for a range of
/// numbers; nothing if `space` has none of this name. REQUIRES: `space` was
/// checked.
std::optional<nlohmann::json> HparamChoices(const nlohmann::json& space,
                                            const std::string& name);

/// Returns the names of the hyperparameters that have parts.
std::vector<std::string> NamesWithParts(const nlohmann::json& space);

/// Returns a trial's values by all their names: FlattenNames, and those of
/// `with_parts`, the result of NamesWithParts, as a whole.
std::map<std::string, nlohmann::json> HparamValues(
    const nlohmann::json& hparams, const std::vector<std::string>& with_parts);

/// True for a range with `log: true`, whose minval and maxval are values (not
/// exponents) and which is uniform, or normal, in the logarithm. REQUIRES:
/// HasType(range).
bool IsLog(const nlohmann::json& range);

/// True for a range of numbers whose values are a SteppedRange, each equally
/// likely. REQUIRES: HasType(range).
bool IsDiscrete(const nlohmann::json& range);

/// True for a categorical hyperparameter whose values are ordered: `ordered`,
/// or by default three or more numbers, ascending or descending. A model sees
/// their ranks; draws and grids are the same. REQUIRES: HasType(range).
bool IsOrdered(const nlohmann::json& range);

/// Returns the values of one hyperparameter, a map with `type`, in a grid:
/// `count` evenly spaced values from minval to maxval (for `log` in the
/// exponent, with `log: true` in the logarithm), the midpoint if `count` is 1;
/// the quantiles (i + 1/2) / count of a normal; all values of a categorical, of
/// a range with steps, and of an int without a count. Integers that are equal
/// when rounded are one.
std::vector<nlohmann::json> GridValues(const nlohmann::json& hparam);

/// Returns the number of those values without listing them; 0 if the range
/// needs a count. A count of more than 100,000 integers on a logarithmic scale
/// is returned as it is.
std::int64_t CountGridValues(const nlohmann::json& hparam);

/// Returns the values that each searched hyperparameter chooses from, by its
/// path joined with dots: those of a categorical, of an int or steps with two
/// values and, in a grid, of each axis. Those with more than 1,000 values are
/// left out. REQUIRES: `space` was checked.
nlohmann::json Alternatives(const nlohmann::json& space, bool is_grid);

}  // namespace dtrain
