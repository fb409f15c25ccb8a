#pragma once

#include <optional>

#include <nlohmann/json.hpp>

#include "engine/config/experiment_config.h"
#include "engine/config/findings.h"
#include "engine/config/node.h"

namespace dtrain {

/// Returns the key `metrics` in its canonical form: texts, the number
/// `first_step` and the Boolean `first_value`. Each regular expression compiles
/// and has one group; each path is relative, and in the working directory.
std::optional<nlohmann::json> ReadMetricSource(const Node& node,
                                               Findings& findings);

/// Checks the key `metrics` of `effective` against the entrypoint and the
/// metrics that the search needs. `root` is the tree that it was read from.
void CheckMetricSource(const Node& root, const nlohmann::json& effective,
                       Findings& findings);

/// Stores a checked value of the key in `config`, for the schema.
void StoreMetrics(const nlohmann::json& json, ExperimentConfig& config);

}  // namespace dtrain
