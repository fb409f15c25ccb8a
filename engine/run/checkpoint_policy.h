#pragma once

#include <set>
#include <string>
#include <vector>

#include "engine/config/experiment_config.h"
#include "engine/store/rows.h"

namespace dtrain {

/// Which of an experiment's checkpoints are kept: the best ones of the
/// experiment and of each trial by the searcher's metric (those without a
/// finite one are never best, the earlier of equals is better), and the latest
/// ones of each trial. `checkpoints` are the COMPLETE ones in the order in
/// which they were saved. `unfinished` trials keep their latest whatever the
/// policy says: they go on from it.
std::set<std::string> CheckpointsToKeep(
    const CheckpointConfig& policy, bool smaller_is_better,
    const std::vector<CheckpointRow>& checkpoints,
    const std::set<TrialId>& unfinished);

}  // namespace dtrain
