#pragma once

#include <memory>

#include "engine/nodes/worker_table.h"
#include "engine/process/launcher.h"

namespace dtrain {

struct LocalLauncherOptions;
class Nodes;

/// Returns a launcher of trials on this machine and on the workers of `nodes`.
/// The experiment sees no difference to LocalLauncher.
///
/// A trial is on one machine, this one or a worker, or on several that are each
/// too small for it, see placement.h. With a fixed set of processes a trial has
/// ranks on each of them, and the `world_size` of a started specification
/// counts those of one process. A trial on several machines takes its slots
/// machine by machine, in the order of the machines' names, starts when it has
/// all, and ends as a whole.
///
/// FreeSlots grows and shrinks as workers come and go; this machine has none if
/// `options.slots` has none. A fixed set that is incomplete for some minutes is
/// WorkersFailed.
///
/// The loss of a machine is a failure of its ranks. REQUIRES: `nodes` outlives
/// the launcher.
std::unique_ptr<Launcher> MakeNodesLauncher(Nodes& nodes,
                                            LocalLauncherOptions options,
                                            WorkerHooks hooks = {});

}  // namespace dtrain
