#pragma once

#include <memory>

#include "engine/process/launcher.h"

namespace dtrain {

struct LocalLauncherOptions;
class Nodes;

/// Returns a launcher of trials whose ranks are on this machine and on those of
/// its followers. The experiment sees no difference to LocalLauncher: a trial
/// takes its slots machine by machine, in the order of Nodes, starts when it
/// has all, and ends as a whole. The loss of a machine is a failure of its
/// ranks. If a follower is missing, trials wait some minutes for it to be
/// started again. The `world_size` of a started specification counts this
/// machine's ranks only. REQUIRES: `nodes` outlives the launcher.
std::unique_ptr<Launcher> MakeNodesLauncher(Nodes& nodes,
                                            LocalLauncherOptions options);

}  // namespace dtrain
