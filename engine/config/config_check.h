#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/config/experiment_config.h"
#include "engine/config/findings.h"
#include "engine/config/node.h"

namespace dtrain {

/// Checks the rules between keys and fills in the defaults that follow from
/// other keys. `effective` is EffectiveReader's result for `root`, in which
/// keys with errors have their defaults, so that no error is reported twice.
void CheckConfig(const Node& root, const ReadOptions& options,
                 nlohmann::json& effective, Findings& findings);

/// Sets the places of these sources in the text. REQUIRES: there are no errors.
void FindWarmStartPlaces(const Node& root, const ReadOptions& options,
                         std::vector<WarmStartSource>& sources);

/// Sets the parts of CheckpointConfig that follow from the text alone: `base`
/// and `where`. REQUIRES: CheckConfig found no error.
void FindStorage(const Node& root, const ReadOptions& options,
                 CheckpointConfig& checkpoints);

}  // namespace dtrain
