#include "cli/run_options.h"

#include <algorithm>
#include <iostream>

#include <unistd.h>

#include "cli/command_line.h"
#include "cli/config_file.h"
#include "cli/exit_code.h"
#include "cli/output.h"
#include "cli/requirements.h"
#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/process/trial_host.h"
#include "engine/report/json_lines_reporter.h"

namespace dtrain {
namespace {

// Where nobody may see that trials wait for disk space.
constexpr Duration kDiskWait = std::chrono::minutes(10);

// Those that were noted, and what else is wrong.
Diagnostics DiagnosticsOf(const RunRequest& request, const std::string& name,
                          const Error& error) {
  Diagnostics found = request.diagnostics;
  const bool told = std::ranges::any_of(found, [](const Diagnostic& one) {
    return one.severity == Severity::kError ||
           one.severity == Severity::kNotYet;
  });
  if (!told) found.push_back({.file = name, .message = error.what()});
  return found;
}

void ReportError(const RunRequest& request, const std::string& name,
                 const Error& error) {
  const bool refused = !request.experiment;
  if (request.json || request.jsonl) {
    nlohmann::json document = {
        {"experiment",
         refused ? nlohmann::json() : nlohmann::json(*request.experiment)},
        {"error", error.what()},
        {"exit_code", ExitCodeOf(error.kind())},
        {"diagnostics", DiagnosticsJson(DiagnosticsOf(request, name, error))}};
    if (request.json) {
      PrintJson(document);
    } else {
      JsonLinesReporter(std::cout, Clock::System(), StdoutIsTerminal())
          .Write(refused ? "refused" : "error", std::move(document));
    }
  }
  const std::string what =
      refused ? name : "experiment " + std::to_string(*request.experiment);
  WriteCiRefusal(request.ci, what, request.diagnostics, error);
}

}  // namespace

void AddRunFlags(CLI::App& app, RunFlags& flags) {
  const CliOption detach =
      AddFlag(app, "-d,--detach", flags.detach,
              "Run in the background and print the experiment ID");
  AddFlag(app, "-f,--follow", flags.follow,
          "Show the output of all trials (without it, only of a single trial)")
      .Excludes(detach);
  AddOption(app, "--require", flags.require,
            "Exit with 4 unless EXPR is true, e.g. 'accuracy>=0.9 and "
            "loss<0.5' (repeatable)")
      .TypeName("EXPR")
      .OneEach()
      .Excludes(detach);
  AddOption(app, "--timeout", flags.timeout_text,
            "Pause after TIME and exit with 124: 90 (seconds), 30m, 1.5h")
      .TypeName("TIME");
  AddOption(app, "--disk-wait", flags.disk_wait,
            "Wait at most TIME for disk space, then pause and exit with 5 "
            "(default: 10m, on a terminal unlimited)")
      .TypeName("TIME");
  const CliOption json =
      AddFlag(app, "--json", flags.json, "Print one JSON document at the end");
  AddFlag(app, "--jsonl", flags.jsonl, "Print every event as a line of JSON")
      .Excludes(json)
      .Excludes(detach);
  AddCiFlags(app, flags.ci, detach);
}

RunRequest CheckRunFlags(const RunFlags& flags, const GlobalOptions& globals) {
  RunRequest request{.detach = flags.detach,
                     .follow = flags.follow,
                     .json = flags.json,
                     .jsonl = flags.jsonl,
                     .ci = flags.ci,
                     .requirements = ParseRequirements(flags.require)};
  if (!flags.timeout_text.empty()) {
    request.timeout = ParseDuration(flags.timeout_text, "--timeout");
  }
  if (!flags.disk_wait.empty()) {
    request.disk_wait = ParseDuration(flags.disk_wait, "--disk-wait");
  } else if (flags.detach || globals.quiet || ::isatty(STDERR_FILENO) != 1) {
    request.disk_wait = kDiskWait;
  }
  CheckCiFlags(flags.ci);
  static_cast<void>(StopGrace());  // before anything is created
  return request;
}

void NoteFindings(RunRequest& request, const Diagnostics& diagnostics) {
  request.diagnostics = diagnostics;
  AnnotateFindings(request.ci, diagnostics);
}

int RunOrReport(RunRequest& request, const std::string& name,
                const std::function<int()>& body) {
  try {
    return body();
  } catch (const Error& error) {
    if (!request.is_reported) ReportError(request, name, error);
    throw;
  }
}

}  // namespace dtrain
