#pragma once

#include <chrono>
#include <csignal>
#include <filesystem>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/support/temporary_directory.h"

namespace dtrain {

/// Result of a call of a program.
struct CliResult {
  int code = 0;  // exit code; 128 + signal if killed by one
  std::string out;
  std::string err;
  std::vector<std::string> argv;  // program and arguments

  /// Returns stdout as one JSON document; throws if it is not one. Fails the
  /// running test if the document violates its schema in docs/schemas.
  nlohmann::json Json() const;
};

/// Options of a call.
struct CliCall {
  std::map<std::string, std::string> environment;  // added to a minimal one
  std::string input;                               // stdin
  std::string stdout_file;  // receives stdout, which is then not read
  // Sends `signal` once stderr contains this. The test fails if it never does
  // and there is no `signal_after`.
  std::string signal_when;
  // Sends it at the latest this long after the start; 0: never.
  std::chrono::milliseconds signal_after{0};
  int signal = SIGINT;
};

/// Calls the real `dtrain` in a temporary directory, with a minimal environment
/// whose store, slots, caches and home are in that directory. Kills a call that
/// takes longer than four minutes. Fails the running test if the output of
/// --json or --jsonl violates its schema in docs/schemas.
class CliRunner {
 public:
  /// Calls `dtrain ARGUMENTS…`.
  CliResult Run(const std::vector<std::string>& arguments,
                const CliCall& call = {}) const;
  /// Calls any program in the same environment, with `dtrain` first in PATH.
  CliResult RunProgram(const std::vector<std::string>& argv,
                       const CliCall& call = {}) const;

  /// Writes a file into the directory and returns its path.
  std::filesystem::path Write(const std::string& name,
                              const std::string& text) const;

  const std::filesystem::path& directory() const { return directory_.path(); }
  std::filesystem::path store() const { return directory() / "store"; }

 private:
  TemporaryDirectory directory_;
};

/// Returns the commands that a help text lists: "  create    Run an
/// experiment".
std::vector<std::string> CommandsInHelp(const std::string& help);

/// Values by kind, batches and name.
using TrialMetrics =
    std::map<std::tuple<std::string, int, std::string>, double>;

/// Returns the metrics that `dtrain metrics` prints for the trial.
TrialMetrics ReadMetrics(const CliRunner& dtrain, const std::string& trial);

}  // namespace dtrain
