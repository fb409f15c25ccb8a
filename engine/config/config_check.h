#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "engine/config/experiment_config.h"
#include "engine/config/findings.h"
#include "engine/config/node.h"

namespace dtrain {

/// Checks what keys ask of each other and fills in the defaults that follow
/// from other keys. `effective` is what EffectiveReader made of `root`; where
/// that found an error, `effective` has the default, and nothing is said twice.
void CheckConfig(const Node& root, const ReadOptions& options,
                 nlohmann::json& effective, Findings& findings);

/// Whether the dotted path has a value in the text, right or wrong.
bool IsGiven(const Node& root, std::string_view path);

/// Where the value of the dotted path stands, or what is nearest above it.
Mark MarkOf(const Node& root, std::string_view path);

/// The parts of CheckpointConfig that follow from the text alone: `base` and
/// `where`. REQUIRES: CheckConfig found no error.
void FindStorage(const Node& root, const ReadOptions& options,
                 CheckpointConfig& checkpoints);

/// The part of `CheckConfig` about the searcher of `effective`.
void CheckSearcher(const Node& root, const nlohmann::json& effective,
                   Findings& findings);

}  // namespace dtrain
