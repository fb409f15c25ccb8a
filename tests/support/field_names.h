#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace dtrain {

/// Returns the names of fields with equal values in `object` and `other`. For
/// round trips in which every field must differ from its default.
inline std::vector<std::string> EqualFields(const nlohmann::json& object,
                                            const nlohmann::json& other) {
  std::vector<std::string> names;
  for (const auto& [name, value] : object.items()) {
    if (other.at(name) == value) names.push_back(name);
  }
  return names;
}

}  // namespace dtrain
