#pragma once

#include <nlohmann/json.hpp>

namespace dtrain {

/// `value` as dtrain writes numbers to JSON: a number, or one of the strings
/// "NaN", "Infinity", "-Infinity", which JSON has no numbers for.
nlohmann::json JsonNumber(double value);

/// Reads back what `JsonNumber` wrote. Throws Error(kFailed) for anything else.
double NumberFromJson(const nlohmann::json& json);

}  // namespace dtrain
