#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "engine/base/clock.h"
#include "engine/report/expression.h"

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

/// RunFlags, checked before anything is created.
struct RunRequest {
  bool detach = false;
  bool json = false;
  bool jsonl = false;
  std::string junit;
  std::vector<Comparison> requirements;
  std::optional<Duration> timeout;
};

void AddRunFlags(CLI::App& app, RunFlags& flags);

/// Throws Error(kUsage) for flags that make no sense, alone or together, and
/// for a JUnit file that cannot be written.
RunRequest CheckRunFlags(const RunFlags& flags);

}  // namespace dtrain
