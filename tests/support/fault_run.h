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

/// Tests that run the real program with trials that go wrong, and do to its
/// processes and files what may happen to them. Experiment 1 is the one that
/// is looked at.
class FaultRun : public testing::Test {
 protected:
  using Seconds = std::chrono::seconds;

  ~FaultRun() override;

  /// `dtrain create` with that configuration.
  CliResult Create(const std::string& yaml,
                   std::vector<std::string> options = {}) const;
  /// The same in the background; gives the runner's process.
  pid_t Start(const std::string& yaml) const;
  CliResult Run(const std::vector<std::string>& arguments) const {
    return dtrain_.Run(arguments);
  }
  /// A script of bash in the runner's directory, `dtrain` on its PATH.
  CliResult Shell(const std::string& script) const;
  /// The same in a control group of its own, of version 1 or 2, that may use
  /// 200 MB of memory. Exit code 77 where no such group can be made.
  CliResult ShellWithLittleMemory(const std::string& script) const;

  std::string State() const;
  nlohmann::json Trials() const;
  nlohmann::json Trial(std::size_t number = 1) const;
  /// The values of one metric, oldest first, of trial 1.
  nlohmann::json Values(const std::string& kind, const std::string& name) const;
  /// Until the trial has got so far; gives its process.
  pid_t AwaitBatches(std::int64_t batches, std::size_t trial = 1) const;
  /// `resume` that must come to the end of a single search.
  void ExpectResumes() const;

  /// Whether `condition` comes true in time: `limit`, or as much longer as the
  /// machine has more to do than it has cores.
  static bool Within(std::chrono::milliseconds limit,
                     const std::function<bool()>& condition);
  /// The runner, its host, its trials, and all that these started.
  std::vector<pid_t> Processes() const;
  static bool Lives(pid_t pid);

  CliRunner dtrain_;
};

}  // namespace dtrain
