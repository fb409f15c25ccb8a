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

/// What came of one call of the program.
struct CliResult {
  int code = 0;  // exit code; 128 + signal if it died of one
  std::string out;
  std::string err;
  std::vector<std::string> argv;  // what was called

  /// Returns stdout as one JSON document; throws if it is none. Fails the
  /// running test where the document is not as its schema in docs/schemas.
  nlohmann::json Json() const;
};

/// How a call differs from an ordinary one.
struct CliCall {
  std::map<std::string, std::string> environment;  // added to a bare one
  std::string input;                               // stdin
  std::string stdout_file;                         // instead of being read
  std::string signal_when;  // send `signal` once stderr says this
  // … or so long after its start; 0: never.
  std::chrono::milliseconds signal_after{0};
  int signal = SIGINT;
};

/// Calls the real `dtrain` in a directory of its own, with a bare environment
/// whose store, slots, caches and home are in there. A call that takes longer
/// than four minutes is killed. What `dtrain` prints with --json or --jsonl
/// fails the running test where it is not as its schema in docs/schemas.
class CliRunner {
 public:
  /// `dtrain ARGUMENTS…`.
  CliResult Run(const std::vector<std::string>& arguments,
                const CliCall& call = {}) const;
  /// Any program in the same surroundings, `dtrain` first on its PATH.
  CliResult RunProgram(const std::vector<std::string>& argv,
                       const CliCall& call = {}) const;

  /// Writes a file into the directory and gives its path.
  std::filesystem::path Write(const std::string& name,
                              const std::string& text) const;

  const std::filesystem::path& directory() const { return directory_.path(); }
  std::filesystem::path store() const { return directory() / "store"; }

 private:
  TemporaryDirectory directory_;
};

/// Values by kind, batches and name.
using TrialMetrics =
    std::map<std::tuple<std::string, int, std::string>, double>;

/// Returns the metrics that `dtrain metrics` prints for the trial.
TrialMetrics MetricsOf(const CliRunner& dtrain, const std::string& trial);

}  // namespace dtrain
