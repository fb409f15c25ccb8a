#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace dtrain {

/// Returns the names of the fields of `object` that are as they are in
/// `other`: of a round trip whose fields must all differ from their defaults.
inline std::vector<std::string> EqualFields(const nlohmann::json& object,
                                            const nlohmann::json& other) {
  std::vector<std::string> names;
  for (const auto& [name, value] : object.items()) {
    if (other.at(name) == value) names.push_back(name);
  }
  return names;
}

}  // namespace dtrain
