#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/base/length.h"
#include "engine/base/text.h"
#include "engine/config/findings.h"
#include "engine/config/slurm_config.h"
#include "engine/wire/trial_spec.h"
#include "searchers/searcher.h"

namespace dtrain {

/// Choice of the slots that an experiment may use.
struct SlotChoice {
  enum class Kind { kAuto, kNone, kCpu, kGpu, kMaxFree, kIds };
  Kind kind = Kind::kAuto;
  std::int64_t cpu_slots = 0;      // for kCpu; 0: as auto decides on CPUs
  std::int64_t gpu_slots = 0;      // for kGpu: number of GPUs, any of them
  std::vector<std::int64_t> gpus;  // for kIds
};

/// Address at which a runner accepts workers.
struct ListenAddress {
  std::string host;  // empty: every address of this machine
  int port = 0;      // 0: any free one

  friend bool operator==(const ListenAddress&, const ListenAddress&) = default;
};

struct ResourcesConfig {
  double slots_per_trial = 1;  // < 1: a fraction of a GPU
  bool all_slots = false;      // `slots_per_trial: all`
  std::optional<std::int64_t> max_slots;
  SlotChoice slots;
  std::optional<ListenAddress> listen;  // trials run on workers too
  bool local = true;                    // trials run on this machine too
  std::string executor = "local";       // or "slurm"
};

/// Names and values, in order.
using EnvironmentVariables = std::vector<std::pair<std::string, std::string>>;

/// Environment variables of trials.
struct TrialEnvironment {
  EnvironmentVariables everywhere;
  EnvironmentVariables cpu;   // only for trials on CPU slots
  EnvironmentVariables cuda;  // only for trials on GPUs
  EnvironmentVariables rocm;  // for no trial; known so that they are not shown

