#pragma once

#include <nlohmann/json.hpp>

#include "engine/config/findings.h"
#include "engine/config/node.h"

namespace dtrain {

struct ReadOptions;

/// Fills in the defaults that follow from `executor: slurm`: workers are
/// accepted, and no trial runs on this machine.
void SettleExecutor(const Node& root, nlohmann::json& resources);

/// Refuses a section `slurm` inside `resources`, which would be ignored.
void RefuseMisplacedSlurm(const Node& root, Findings& findings);

/// Checks the rules between the keys of `slurm` and those of `resources`.
void CheckSlurm(const Node& root, const ReadOptions& options,
                const nlohmann::json& effective, Findings& findings);

}  // namespace dtrain
