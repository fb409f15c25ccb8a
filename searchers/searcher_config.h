#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace dtrain {

/// The section `searcher` of an experiment, checked and with defaults. Lengths
/// are in the unit of `max_length`, which searchers do not need.
struct SearcherConfig {
  std::string name;  // of a SearcherEntry
  std::string metric;
  bool smaller_is_better = true;
  std::int64_t max_length = 0;  // 0: a program decides
  std::int64_t max_trials = 1;
  std::int64_t max_concurrent_trials = 16;  // 0: unlimited
  std::int64_t num_rungs = 0;  // 0: as many as the length and trials allow
  double divisor = 4;
  bool stop_once = false;
  std::string mode = "standard";  // conservative, standard, aggressive
  std::int64_t max_rungs = 5;
  std::vector<std::int64_t> bracket_rungs;
  std::vector<nlohmann::json> points;  // hyperparameters to try first
  // Of `single`: lengths before max_length to validate at, ascending.
  std::vector<std::int64_t> stops;
};

}  // namespace dtrain
