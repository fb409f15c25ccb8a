#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "engine/nodes/node_message.h"
#include "engine/nodes/node_place.h"
#include "engine/os/process.h"
#include "engine/process/local_launcher.h"

namespace dtrain {

struct FollowerOptions {
  NodePlace place;
  NodeIdentity identity;
  SecretFile secret;
  // Directories that trials may read and execute files of: the store, the cache
  // of compiled models.
  std::vector<std::filesystem::path> roots;
  // How its ranks are run; `experiment`, `log` and `wake` are set here.
  LocalLauncherOptions launcher;
  Duration patience = std::chrono::minutes(5);  // until the runner is there
  // Until the secret is there when the runner is: of a network file system, a
  // machine may see late that another one has made it.
  Duration secret_patience = std::chrono::minutes(1);
  // Of a runner that is asked to end the experiment, until it says anything.
  Duration answer_patience = std::chrono::seconds(10);
  std::string host = HostName();
  // A line for the user; may be empty.
  std::function<void(const std::string& line)> notice;
};

/// Why a follower does not start what its runner orders, or empty: it only
/// trains, and takes the library, the trial's directory, its checkpoint and
/// what it begins from only from below `roots`, symbolic links resolved.
std::string ObjectionTo(const TrialSpec& spec,
                        const std::vector<std::filesystem::path>& roots);

/// Follows the runner of an experiment, a process with RANK=0 on this machine
/// or another one that proves that it has the same secret: runs its own ranks
/// of every trial that the runner starts, records nothing, and returns when the
/// runner says goodbye. Blocks SIGINT, SIGTERM and SIGHUP from the beginning of
/// the experiment on: the first asks the runner to end it, the second, or no
/// word of the runner, ends the ranks here; gives 0, or then 128 + the signal.
/// Throws Error(kUsage) if the runner refuses this process or there is no
/// secret, Error(kFailed) if there is no runner or it is lost.
int Follow(FollowerOptions options);

}  // namespace dtrain
