#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include <sys/types.h>

#include <gtest/gtest.h>

#include "tests/support/cli_runner.h"
#include "tests/support/fault_yaml.h"

namespace dtrain {

/// Fixture of tests that run the real program and make faults in its trials,
/// processes and files. Queries are about experiment 1.
class FaultRun : public testing::Test {
 protected:
  using Seconds = std::chrono::seconds;

  ~FaultRun() override;

  /// Calls `dtrain create` with a configuration.
  CliResult Create(const std::string& yaml,
                   std::vector<std::string> options = {}) const;
  /// Starts the run in the background; returns the process ID of the runner.
  /// Throws if there is none.
  pid_t Start(const std::string& yaml) const;
  CliResult Run(const std::vector<std::string>& arguments) const {
    return dtrain_.Run(arguments);
  }
  /// Runs a bash script in the runner's directory, with `dtrain` in PATH.
  CliResult Shell(const std::string& script) const;
  /// Runs the script in a control group (version 1 or 2) with 200 MB of memory.
  /// Exits with 77 if no such group can be created.
  CliResult ShellWithLittleMemory(const std::string& script) const;

  std::string State() const;
  nlohmann::json Trials() const;
  nlohmann::json Trial(std::size_t number = 1) const;
  /// Returns the values of one metric of trial 1, oldest first.
  nlohmann::json Values(const std::string& kind, const std::string& name) const;
  /// Waits until a trial has trained `batches`; returns its process ID. Throws
  /// if it has none then.
  pid_t AwaitBatches(std::int64_t batches, std::size_t trial = 1) const;
  /// Expects `resume` to complete the experiment and its only trial.
  void ExpectResumes() const;

  /// Waits for `condition`; returns false after `limit`, extended on a busy
  /// machine as by Patient.
  static bool Within(std::chrono::milliseconds limit,
                     const std::function<bool()>& condition);
  /// Returns the runner, its host, its trials and their descendants.
  std::vector<pid_t> Processes() const;
  static bool Lives(pid_t pid);

  CliRunner dtrain_;
};

}  // namespace dtrain
