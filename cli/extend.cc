// `dtrain extend` and `dtrain set max-trials`: a search continues with more
// trials, or a larger budget. A runner reads the new plan from the record;
// without one the experiment is resumed.

#include <memory>
#include <optional>
#include <string>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/resume.h"
#include "engine/app/extension.h"
#include "engine/app/stores.h"
#include "engine/base/clock.h"
#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/report/format.h"

namespace dtrain {
namespace {

struct ExtendOptions {
  ResumeOptions resume;
  PlanChange change;
};

struct SetMaxTrialsOptions : JsonOption {
  std::string experiment;
  std::string trials;
};

bool IsRunning(const ExperimentDetail& detail) {
  return detail.row.state == State::kRunning ||
         detail.row.state == State::kPending;
}

int ReportPlan(const ExperimentDetail& detail, const nlohmann::json& config,
               bool json, const GlobalOptions& globals) {
  const nlohmann::json& searcher = config.at("searcher");
  const nlohmann::json budget = searcher.value("budget", nlohmann::json());
  if (json) {
    PrintJson({{"experiment", detail.row.id},
               {"max_trials", searcher.at("max_trials")},
               {"budget", budget}});
    return kExitDone;
  }
  PrintNotice(
      globals,
      "experiment " + std::to_string(detail.row.id) + ": the search has " +
          searcher.at("max_trials").dump() + " trials now" +
          (budget.is_null() ? ""
                            : " and a budget of " + FormatHparams(budget)) +
          (IsRunning(detail) ? "" : "; resume it to train them"));
  return kExitDone;
}

int Extend(const ExtendOptions& options, const GlobalOptions& globals) {
  RunRequest request = CheckRunFlags(options.resume.run, globals);
  return RunOrReport(request, "experiment " + options.resume.experiment, [&] {
    const StoreLayout layout = FindStore(globals);
    ExperimentDetail detail;
    {
      const Store store = Store::OpenForReading(layout);
      detail = FindExperimentDetail(
          store, ResolveExperiment(store, options.resume.experiment));
    }
    const nlohmann::json config = ExtendConfig(detail, options.change);
    if (!IsRunning(detail)) {
      return ResumeAndRun(options.resume, config, request, globals);
    }
    const RunFlags& run = options.resume.run;
    if (run.follow || run.jsonl || !run.demands.empty() ||
        !run.timeout_text.empty() || !run.disk_wait.empty() ||
        run.ci.has_file() || !options.resume.slots.empty() ||
        !options.resume.listen.empty()) {
      const std::string id = std::to_string(detail.row.id);
      throw Error(ErrorKind::kUsage,
                  "experiment " + id +
                      " runs, so options about a run (--require, --follow, "
                      "--slots and others) have no effect; " +
                      NamedCommand(CommandFor(globals, "wait " + id)) +
                      " takes those about its result");
    }
    Store store = OpenStoreToChange(globals, {detail.row.id});
    RecordExtension(store, detail, config, Clock::System().now());
    return ReportPlan(detail, config, request.json, globals);
  });
}

int SetMaxTrials(const SetMaxTrialsOptions& options,
                 const GlobalOptions& globals) {
  const std::int64_t id =
      ResolveExperiment(OpenStore(globals), options.experiment);
  Store store = OpenStoreToChange(globals, {id});
  const ExperimentDetail detail = FindExperimentDetail(store, id);
  const nlohmann::json config =
      ExtendConfig(detail, {.max_trials = options.trials, .budget = ""});
  if (detail.row.state == State::kCompleted) {
    throw Error(ErrorKind::kFailed,
                "experiment " + std::to_string(id) + " is COMPLETED; " +
                    CommandFor(globals, "extend " + std::to_string(id) +
                                            " --max-trials " + options.trials) +
                    " takes its search on");
  }
  RecordExtension(store, detail, config, Clock::System().now());
  return ReportPlan(detail, config, options.json, globals);
}

}  // namespace

CommandRun SetUpExtend(CLI::App& app) {
  auto options = std::make_shared<ExtendOptions>();
  AddOption(app, "EXP", options->resume.experiment, "Experiment ID (3)")
      .Required();
  AddOption(app, "--max-trials", options->change.max_trials,
            "New number of trials of the search, or +N for N more")
      .TypeName("N");
  AddOption(app, "--budget", options->change.budget,
            "New budget of bayesian_asha, a length or a duration, or +B for "
            "that much more; default: that of the new plan")
      .TypeName("B");
  AddResumeOptions(app, options->resume);
  SetHelp(app,
          {.notes = "The search goes on as if it had been created so, with "
                    "the rungs that it has. Trials that were not promoted may "
                    "be, while they have a checkpoint.",
           .exits = RunExits(),
           .examples = {
               {"Train 32 trials more", "dtrain extend 3 --max-trials +32"},
               {"Search for 4 more hours", "dtrain extend 3 --budget +4h"}}});
  return RunWith(Extend, options);
}

CommandRun SetUpSetMaxTrials(CLI::App& app) {
  auto options = std::make_shared<SetMaxTrialsOptions>();
  AddOption(app, "EXP", options->experiment, "Experiment ID (3)").Required();
  AddOption(app, "N", options->trials,
            "New number of trials of the search, or +N for N more")
      .Required();
  AddJsonOption(app, *options);
  SetHelp(app,
          {.notes = "For a search that has not ended; use 'dtrain extend' for "
                    "one that has.",
           .exits = {{kExitDone},
                     {kExitFailed, "the experiment has ended"},
                     {kExitUsage},
                     {kExitNotFound},
                     {kExitStore}},
           .examples = {{"Let a running search try 16 more",
                         "dtrain set max-trials 3 +16"},
                        {"Let the newest one try 100 in all",
                         "dtrain set max-trials last 100"}}});
  return RunWith(SetMaxTrials, options);
}

}  // namespace dtrain
