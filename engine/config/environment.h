#pragma once

#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "engine/config/experiment_config.h"
#include "engine/config/findings.h"
#include "engine/config/node.h"

namespace dtrain {

/// Returns `{NAME: value}` or `[NAME=value]` as a map of the names to null:
/// values are secrets, so no finding and no record has one. In a map, `cpu` and
/// `cuda` (or `gpu`, Determined's former name of it) may have such a map or
/// list of their own.
std::optional<nlohmann::json> ReadEnvironment(const Node& node,
                                              const std::string& path,
                                              Findings& findings);

/// Returns the variables that have a value. REQUIRES: `ReadEnvironment` found
/// no error in `node`.
TrialEnvironment EnvironmentValues(const Node& node);

/// Text that stands in records in the place of a value.
inline constexpr char kHiddenValue[] = "REDACTED";

/// Returns `text` with the values of `variables`, each line of them, and what a
/// cut text ("...") has left of them, replaced by kHiddenValue. Fewer than four
/// bytes stay, because they occur in other text.
std::string WithoutValues(std::string text,
                          const EnvironmentVariables& variables);

}  // namespace dtrain
