#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/ci_report.h"
#include "cli/commands.h"
#include "engine/base/clock.h"
#include "engine/config/findings.h"
#include "engine/process/local_launcher.h"
#include "engine/report/expression.h"
#include "engine/run/reporter.h"
#include "engine/run/runner.h"
#include "engine/store/store.h"

namespace dtrain {

/// What `create` and `resume` have in common: how the run is shown and judged.
struct RunFlags {
  bool detach = false;
  bool follow = false;
  std::vector<std::string> require;
  std::string timeout_text;
  std::string disk_wait;
  bool json = false;
  bool jsonl = false;
  CiFlags ci;
};

/// What a command makes of its run once it is over.
struct RunConclusion {
  std::string key;  // of `document`, in the JSON that ends the run
  nlohmann::json document;
  std::string text;
  bool met = true;  // else the exit code is that of --require
};

/// Makes the launcher of a run; a LocalLauncher if empty.
using MakeLauncher =
    std::function<std::unique_ptr<Launcher>(LocalLauncherOptions options)>;

/// RunFlags, checked before anything is created.
struct RunRequest {
  bool detach = false;
  bool follow = false;  // of a search too, show what trials print
  bool json = false;
  bool jsonl = false;
  CiFlags ci;
  std::vector<Comparison> requirements;
  std::optional<Duration> timeout;
  std::optional<Duration> disk_wait;  // see RunOptions
  MakeLauncher make_launcher;
  // None: nothing is to be said.
  std::function<std::optional<RunConclusion>(const Store&, const RunResult&)>
      conclude;

  // What has come of it so far, for the report of an error.
  Diagnostics diagnostics;                 // about its configuration
  std::optional<std::int64_t> experiment;  // recorded, or found
  bool is_reported = false;                // how it ended
};

void AddRunFlags(CLI::App& app, RunFlags& flags);

/// Throws Error(kUsage) for flags that make no sense, alone or together, and
/// for a JUnit file that cannot be written.
RunRequest CheckRunFlags(const RunFlags& flags, const GlobalOptions& globals);

/// Keeps the findings about a configuration for a report, and annotates them.
void NoteFindings(RunRequest& request, const Diagnostics& diagnostics);

/// Calls `body`, a whole command about `name`, and gives its exit code. If it
/// throws Error before a result was reported, tells that to all that read one,
/// the JSON document and what continuous integration reads, and throws it on:
/// the message itself is left to `main`.
int RunOrReport(RunRequest& request, const std::string& name,
                const std::function<int()>& body);

}  // namespace dtrain
