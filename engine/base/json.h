#pragma once

#include <nlohmann/json.hpp>

namespace dtrain {

/// Returns `value` as dtrain writes numbers to JSON: a number, or one of the
/// strings "NaN", "Infinity", "-Infinity", which JSON has no numbers for.
nlohmann::json JsonNumber(double value);

/// Reads back the result of `JsonNumber`. Throws Error(kFailed) for anything
/// else.
double NumberFromJson(const nlohmann::json& json);

/// More levels than any document of dtrain has, and far fewer than a stack
/// holds.
inline constexpr int kMaxJsonLevels = 100;

/// True if lists and maps nest in `json` more than `levels` deep. Check this
/// for JSON from a file or a socket: parsing it is safe at any depth, but
/// copying or printing it would exhaust the stack.
bool NestsDeeperThan(const nlohmann::json& json, int levels = kMaxJsonLevels);

}  // namespace dtrain
