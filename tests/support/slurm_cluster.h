#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

#include "engine/os/spawn.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {

/// A daemon of Slurm cannot run on this machine; its own words say why.
class SlurmUnavailable : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A Slurm of its own on this machine: a controller and three nodes, named
/// 127.0.0.1 to 127.0.0.3, with two CPUs and two GPUs each, which are fakes.
/// The partition `urgent` preempts jobs of `scav`; the default is `main`.
/// Everything is in a temporary directory, and all daemons end with the test.
class SlurmCluster {
 public:
  /// Starts it and waits until its nodes are idle. Throws SlurmUnavailable, or
  /// another std::runtime_error.
  SlurmCluster();
  SlurmCluster(const SlurmCluster&) = delete;
  SlurmCluster& operator=(const SlurmCluster&) = delete;
  /// Cancels all jobs and ends the daemons.
  ~SlurmCluster();

  const std::filesystem::path& directory() const { return directory_.path(); }
  /// Value of SLURM_CONF for commands.
  std::string configuration() const;
  /// Changes to the environment of commands.
  std::vector<std::pair<std::string, std::string>> environment() const {
    return {{"SLURM_CONF", configuration()}};
  }

  /// The same, but commands give up after a second if the controller does
  /// not answer.
  std::vector<std::pair<std::string, std::string>> impatient_environment()
      const {
    return {{"SLURM_CONF", configuration() + ".impatient"}};
  }

  /// Ends the controller, and starts it again with the jobs that it had.
  void StopController();
  void StartController();

  /// Ends all jobs and waits until their nodes are idle.
  void EndJobs() const;

  /// Runs a command of Slurm and returns what it prints. Fails the running test
  /// if it fails.
  std::string Run(const std::vector<std::string>& words) const;

 private:
  void Start();
  void Stop();
  void WriteConfiguration() const;
  void AwaitIdleNodes() const;
  void RequireLiving(const std::string& name, pid_t pid) const;
  CapturedRun Call(const std::vector<std::string>& words) const;
  pid_t StartDaemon(const std::string& name, std::vector<std::string> words);

  TemporaryDirectory directory_;
  pid_t controller_ = -1;
  std::vector<std::pair<std::string, pid_t>> others_;  // munged, then slurmds
};

/// Starts `cluster`. Returns why this machine cannot have one, in the words of
/// its daemons if they say it; empty if it can. Throws std::runtime_error.
std::string StartSlurm(std::optional<SlurmCluster>& cluster);

}  // namespace dtrain
