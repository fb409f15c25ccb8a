#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/config/findings.h"

namespace dtrain {

/// Which slots an experiment may use.
struct SlotChoice {
  enum class Kind { kAuto, kNone, kCpu, kGpu, kMostFree, kIds };
  Kind kind = Kind::kAuto;
  std::int64_t cpu_slots = 0;      // for kCpu; 0: as auto decides on CPUs
  std::int64_t gpu_slots = 0;      // for kGpu: any so many
  std::vector<std::int64_t> gpus;  // for kIds
};

struct ResourcesConfig {
  double slots_per_trial = 1;  // < 1: a fraction of a GPU
  bool all_slots = false;      // `slots_per_trial: all`
  std::optional<std::int64_t> max_slots;
  SlotChoice slots;
};

/// Names and values, in order.
using EnvironmentVariables = std::vector<std::pair<std::string, std::string>>;

/// Environment variables of trials.
struct TrialEnvironment {
  EnvironmentVariables everywhere;
  EnvironmentVariables cpu;   // only of trials on CPU slots
  EnvironmentVariables cuda;  // only of trials on GPUs
  EnvironmentVariables rocm;  // of no trial: kept to be hidden

  /// The variables of a trial, each once: those of its device come before those
  /// of all devices.
  EnvironmentVariables For(bool on_gpus) const;
  /// The variables of all devices.
  EnvironmentVariables All() const;
  /// The list for `device`: "cpu", "cuda", "rocm", or empty for every device.
  EnvironmentVariables& Of(std::string_view device);
};

struct CheckpointConfig {
  std::string policy = "best";  // best, all, none
  std::int64_t save_experiment_best = 0;
  std::int64_t save_trial_best = 1;
  std::int64_t save_trial_latest = 1;
  std::string path;  // empty: in the store
  // The rest is of a configuration that was just read, and is never stored:
  // the part of `path` that has to be there (storage_path below it is made),
  // and where the text says so, without a message.
  std::string base;
  Diagnostic where;
};

}  // namespace dtrain
