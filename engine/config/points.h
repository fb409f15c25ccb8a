#pragma once

#include <nlohmann/json.hpp>

#include "engine/config/findings.h"
#include "engine/config/node.h"

namespace dtrain {

/// `searcher.points`, each checked against the hyperparameters: every searched
/// one has a value that lies in its range, constants may be repeated, nothing
/// else is there. REQUIRES: `ReadHyperparameters` found nothing wrong with
/// `hyperparameters` (null: there are none).
nlohmann::json ReadPoints(const Node& node, const Node* hyperparameters,
                          Findings& findings);

}  // namespace dtrain
