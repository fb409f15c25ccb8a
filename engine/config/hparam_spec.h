#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace dtrain {

/// Reads a hyperparameter that is written in words, as `dtrain run --hp` takes
/// it, and returns it as `hyperparameters` of a YAML has it.
///
/// `text` is `log(LOW,HIGH)`, `double(LOW,HIGH)`, `int(LOW,HIGH)`,
/// `normal(MEAN,STD)`, a list `[A,B]` or `choice(A,B)`, also by the names that
/// Optuna, Ray Tune and W&B use for them, with the bounds that the tool means
/// by the name; bounds are the values themselves. Ranges take `count=N` for a
/// grid, `step=S` and `log=true`. Any other text is a constant, in YAML. Behind
/// it may stand a condition: ` when NAME==VALUE`, `NAME in [A,B]`, `NAME>=N` or
/// `NAME<=N`, several joined by ` and `, then ` else VALUE`.
///
/// Throws Error(kUsage), which begins with `option`, also for a text without
/// quotes that another tool reads as a range, a list or code.
nlohmann::json ReadHparamSpec(const std::string& option, std::string_view text);

/// Reads a YAML value, a number only if JSON can represent it. Throws
/// Error(kUsage), which begins with `option`.
nlohmann::json ReadSpecValue(const std::string& option,
                             const std::string& text);

/// Returns a range whose steps are multiples of `step`: those from `low` to
/// `high`, or with `nearest` those that numbers between the bounds are rounded
/// to. One multiple is a constant; nothing if there is none. They are integers
/// if `step` is one, and without `nearest` the bounds too. REQUIRES: `step` is
/// above 0.
std::optional<nlohmann::json> RangeOfMultiples(const nlohmann::json& low,
                                               const nlohmann::json& high,
                                               const nlohmann::json& step,
                                               bool nearest);

}  // namespace dtrain
