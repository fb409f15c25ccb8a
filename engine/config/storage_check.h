#pragma once

#include <nlohmann/json.hpp>

#include "engine/config/experiment_config.h"
#include "engine/config/findings.h"
#include "engine/config/node.h"

namespace dtrain {

/// Reduces Determined's names for the directory of checkpoints in `storage`,
/// the effective `checkpoint_storage`, to the single key `path`. Reports names
/// that contradict each other, and those that are ignored.
void SettleStoragePath(const Node& root, const ReadOptions& options,
                       nlohmann::json& storage, Findings& findings);

/// Sets the parts of CheckpointConfig that follow from the text alone: `base`
/// and `where`. REQUIRES: CheckConfig found no error.
void FindStorage(const Node& root, const ReadOptions& options,
                 CheckpointConfig& checkpoints);

}  // namespace dtrain
