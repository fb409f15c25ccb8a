#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "engine/config/findings.h"

namespace dtrain {

/// Options of an import, and settings that the file of a sweep lacks.
struct SweepOptions {
  std::string file_name;  // for messages
  std::optional<std::int64_t> max_trials;
  std::string max_length;  // UNIT=N; empty: none
  std::string metric;      // replaces metric.name
  bool maximize = false;   // replaces metric.goal
};

/// A sweep as an experiment of dtrain.
struct ImportedSweep {
  std::string yaml;     // empty if `findings` has an error
  std::string program;  // the script that the command runs; empty: none
  // Settings that were dropped are warnings, those that cannot be converted
  // errors.
  Diagnostics findings;
  // By keys of `yaml`: the key of the sweep that it comes from.
  std::map<std::string, std::pair<std::string, Mark>> sources;

  /// Makes a finding about `yaml` one about the sweep's file, as far as its key
  /// comes from there.
  void Locate(Diagnostic& finding) const;
};

/// Reads the configuration of a sweep of W&B and returns a YAML for the same
/// search: with the same ranges, number of runs and arguments of the program as
/// far as dtrain has them. Throws Error(kUsage) for a bad option.
ImportedSweep ImportSweep(std::string_view text, const SweepOptions& options);

}  // namespace dtrain
