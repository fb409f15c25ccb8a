#pragma once

#include <functional>
#include <optional>
#include <string>

#include "engine/os/socket.h"

namespace dtrain {

/// What an environment says of a variable; none if it is not set.
using ReadEnvironment =
    std::function<std::optional<std::string>(const char* name)>;

/// This process among those that were started for one experiment, one or more
/// on each of several machines, as torchrun and srun's users name them.
struct NodePlace {
  int rank = 0;        // RANK: 0 runs the experiment, the others follow it
  int world_size = 1;  // WORLD_SIZE: how many there are
  HostPort runner;     // MASTER_ADDR and MASTER_PORT: where rank 0 listens
  // LOCAL_WORLD_SIZE says that all are on this machine.
  bool all_here = false;

  bool follows() const { return rank > 0; }
};

/// Read from WORLD_SIZE, RANK, MASTER_ADDR and MASTER_PORT (29500 if it is not
/// set), and LOCAL_WORLD_SIZE if it is set; none if WORLD_SIZE is 1 or not set,
/// whatever the others say. Throws Error(kUsage) that names the variable and
/// its value.
std::optional<NodePlace> NodePlaceFrom(const ReadEnvironment& read);

}  // namespace dtrain
