#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "engine/nodes/distributed_env.h"
#include "engine/nodes/node_message.h"
#include "engine/nodes/remote_trials.h"
#include "engine/os/process.h"
#include "engine/process/local_launcher.h"

namespace dtrain {

struct FollowerOptions {
  DistributedEnv env;
  NodeIdentity identity;
  SecretFile secret;
  // Directories that trials may read and execute files of: the store, the cache
  // of compiled models.
  std::vector<std::filesystem::path> roots;
  // Options of the launcher of its ranks; Follow sets `experiment`, `log`,
  // `wake`.
  LocalLauncherOptions launcher;
  Duration patience = std::chrono::minutes(5);  // until the runner answers
  // Until the secret exists once the runner answers: a network file system may
  // show a new file late.
  Duration secret_patience = std::chrono::minutes(1);
  // Until the runner answers a request to end the experiment.
  Duration answer_patience = std::chrono::seconds(10);
  std::string host = HostName();
  // Prints a line for the user; may be empty.
  std::function<void(const std::string& line)> notice;
};

/// Follows the runner of an experiment, the process with RANK=0, which must
/// prove that it has the same secret: runs this machine's ranks of every trial
/// that the runner starts, records nothing, and returns 0 when the runner sends
/// ShutdownNode. Blocks SIGINT, SIGTERM and SIGHUP once the experiment has
/// started: the first signal asks the runner to end it; a second one, or no
/// answer, ends the ranks here and returns 128 + the signal. Throws
/// Error(kUsage) if the runner rejects this process or there is no secret,
/// Error(kFailed) if there is no runner or it is lost.
int Follow(FollowerOptions options);

}  // namespace dtrain
