#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace dtrain {

/// Reads a hyperparameter that is written in words, as `dtrain run --hp` takes
/// it, and returns it as `hyperparameters` of a YAML has it.
///
/// `text` is `log(LOW,HIGH)`, `double(LOW,HIGH)`, `int(LOW,HIGH)`, a list
/// `[A,B]` or `choice(A,B)`, also by the names that Optuna, Ray Tune and W&B
/// use for them, with the bounds that the tool means by the name; bounds are
/// the values themselves. Ranges take `count=N` for a grid and `step=S`. Any
/// other text is a constant, in YAML.
///
/// Throws Error(kUsage), which begins with `option`, also for a text without
/// quotes that another tool reads as a range, a list or code.
nlohmann::json ReadHparamSpec(const std::string& option, std::string_view text);

/// Reads a YAML value, a number only if JSON can represent it. Throws
/// Error(kUsage), which begins with `option`.
nlohmann::json ReadSpecValue(const std::string& option,
                             const std::string& text);

/// Maximum number of values of a range with steps.
inline constexpr int kMaxSteps = 1000;

/// Returns the values `low`, `low + step`, … up to `high`, as integers if all
/// three are. Nothing if there are more than kMaxSteps, or `step` is not above
/// 0.
std::optional<nlohmann::json> SteppedValues(const nlohmann::json& low,
                                            const nlohmann::json& high,
                                            const nlohmann::json& step);

/// Returns the multiples of `step` from `low` to `high` in the same way.
std::optional<nlohmann::json> ListMultiples(const nlohmann::json& low,
                                            const nlohmann::json& high,
                                            const nlohmann::json& step);

}  // namespace dtrain
