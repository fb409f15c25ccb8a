#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "engine/config/experiment_config.h"
#include "engine/config/findings.h"

namespace dtrain {

/// Result of ReadConfig: `config` is set unless `diagnostics` has an error.
struct ConfigResult {
  std::optional<ExperimentConfig> config;
  Diagnostics diagnostics;
};

/// Parses, types (YAML 1.2) and checks a configuration and fills in defaults.
/// Never throws because of `text`: every finding is a diagnostic, and all are
/// returned at once. Uses no files, clock or environment.
ConfigResult ReadConfig(std::string_view text, const ReadOptions& options);

/// Returns `config`, the keys of a YAML as JSON, changed as ReadConfig changes
/// its text by `overrides`. Throws Error(kUsage) for an override that is no
/// `KEY=VALUE` or does not fit.
nlohmann::json WithOverrides(const nlohmann::json& config,
                             std::span<const std::string> overrides);

/// Checks a recorded configuration by `options.hparam_rules`, as ReadConfig
/// does.
Diagnostics CheckRecordedHparams(const nlohmann::json& effective,
                                 const ReadOptions& options);

/// Reads a stored `ExperimentConfig::effective`; `environment` stays empty.
/// Throws Error(kStore) if it is invalid.
ExperimentConfig ConfigFromJson(const nlohmann::json& effective);

/// Returns `effective` as YAML, with keys in the order of the reference.
/// ReadConfig returns the same `effective` for it.
std::string ToYaml(const nlohmann::json& effective);

}  // namespace dtrain
