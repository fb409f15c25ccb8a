#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace dtrain {

/// The `searcher` section of an experiment, checked and with its defaults
/// filled in. Lengths are in the unit of `max_length`, which the engine keeps.
struct SearcherConfig {
  std::string name;  // single, random, grid, async_halving, adaptive_asha
  std::string metric;
  bool smaller_is_better = true;
  std::int64_t max_length = 0;  // 0: a program decides it
  std::int64_t max_trials = 1;
  std::int64_t max_concurrent_trials = 16;  // 0: unlimited
  std::int64_t num_rungs = 0;  // 0: as many as adaptive_asha has at most
  double divisor = 4;
  bool stop_once = false;
  std::string mode = "standard";  // conservative, standard, aggressive
  std::int64_t max_rungs = 5;
  std::vector<std::int64_t> bracket_rungs;
  std::vector<nlohmann::json> points;  // hyperparameters to try first
  // Of `single`: where it is validated on its way, ascending.
  std::vector<std::int64_t> stops;
};

}  // namespace dtrain
