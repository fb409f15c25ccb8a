#pragma once

#include <optional>
#include <string>

#include "cli/run.h"

namespace dtrain {

/// Options of the commands that run a recorded experiment on.
struct ResumeOptions {
  std::string experiment;
  bool all = false;
  bool failed = false;
  std::string slots;
  std::string listen;
  RunFlags run;
};

/// Adds --slots, --listen and the options of a run.
void AddResumeOptions(CLI::App& app, ResumeOptions& options);

/// Checks that the experiment can run here, and runs it until its end. With
/// `config`, the configuration of an extended search, that is recorded first.
/// Returns the exit code.
int ResumeAndRun(const ResumeOptions& options,
                 const std::optional<nlohmann::json>& config,
                 RunRequest& request, const GlobalOptions& globals);

}  // namespace dtrain
