#pragma once

#include <map>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace dtrain {

/// Returns `value` as dtrain writes numbers to JSON: a number, or one of the
/// strings "NaN", "Infinity", "-Infinity", which JSON has no numbers for.
nlohmann::json JsonNumber(double value);

/// Reads back the result of `JsonNumber`. Throws Error(kFailed) for anything
/// else.
double NumberFromJson(const nlohmann::json& json);

/// Returns the values of nested objects by their names joined by dots: {"a":
/// {"b": 1}} is a.b = 1. An empty object is a value; nothing for a `json` that
/// is no object.
std::map<std::string, nlohmann::json> FlattenNames(const nlohmann::json& json);

/// Returns the member of this name ("optimizer.lr" is lr in the object
/// optimizer; a name may also contain a dot itself), or null.
const nlohmann::json* FindMember(const nlohmann::json& json,
                                 std::string_view name);

/// More levels than any document of dtrain has, and far fewer than a stack
/// holds.
inline constexpr int kMaxJsonLevels = 100;

/// True if lists and maps nest in `json` more than `levels` deep. Check this
/// for JSON from a file or a socket: parsing it is safe at any depth, but
/// copying or printing it would exhaust the stack.
bool NestsDeeperThan(const nlohmann::json& json, int levels = kMaxJsonLevels);

}  // namespace dtrain
