#pragma once

#include <cmath>
#include <fstream>
#include <string>

#include <nlohmann/json.hpp>

#include "searchers/searcher.h"

namespace dtrain {

/// Reads a JSON file of tests/golden.
inline nlohmann::json ReadGolden(const std::string& name) {
  std::ifstream file(std::string(DTRAIN_GOLDEN_DIR) + "/" + name);
  return nlohmann::json::parse(file);
}

/// True if two values are equal; numbers are compared to 12 digits.
inline bool Near(const nlohmann::json& a, const nlohmann::json& b) {
  if (a.is_number_float() || b.is_number_float()) {
    if (!a.is_number() || !b.is_number()) return false;
    const double x = a;
    const double y = b;
    return std::abs(x - y) <= 1e-12 * std::max(std::abs(x), std::abs(y));
  }
  if (!a.is_structured() || a.size() != b.size()) return a == b;
  for (const auto& [key, value] : a.items()) {
    const nlohmann::json* other = nullptr;
    if (b.is_object() && b.contains(key)) other = &b.at(key);
    if (b.is_array()) other = &b.at(std::stoul(key));
    if (other == nullptr || !Near(value, *other)) return false;
  }
  return true;
}

/// Returns the searcher section of a recorded case, with lengths in batches.
inline SearcherConfig RecordedConfig(const nlohmann::json& json) {
  SearcherConfig config;
  config.name = json.at("name");
  config.smaller_is_better = json.value("smaller_is_better", true);
  config.max_length = json.contains("max_length")
                          ? json.at("max_length").at("batches")
                          : json.at("max_time");
  config.max_trials = json.value("max_trials", config.max_trials);
  // Recorded without a default, so a missing key means none.
  config.max_concurrent_trials =
      json.value("max_concurrent_trials", config.max_concurrent_trials);
  config.num_rungs = json.value("num_rungs", config.num_rungs);
  config.divisor = json.value("divisor", config.divisor);
  config.stop_once = json.value("stop_once", config.stop_once);
  config.mode = json.value("mode", config.mode);
  config.max_rungs = json.value("max_rungs", config.max_rungs);
  config.bracket_rungs = json.value("bracket_rungs", config.bracket_rungs);
  return config;
}

}  // namespace dtrain
