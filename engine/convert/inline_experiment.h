#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace dtrain {

/// An experiment with a program as its trial, as the words of a command line
/// describe it.
struct InlineExperiment {
  std::vector<std::string> command;  // program and arguments
  std::vector<std::string> labels;
  std::vector<std::string> hyperparameters;  // NAME=SPEC (hparam_spec.h)
  std::vector<std::string> constraints;      // on the hyperparameters
  std::string searcher;                      // empty: random or single
  std::optional<std::int64_t> max_trials;
  std::optional<std::int64_t> repeats;
  std::string metric;
  bool maximize = false;
  std::string max_length;              // UNIT=N; empty: none
  std::vector<std::string> patterns;   // NAME=REGEX for the program's output
  std::string metrics_file;            // that the program writes; empty: none
  bool resumable = false;              // the program resumes from checkpoints
  std::vector<std::string> overrides;  // KEY=VALUE of the YAML
  // The program's text shows that it can continue, as far as it was read.
  bool script_continues = false;
};

/// The YAML of an inline experiment, and what its words mean for the program.
struct InlineYaml {
  std::string text;     // without the overrides
  std::string printed;  // with them
  // Hyperparameters that no placeholder passes to the program.
  std::vector<std::string> unplaced;
  bool stops_at_rungs = false;         // searcher.stop_once
  bool finds_metrics = false;          // in output or files, by key `metrics`
  bool restarts_on_promotion = false;  // from the beginning, to {length}
};

/// Returns the length that `UNIT=N` of the option --max-length means, as
/// `searcher.max_length` has it. Throws Error(kUsage) that names the option.
nlohmann::json ParseMaxLength(const std::string& text);

/// Returns the YAML of the experiment. ReadConfig accepts it, but for problems
/// of single keys that it reports with their place in this text. A dot in a
/// NAME makes a nested hyperparameter. Successive halving stops trials at rungs
/// (`stop_once`) unless the program continues: by itself, or by {checkpoint} or
/// {length} in its command.
///
/// Throws Error(kUsage), which names the option and the remedy.
InlineYaml WriteInlineYaml(const InlineExperiment& experiment);

}  // namespace dtrain
