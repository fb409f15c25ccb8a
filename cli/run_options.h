#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "engine/base/clock.h"
#include "engine/report/expression.h"
#include "engine/run/reporter.h"
#include "engine/run/runner.h"
#include "engine/store/store.h"

namespace dtrain {

/// What `create` and `resume` have in common: how the run is shown and judged.
struct RunFlags {
  bool detach = false;
  std::vector<std::string> require;
  std::string timeout_text;
  bool json = false;
  bool jsonl = false;
  std::string junit;
};

/// What a command makes of its run once it is over.
struct RunConclusion {
  std::string key;  // of `document`, in the JSON that ends the run
  nlohmann::json document;
  std::string text;
  bool met = true;  // else the exit code is that of --require
};

/// RunFlags, checked before anything is created.
struct RunRequest {
  bool detach = false;
  bool json = false;
  bool jsonl = false;
  std::string junit;
  std::vector<Comparison> requirements;
  std::optional<Duration> timeout;
  MakeLauncher make_launcher;  // see RunOptions
  // None: nothing is to be said.
  std::function<std::optional<RunConclusion>(const Store&, const RunResult&)>
      conclude;
};

void AddRunFlags(CLI::App& app, RunFlags& flags);

/// Throws Error(kUsage) for flags that make no sense, alone or together, and
/// for a JUnit file that cannot be written.
RunRequest CheckRunFlags(const RunFlags& flags);

}  // namespace dtrain
