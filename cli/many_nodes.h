#pragma once

#include <functional>
#include <optional>

#include "cli/commands.h"
#include "cli/run_options.h"
#include "engine/config/experiment_config.h"
#include "engine/nodes/distributed_env.h"
#include "engine/slots/slots.h"

namespace dtrain {

/// This process among those of several machines that train one experiment's
/// models together, as the environment says; none if it is alone. Throws
/// Error(kUsage) for an environment, or a `config` or `request`, that cannot be
/// meant so.
std::optional<DistributedEnv> FindDistributedEnv(const ExperimentConfig& config,
                                                 const RunRequest& request);

/// Runs this process's ranks for the runner of `env` until that is done.
/// Gives the exit code. REQUIRES: place.follows().
int FollowRunner(const DistributedEnv& place, const ExperimentConfig& config,
                 const SlotPlan& slots, const GlobalOptions& globals);

/// Does `run`, the exit code of which it gives. With a place, it waits until
/// all followers are there before, makes `request` run its trials on their
/// machines, too, and lets them end well afterwards. Throws Error(kResources)
/// if they do not come.
int RunOnNodes(const std::optional<DistributedEnv>& place,
               const ExperimentConfig& config, const SlotPlan& slots,
               const GlobalOptions& globals, RunRequest& request,
               const std::function<int()>& run);

}  // namespace dtrain