  /// Returns the variables of a trial, each once: those of its device take
  /// precedence over those of all devices.
  EnvironmentVariables For(bool on_gpus) const;
  /// Returns the variables of all devices.
  EnvironmentVariables All() const;
  /// Returns the list for `device`: "cpu", "cuda", "rocm", or empty for every
  /// device.
  EnvironmentVariables& ForDevice(std::string_view device);
};

struct CheckpointConfig {
  std::string policy = "best";  // best, all, none
  std::int64_t save_experiment_best = 0;
  std::int64_t save_trial_best = 1;
  std::int64_t save_trial_latest = 1;
  std::string path;  // empty: in the store
  // Set only for a configuration that was just read, and never stored: the part
  // of `path` that must exist (storage_path below it is created), and its place
  // in the text, without a message.
  std::string base;
  Diagnostic where;
};

/// Experiments whose trials a search begins with: one, or all with a label.
struct WarmStartSource {
  std::int64_t experiment = 0;  // 0: by the label
  std::string label;
  // Its place in the text, without a message. Set only for a configuration that
  // was just read, and never stored.
  Diagnostic where;
};

/// Prefix of a label in `searcher.warm_start`.
inline constexpr std::string_view kLabelPrefix = "label:";

/// Maximum size of a configuration: far more than anyone writes, and little
/// enough to be parsed quickly. Callers need to read only one byte more.
inline constexpr std::size_t kMaxConfigBytes = std::size_t{1} << 20;

/// A checked experiment configuration with its defaults filled in, as returned
/// by `ReadConfig`. Does not refer to the text.
/// Messages about an experiment to a command and to an address
/// (docs/notify.md).
struct NotifyConfig {
  std::vector<std::string> command;  // receives JSON on standard input
  // Of a configuration that was just read. `effective` has ShownUrl of it.
  std::string url;
  std::string url_env;          // environment variable that has it
  bool slack = false;           // the format of the body; otherwise the JSON
  std::string secret_env;       // environment variable with the key of the HMAC
  std::vector<std::string> on;  // events
};

struct ExperimentConfig {
  std::string name;
  std::string description;
  std::vector<std::string> labels;
  // `model_def:Trial`, or a command as a list of words.
  std::variant<std::string, std::vector<std::string>> entrypoint;
  // The words are templates, see engine/base/placeholders.h.
  bool placeholders = false;
  std::vector<std::string> links;       // of trials, to directories of data
  std::optional<MetricSource> metrics;  // of a program that reports none
  nlohmann::json hyperparameters = nlohmann::json::object();
  nlohmann::json data = nlohmann::json::object();
  SearcherConfig searcher;
  Unit length_unit = Unit::kBatches;  // of the searcher's max_length
  std::vector<WarmStartSource> warm_start;
  std::string source_trial_id;  // "3.7", or empty; excludes the next one
  std::string source_checkpoint_uuid;
  TrainerSettings training;
  ResourcesConfig resources;
  SlurmConfig slurm;
  CheckpointConfig checkpoints;
  std::int64_t max_restarts = 5;
  std::optional<std::uint32_t> experiment_seed;
  std::optional<std::uint32_t> trial_seed;  // of a single search
  std::optional<double> time_limit;         // seconds
  std::optional<double> trial_time_limit;   // seconds
  double hang_timeout = 600;                // seconds without a step
  std::int64_t rules = kCurrentRules;       // see kCurrentRules
  std::optional<NotifyConfig> notify;
  bool system_metrics = true;  // what trials use is sampled
  // Never stored; `effective` has the names, each with null.
  TrialEnvironment environment;
  // The whole configuration as JSON, with defaults and without values of
  // environment variables, as stored and as printed by `--json`.
  nlohmann::json effective = nlohmann::json::object();
};

/// Returns max_length, or the max_time that replaces it, as `{"epochs": 10}`;
/// null if a program decides how long it trains.
inline nlohmann::json MaxLengthJson(const ExperimentConfig& config) {
  const std::int64_t length = config.searcher.max_length;
  if (length == 0) return nullptr;
  return {{UnitName(config.length_unit), length}};
}

/// Returns the entrypoint as one string, the words of a command joined by
/// blanks.
inline std::string EntrypointText(const ExperimentConfig& config) {
  if (const auto* name = std::get_if<std::string>(&config.entrypoint)) {
    return *name;
  }
  return Join(std::get<std::vector<std::string>>(config.entrypoint), " ");
}

/// A hyperparameter that a model reads.
struct HparamRule {
  std::string_view name;
  std::string_view type;  // int, float, bool, string, list
  bool required = false;
  bool unused = false;  // accepted for compatibility; has no effect
  // Returns why the model would refuse a value of this type, or "". May be
  // null.
  std::string (*find_fault)(const nlohmann::json& value) = nullptr;
};

/// Inputs of ReadConfig besides the text.
struct ReadOptions {
  std::string file_name;  // for messages, and the default name
  // Absolute directory for relative paths; "": they are left unchanged.
  std::string directory;
  std::vector<std::string> overrides;  // `a.b=VALUE`, as `--set` takes them
  // Known models; another entrypoint causes a warning. "model_def:*" means all
  // of that module.
  std::vector<std::string> known_entrypoints;
  // Another entrypoint is an error.
  bool refuse_unknown_entrypoint = false;
  // Returns the Python file of `module` beside the configuration, or "". May be
  // null.
  std::function<std::string(const std::string& module)> find_python;
  // Returns the hyperparameters that a model reads, for the check of the
  // text's; an empty list if they are not known. May be null.
  std::function<std::vector<HparamRule>(const std::string& entrypoint)>
      hparam_rules;
  // The text belongs to a recorded experiment: violations of these rules are
  // warnings, except in overrides.
  bool recorded = false;
  // The text was written by dtrain, so that no user knows its lines.
  bool is_generated = false;
  // The tree is an effective configuration: a list of words is literal.
  bool stored = false;
  // Read in an allocation of Slurm, so that no jobs will be submitted.
  bool in_allocation = false;
};

}  // namespace dtrain
