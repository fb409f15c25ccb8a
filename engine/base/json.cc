#include "engine/base/json.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "engine/base/error.h"

namespace dtrain {

nlohmann::json JsonNumber(double value) {
  if (std::isfinite(value)) return value;
  if (std::isnan(value)) return "NaN";
  return value > 0 ? "Infinity" : "-Infinity";
}

double NumberFromJson(const nlohmann::json& json) {
  if (json.is_number()) return json.get<double>();
  if (json == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (json == "Infinity") return std::numeric_limits<double>::infinity();
  if (json == "-Infinity") return -std::numeric_limits<double>::infinity();
  throw Error(ErrorKind::kFailed,
              "expected a number, 'NaN', 'Infinity' or '-Infinity'");
}

namespace {

void AddFlattened(const nlohmann::json& json, const std::string& name,
                  std::map<std::string, nlohmann::json>& flat) {
  if (!json.is_object() || json.empty()) {
    flat[name] = json;
    return;
  }
  for (const auto& [inner, value] : json.items()) {
    AddFlattened(value, name.empty() ? inner : name + "." + inner, flat);
  }
}

}  // namespace

std::map<std::string, nlohmann::json> FlattenNames(const nlohmann::json& json) {
  std::map<std::string, nlohmann::json> flat;
  if (json.is_object() && !json.empty()) AddFlattened(json, "", flat);
  return flat;
}

const nlohmann::json* FindMember(const nlohmann::json& json,
                                 std::string_view name) {
  if (!json.is_object()) return nullptr;
  // The whole name first, then each place where a dot may separate two levels,
  // since names may contain dots: "a.b.c" is also c in "a.b".
  if (const auto whole = json.find(name); whole != json.end()) return &*whole;
  for (std::size_t dot = name.find('.'); dot != name.npos;
       dot = name.find('.', dot + 1)) {
    const auto outer = json.find(name.substr(0, dot));
    if (outer == json.end()) continue;
    const auto* member = FindMember(*outer, name.substr(dot + 1));
    if (member != nullptr) return member;
  }
  return nullptr;
}

bool NestsDeeperThan(const nlohmann::json& json, int levels) {
  if (!json.is_structured()) return false;
  if (levels == 0) return true;
  return std::any_of(json.begin(), json.end(), [&](const auto& item) {
    return NestsDeeperThan(item, levels - 1);
  });
}

}  // namespace dtrain
