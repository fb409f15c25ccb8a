#pragma once

#include <functional>
#include <optional>

#include "engine/app/notices.h"
#include "engine/app/run_experiment.h"
#include "engine/config/experiment_config.h"
#include "engine/nodes/distributed_env.h"
#include "engine/slots/slots.h"

namespace dtrain {

/// Returns the place of this process among those of several machines that train
/// together, from the environment; nothing if it runs alone. Throws
/// Error(kUsage) for an invalid environment, and for a `config` or `detach`
/// that several machines do not support.
std::optional<DistributedEnv> FindDistributedEnv(const ExperimentConfig& config,
                                                 bool detach);

/// Runs this process's ranks for the runner at `place` until it is done.
/// Returns the exit code. REQUIRES: place.follows().
int FollowRunner(const DistributedEnv& place, const ExperimentConfig& config,
                 const SlotPlan& slots, const GlobalOptions& globals);

/// Calls `run` and returns its exit code. With a place, it waits for all
/// followers first, sets `make_launcher` so that trials run on their machines,
/// too, and shuts them down afterwards. Throws Error(kResources) if followers
/// are missing.
int RunOnNodes(const std::optional<DistributedEnv>& place,
               const ExperimentConfig& config, const SlotPlan& slots,
               const GlobalOptions& globals, MakeLauncher& make_launcher,
               const std::function<int()>& run);

}  // namespace dtrain
