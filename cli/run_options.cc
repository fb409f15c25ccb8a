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
  const CliOption detach = AddFlag(app, "-d,--detach", flags.detach,
                                   "Run in the background, print the id");
  AddFlag(app, "-f,--follow", flags.follow,
          "Show what the trials of a search print (a single one's is shown)")
      .Excludes(detach);
  AddOption(app, "--require", flags.require,
            "Exit 4 unless it holds: accuracy>=0.9 and loss<0.5")
      .TypeName("EXPR")
      .OneEach()
      .Excludes(detach);
  AddOption(app, "--timeout", flags.timeout_text,
            "Pause after this time, exit 124: 90, 30m, 1.5h")
      .TypeName("TIME");
  AddOption(app, "--disk-wait", flags.disk_wait,
            "Trials wait so long for disk space, then it is paused, exit 5: "
            "0, 10m (on a terminal: until you pause it)")
      .TypeName("TIME");
  const CliOption json =
      AddFlag(app, "--json", flags.json, "End with one JSON document");
  AddFlag(app, "--jsonl", flags.jsonl, "Every event as a line of JSON")
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
