#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/nodes/distributed_env.h"
#include "engine/nodes/node_message.h"
#include "engine/nodes/remote_trials.h"
#include "engine/os/process.h"

namespace dtrain {

struct WorkerOptions {
  HostPort runner;
  SecretFile secret;    // the key of the experiment
  std::string version;  // of dtrain
  std::string name;     // shown to users
  std::string job;      // that started this process, or empty
  std::string host = HostName();
  // Of a process of a fixed set; none: it comes and goes.
  std::optional<RankClaim> claim;
  // Directories that trials may read and execute files of: the store, which is
  // the first, and the cache of compiled models.
  std::vector<std::filesystem::path> roots;
  DrainLimits limits;
  // Plans the slots of this machine for the trials of a task, which sets the
  // threads of CPU slots. Throws Error(kResources) if it has too few.
  std::function<SlotPlan(const WorkerTask& task)> plan;
  // Finds the program that starts models, or commands.
  std::function<std::filesystem::path(bool command)> find_host;
  // Returns how the Python of the task's trials differs from the recorded one;
  // may be empty.
  std::function<std::vector<std::string>(const WorkerTask& task, bool gpus)>
      find_differences;
  Duration patience = std::chrono::minutes(5);  // until the runner answers
  Duration secret_patience = std::chrono::minutes(1);  // see JoinOptions
  // Until the runner answers a request to end.
  Duration answer_patience = std::chrono::seconds(10);
  // Until a file of the runner is seen here: a network file system may show a
  // new file late.
  Duration file_patience = std::chrono::seconds(15);
  // Called when the trials have ended, while the connection is still open: the
  // runner cancels the job of a worker that has closed it. May be empty.
  std::function<void()> at_end;
  // Prints a line for the user; may be empty.
  std::function<void(const std::string& line)> notice;
};

/// Offers the slots of this machine to the runner of an experiment, which must
/// prove that it has the same secret, and runs the trials that it sends.
/// Returns 0 when the experiment has ended or this process has drained. Throws
/// Error(kUsage) if the runner rejects this process, or there is no key, or
/// this machine does not have the files and programs of the task;
/// Error(kResources) if there are too few slots; Error(kFailed) if there is no
/// runner or it is lost. See RemoteTrials for signals.
int Work(WorkerOptions options);

}  // namespace dtrain
