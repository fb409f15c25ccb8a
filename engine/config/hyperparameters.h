#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/config/experiment_config.h"
#include "engine/config/findings.h"
#include "engine/config/node.h"

namespace dtrain {

/// Maximum number of points of a grid.
inline constexpr std::int64_t kMaxGridPoints = 100'000;

/// Replaces groups, {type: map, when: …, of: {…}}, by nested maps whose
/// hyperparameters each have the condition, in addition to their own. What is
/// wrong with a group is left for ReadHyperparameters.
void ExpandGroups(Node& hyperparameters);

/// Reads `hyperparameters` into the form of searchers and checks every range,
/// and every condition. REQUIRES: ExpandGroups was called.
nlohmann::json ReadHyperparameters(const Node& node, Findings& findings);

/// Checks the hyperparameters for the searcher: `single` warns about ranges,
/// `grid` needs their counts and no more than kMaxGridPoints points that meet
/// the constraints. REQUIRES: `ReadHyperparameters` found nothing wrong with
/// `node`, and ReadConstraints with `constraints`.
void CheckSearched(const Node& node, std::string_view searcher,
                   const std::vector<std::string>& constraints,
                   Findings& findings);

/// Checks the hyperparameters (null: there are none) against those that the
/// model `entrypoint` reads: unknown names, wrong types and missing required
/// ones are errors. Ranges that are invalid in themselves are not reported
/// again.
void CheckHparamRules(const Node* hyperparameters,
                      const std::string& entrypoint,
                      std::span<const HparamRule> rules, Findings& findings);

/// Reads `searcher.points`, each checked against the hyperparameters: its
/// values are in their ranges, constants may be repeated, and there are no
/// other names. REQUIRES: `ReadHyperparameters` found nothing wrong with
/// `hyperparameters` (null: there are none).
nlohmann::json ReadPoints(const Node& node, const Node* hyperparameters,
                          Findings& findings);

/// Reads `searcher.constraints`, each of which names hyperparameters that there
/// are and can be compared so. REQUIRES: as ReadPoints.
nlohmann::json ReadConstraints(const Node& node, const Node* hyperparameters,
                               Findings& findings);

/// Checks that trials can meet the constraints. Reports points of
/// `searcher.points` that do not, whatever is drawn for them, and of 10,000
/// points that are drawn, if none does or less than 1 %. For a grid, counts its
/// points. REQUIRES: `config` has no errors otherwise.
void CheckConstraints(const Node& root, const nlohmann::json& space,
                      const SearcherConfig& config, Findings& findings);

}  // namespace dtrain
