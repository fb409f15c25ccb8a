#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "engine/config/experiment_config.h"
#include "engine/config/findings.h"
#include "engine/config/node.h"

namespace dtrain {

/// Maximum number of points of a grid.
inline constexpr std::int64_t kMaxGridPoints = 100'000;

/// Reads `hyperparameters` into the form of searchers and checks every range.
nlohmann::json ReadHyperparameters(const Node& node, Findings& findings);

/// Checks the hyperparameters for the searcher: `single` warns about ranges,
/// `grid` needs their counts and no more than kMaxGridPoints points. REQUIRES:
/// `ReadHyperparameters` found nothing wrong with `node`.
void CheckSearched(const Node& node, std::string_view searcher,
                   Findings& findings);

/// Checks the hyperparameters (null: there are none) against those that the
/// model `entrypoint` reads: unknown names, wrong types and missing required
/// ones are errors. Ranges that are invalid in themselves are not reported
/// again.
void CheckHparamRules(const Node* hyperparameters,
                      const std::string& entrypoint,
                      std::span<const HparamRule> rules, Findings& findings);

/// Reads `searcher.points`, each checked against the hyperparameters: every
/// searched one has a value in its range, constants may be repeated, and there
/// are no other names. REQUIRES: `ReadHyperparameters` found nothing wrong with
/// `hyperparameters` (null: there are none).
nlohmann::json ReadPoints(const Node& node, const Node* hyperparameters,
                          Findings& findings);

}  // namespace dtrain
