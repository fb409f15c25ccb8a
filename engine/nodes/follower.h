#pragma once

#include <functional>
#include <string>

#include "engine/base/host_name.h"
#include "engine/nodes/node_message.h"
#include "engine/nodes/node_place.h"
#include "engine/nodes/secret_file.h"
#include "engine/process/local_launcher.h"

namespace dtrain {

struct FollowerOptions {
  NodePlace place;
  NodeIdentity identity;
  SecretFile secret;
  // How its ranks are run; `experiment`, `log` and `wake` are set here.
  LocalLauncherOptions launcher;
  Duration patience = std::chrono::minutes(5);  // until the runner is there
  // Until the secret is there when the runner is: of a network file system, a
  // machine may see late that another one has made it.
  Duration secret_patience = std::chrono::minutes(1);
  std::string host = HostName();
  // A line for the user; may be empty.
  std::function<void(const std::string& line)> notice;
};

/// Follows the runner of an experiment, a process with RANK=0 on this machine
/// or another one: runs its own ranks of every trial that the runner starts,
/// records nothing, and returns when the runner says goodbye. Blocks SIGINT,
/// SIGTERM and SIGHUP from the beginning of the experiment on: the first asks
/// the runner to end it, the second ends the ranks here; gives 0, or then
/// 128 + the signal. Throws Error(kUsage) if the runner refuses this process,
/// Error(kFailed) if there is no runner or it is lost.
int Follow(FollowerOptions options);

}  // namespace dtrain
