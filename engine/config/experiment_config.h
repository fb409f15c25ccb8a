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
#include "engine/config/findings.h"
#include "engine/wire/trainer_settings.h"
#include "searchers/searcher_config.h"

namespace dtrain {

/// Choice of the slots that an experiment may use.
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

  /// Returns the variables of a trial, each once: those of its device take
  /// precedence over those of all devices.
  EnvironmentVariables For(bool on_gpus) const;
  /// Returns the variables of all devices.
  EnvironmentVariables All() const;
  /// Returns the list for `device`: "cpu", "cuda", "rocm", or empty for every
  /// device.
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

/// The largest configuration that is read: a hundred times the longest that
/// anyone writes, and little enough to be parsed in no time. Who reads a file
/// need not read more than one byte beyond.
inline constexpr std::size_t kMaxConfigBytes = std::size_t{1} << 20;

/// A checked experiment configuration with its defaults filled in. Made by
/// `ReadConfig`; a value, nothing in it refers to the text.
struct ExperimentConfig {
  std::string name;
  std::string description;
  std::vector<std::string> labels;
  // `model_def:Trial`, or a command as a list of words.
  std::variant<std::string, std::vector<std::string>> entrypoint;
  nlohmann::json hyperparameters = nlohmann::json::object();
  nlohmann::json data = nlohmann::json::object();
  SearcherConfig searcher;
  Unit length_unit = Unit::kBatches;  // of the searcher's max_length
  std::string source_trial_id;        // "3.7", or empty; not with the next one
  std::string source_checkpoint_uuid;
  TrainerSettings training;
  ResourcesConfig resources;
  CheckpointConfig checkpoints;
  std::int64_t max_restarts = 5;
  std::optional<std::uint32_t> experiment_seed;
  std::optional<std::uint32_t> trial_seed;  // of a single search
  std::optional<double> time_limit;         // seconds
  double hang_timeout = 600;                // seconds without a step
  // Never stored: `effective` has the names, each with null.
  TrialEnvironment environment;
  // The whole configuration as JSON, defaults filled in and environment
  // values taken out: what is stored and what `--json` prints.
  nlohmann::json effective = nlohmann::json::object();
};

/// The searcher's max_length, or the max_time that stands for it, as
/// `{"epochs": 10}`; null where a program decides how long it trains.
nlohmann::json MaxLengthJson(const ExperimentConfig& config);

/// The entrypoint in one text, the words of a command with blanks between.
std::string EntrypointText(const ExperimentConfig& config);

/// What came of reading a configuration: `config` unless there is an error
/// among `diagnostics`.
struct ConfigResult {
  std::optional<ExperimentConfig> config;
  Diagnostics diagnostics;
};

/// A hyperparameter that a trial reads.
struct HparamRule {
  std::string_view name;
  std::string_view type;  // int, float, bool, string, list
  bool required = false;
  bool unused = false;  // accepted for compatibility; has no effect
};

/// How a text becomes a configuration.
struct ReadOptions {
  std::string file_name;  // for messages, and the default name
  // Absolute directory that relative paths of directories are relative to;
  // empty: they are left as they are.
  std::string directory;
  std::vector<std::string> overrides;  // `a.b=VALUE`, as `--set` takes them
  // Registered trials; an entrypoint that is not among them gets a warning.
  // "model_def:*" stands for all of that module.
  std::vector<std::string> known_entrypoints;
  // … or an error.
  bool refuse_unknown_entrypoint = false;
  // The file of Python that lies where model_def.cpp would, or empty.
  std::string python_model;
  // All hyperparameters that the trial of an entrypoint reads, by which those
  // of the text are checked; nothing: they are not known. May be empty.
  std::function<std::vector<HparamRule>(const std::string& entrypoint)>
      hparam_rules;
  // The text is of a recorded experiment: what breaks these rules is a warning,
  // but for what an override says.
  bool recorded = false;
};

/// Parses, types (YAML 1.2), defaults and checks a configuration as CONFIG
/// says. Never throws for what is in `text`: every finding is a diagnostic,
/// all of them at once. Pure: no files, no clock, no environment.
ConfigResult ReadConfig(std::string_view text, const ReadOptions& options);

/// What ReadConfig finds by `options.hparam_rules` in a recorded configuration.
Diagnostics CheckRecordedHparams(const nlohmann::json& effective,
                                 const ReadOptions& options);

/// Reads back `ExperimentConfig::effective` as it was stored, `environment`
/// left empty. Throws Error(kStore) if it is none.
ExperimentConfig ConfigFromJson(const nlohmann::json& effective);

/// `effective` as YAML, keys in the order of the reference. ReadConfig makes
/// the same `effective` of it.
std::string ToYaml(const nlohmann::json& effective);

}  // namespace dtrain
