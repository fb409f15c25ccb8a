#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dtrain {

/// Which slots an experiment may use.
struct SlotChoice {
  enum class Kind { kAuto, kNone, kCpu, kMostFree, kIds };
  Kind kind = Kind::kAuto;
  std::int64_t cpu_slots = 0;      // for kCpu; 0: as auto decides on CPUs
  std::vector<std::int64_t> gpus;  // for kIds
};

struct ResourcesConfig {
  double slots_per_trial = 1;  // < 1: a fraction of a GPU
  bool all_slots = false;      // `slots_per_trial: all`
  std::optional<std::int64_t> max_slots;
  SlotChoice slots;
};

struct CheckpointConfig {
  std::string policy = "best";  // best, all, none
  std::int64_t save_experiment_best = 0;
  std::int64_t save_trial_best = 1;
  std::int64_t save_trial_latest = 1;
  std::string path;  // empty: in the store
};

}  // namespace dtrain
