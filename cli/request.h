#pragma once

#include <string>
#include <vector>

#include "cli/output.h"
#include "engine/store/rows.h"

namespace dtrain {

/// The options of `pause`, `cancel` and `kill`.
struct RequestOptions : JsonOption {
  std::vector<std::string> targets;
  std::string timeout = "2m";
  bool no_wait = false;
};

void AddRequestOptions(CLI::App& app, RequestOptions& options);

/// Records what is asked of the targets that have a runner, all in one
/// transaction, then waits until each has done it, and prints the states.
/// Where nobody runs an experiment, `cancel` ends it here; the others say so.
/// Gives the exit code.
int Request(RequestKind kind, const RequestOptions& options,
            const GlobalOptions& globals);

}  // namespace dtrain
