#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "engine/config/findings.h"
#include "engine/config/node.h"

namespace dtrain {

/// Returns a section `parameters` of a sweep of W&B as `hyperparameters` of a
/// YAML. `path` is that of the section, for findings. What has no counterpart
/// is replaced by the nearest range, with a warning; a parameter that W&B
/// itself would refuse is an error.
nlohmann::json HyperparametersOfSweep(const Node& parameters,
                                      const std::string& path,
                                      Findings& findings);

}  // namespace dtrain
