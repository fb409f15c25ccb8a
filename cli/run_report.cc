#include "cli/run_report.h"

#include <iostream>
#include <utility>

#include <unistd.h>

#include "cli/exit_code.h"
#include "cli/junit_report.h"
#include "cli/output.h"
#include "cli/requirements.h"
#include "cli/store_access.h"
#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/report/json_lines_reporter.h"
#include "engine/report/json_view.h"
#include "engine/report/live_display.h"
#include "engine/report/plain_reporter.h"
#include "engine/report/reporter_group.h"
#include "engine/report/summary.h"

namespace dtrain {
namespace {

class BeginReporter : public Reporter {
 public:
  explicit BeginReporter(std::function<void()> on_begin)
      : on_begin_(std::move(on_begin)) {}

  void Begin(const RunInfo&) override { on_begin_(); }

 private:
  std::function<void()> on_begin_;
};

Verbosity VerbosityOf(const GlobalOptions& globals) {
  if (globals.quiet) return Verbosity::kQuiet;
  return globals.verbose ? Verbosity::kVerbose : Verbosity::kNormal;
}

SummaryContext ContextOf(const Store& store, const ExperimentRow& row,
                         const ExperimentConfig& config,
                         const GlobalOptions& globals) {
  SummaryContext context{
      .metric = row.metric,
      .hyperparameters = config.hyperparameters,
      .command = ProgramFor(globals),
      .max_length = std::to_string(config.searcher.max_length) + " " +
                    std::string(UnitName(config.length_unit))};
  context.counted = CountedUnit(store, row.id, config);
  for (const TrialRow& trial : ListTrials(store, row)) {
    ++context.trials[trial.state];
    if (trial.reason == kKilledReason) ++context.killed;
    if (trial.id.number == row.best_trial) context.best_state = trial.state;
  }
  return context;
}

// Both are JSON documents that end a run.
nlohmann::json FinalDocument(const Store& store, const RunResult& result,
                             const ExperimentRow& row,
                             const SummaryContext& context,
                             const std::vector<Check>& checks) {
  nlohmann::json document = ResultJson(result, row.metric);
  document["name"] = row.name;
  document["trials"] = row.trials;
  document["trials_by_state"] = nlohmann::json::object();
  for (const auto& [state, count] : context.trials) {
    document["trials_by_state"][std::string(StateName(state))] = count;
  }
  document["requirements"] = ChecksJson(checks);
  document["store"] = store.layout().root().string();
  return document;
}

void WriteJunit(const std::string& path, const std::string& xml) {
  WriteNamedFile("--junit", path, xml, "the experiment itself is recorded");
}

void ExplainResult(const RunResult& result, const GlobalOptions& globals) {
  const std::string id = std::to_string(result.experiment);
  if (result.state == State::kError || result.state == State::kCanceled) {
    SayError(globals, "experiment " + id + " is " +
                          std::string(StateName(result.state)) +
                          (result.error.empty() ? "" : ": " + result.error) +
                          "; see " + CommandFor(globals, "logs " + id));
  } else if (!result.error.empty()) {
    SayError(globals, "experiment " + id + " is paused: " + result.error +
                          "; to go on: " + CommandFor(globals, "resume " + id));
  } else if (!IsFinal(result.state)) {
    std::cerr << "dtrain: experiment " << id << " is paused"
              << (result.timed_out ? " at its time limit" : "")
              << ", nothing is lost; go on with: "
              << CommandFor(globals, "resume " + id) << '\n';
  }
}

}  // namespace

std::unique_ptr<Reporter> MakeReporter(const RunRequest& request,
                                       const GlobalOptions& globals,
                                       std::function<void()> on_begin) {
  auto group = std::make_unique<ReporterGroup>();
  if (on_begin) {
    group->Add(std::make_unique<BeginReporter>(std::move(on_begin)));
  }
  if (request.jsonl) {
    group->Add(std::make_unique<JsonLinesReporter>(std::cout, Clock::System()));
  }
  const auto mode = [color = globals.color] {
    return ModeOf(STDERR_FILENO, color);
  };
  const Verbosity verbosity = VerbosityOf(globals);
  if (mode().redraw && !request.detach && !globals.quiet) {
    group->Add(std::make_unique<LiveDisplay>(std::cerr, mode, verbosity,
                                             Clock::System()));
  } else {
    group->Add(std::make_unique<PlainReporter>(std::cerr, mode(), verbosity));
  }
  return group;
}

int ReportResult(const Store& store, const RunResult& result,
                 const ExperimentConfig& config, const RunRequest& request,
                 const GlobalOptions& globals) {
  const ExperimentRow row = FindExperiment(store, result.experiment);
  // What was paused is not judged: it can still get there.
  const auto checks = IsFinal(result.state)
                          ? CheckRequirements(request.requirements, store, row)
                          : std::vector<Check>{};
  const auto conclusion =
      request.conclude ? request.conclude(store, result) : std::nullopt;
  const SummaryContext context = ContextOf(store, row, config, globals);
  if (request.json || request.jsonl) {
    nlohmann::json document =
        FinalDocument(store, result, row, context, checks);
    if (conclusion) document[conclusion->key] = conclusion->document;
    if (request.json) {
      PrintJson(document);
    } else {
      JsonLinesReporter(std::cout, Clock::System())
          .Write("end", std::move(document));
    }
  } else {
    std::cout << SummaryText(result, context);
    if (conclusion) std::cout << EscapeForTerminal(conclusion->text) << '\n';
  }
  ExplainResult(result, globals);
  const bool met = ReportUnmet(checks, result.experiment, globals) &&
                   (!conclusion || conclusion->met);
  if (!request.junit.empty()) {
    WriteJunit(request.junit, JunitReport(store, row, checks));
  }
  const int code = ExitCodeOf(result);
  return code == kExitDone && !met ? kExitRequirement : code;
}

}  // namespace dtrain
