#pragma once

#include <memory>

#include "engine/nodes/worker_table.h"
#include "engine/process/launcher.h"

namespace dtrain {

struct LocalLauncherOptions;
class Nodes;

/// Returns a launcher of trials on this machine and on those of `nodes`. The
/// experiment sees no difference to LocalLauncher.
///
/// With followers a trial has ranks on every machine: it takes its slots
/// machine by machine, in the order of Nodes, starts when it has all, and ends
/// as a whole. If a follower is missing, trials wait some minutes for it to be
/// started again. The `world_size` of a started specification counts this
/// machine's ranks only.
///
/// With workers a trial is on one machine, this one or a worker, or on several
/// that are each too small for it, see placement.h. FreeSlots grows and shrinks
/// as workers come and go; this machine has none if `options.slots` has none.
///
/// The loss of a machine is a failure of its ranks. REQUIRES: `nodes` outlives
/// the launcher.
std::unique_ptr<Launcher> MakeNodesLauncher(Nodes& nodes,
                                            LocalLauncherOptions options,
                                            WorkerHooks hooks = {});

}  // namespace dtrain
