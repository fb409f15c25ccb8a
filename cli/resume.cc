// `dtrain resume`: of one experiment, or with --all of every one that was
// interrupted, or stopped by a signal.
//
// Everything that could make trials fail for good (the stored files, their
// data, slots, the program) is checked before the runner starts; what only
// changes results, such as another Python, is a warning. With --all each
// experiment gets a runner of its own in the background, and one that cannot be
// resumed is reported without keeping the others from it.

#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>
#include <string_view>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/run.h"
#include "engine/app/config_file.h"
#include "engine/app/entrypoint_check.h"
#include "engine/app/record_experiment.h"
#include "engine/app/run_experiment.h"
#include "engine/app/script_check.h"
#include "engine/app/secrets.h"
#include "engine/app/stores.h"
#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/config/read_config.h"
#include "engine/nodes/distributed_env.h"
#include "engine/nodes/nodes.h"
#include "engine/run/reporter.h"
#include "engine/run/runner.h"

namespace dtrain {
namespace {

struct ResumeOptions {
  std::string experiment;
  bool all = false;
  std::string slots;
  std::string listen;
  RunFlags run;
};

// Returns the result of a run that has nothing left to do.
RunResult MakeResult(const Store& store, const ExperimentRow& row) {
  RunResult result{.experiment = row.id,
                   .state = row.state,
                   .error = row.error,
                   .best = row.best,
                   .best_trial = row.best_trial,
                   .seconds = row.seconds};
  if (row.best) {
    const auto trial = store.Trial({row.id, row.best_trial});
    if (trial) result.best_hparams = trial->hparams;
  }
  return result;
}

void RequireNotFinal(const ExperimentRow& row, const GlobalOptions& globals) {
  if (!IsFinal(row.state)) return;
  const std::string id = std::to_string(row.id);
  throw Error(ErrorKind::kFailed,
              "experiment " + id + " is " + std::string(StateName(row.state)) +
                  ", which is final; create a new experiment from " +
                  NamedCommand(CommandFor(globals, "config " + id)));
}

// Returns the recorded configuration, checked for this machine; nothing if the
// experiment is COMPLETED.
std::optional<ExperimentConfig> ConfigToResume(const ResumeOptions& options,
                                               std::int64_t id,
                                               const StoreLayout& layout,
                                               RunRequest& request,
                                               const GlobalOptions& globals) {
  // Closed before the process forks.
  const Store store = Store::OpenForReading(layout);
  const ExperimentDetail detail = FindExperimentDetail(store, id);
  request.experiment = id;
  if (detail.row.state == State::kCompleted) return std::nullopt;
  RequireNotFinal(detail.row, globals);
  RequireWholeContext(layout, detail);
  PrintDiagnostics(
      CheckRecordedHparams(
          detail.config, RecordedOptions("experiment " + options.experiment, {},
                                         layout.Context(id))),
      globals);
  ExperimentConfig config = ConfigFromJson(detail.config);
  std::vector<std::string> overrides;
  if (!options.listen.empty()) {
    overrides.push_back(ListenOverride(options.listen));
    config.resources = ResourcesOn(detail.config, "", overrides);
  }
  if (!options.slots.empty()) {
    config.resources = ResourcesOn(detail.config, options.slots, overrides);
  }
  for (const std::string& name : FillEnvironment(config)) {
    PrintNotice(globals,
                "warning: the value of environment variable " + name +
                    " was not recorded; set it before 'dtrain resume' if "
                    "the trials need it");
  }
  const auto recorded = detail.provenance.find("python");
  std::optional<PythonQuery> query;  // answers while the checks run
  if (recorded != detail.provenance.end() && config.resources.local) {
    query.emplace(config, FindContextDirectory(layout, detail));
  }
  // Without its data a trial would fail permanently.
  if (const auto problem =
          ProblemOnThisMachine(config, FindContextDirectory(layout, detail))) {
    throw Error(ErrorKind::kUsage, "experiment " + options.experiment + ": " +
                                       *problem + "; nothing was started");
  }
  if (!query) return config;
  nlohmann::json now;
  query->Record(now);
  for (const std::string& text : PythonDifferences(*recorded, now["python"])) {
    PrintNotice(globals, "warning: experiment " + options.experiment + ": " +
                             text + "; results may differ");
  }
  return config;
}

int ReportCompleted(const ResumeOptions& options, std::int64_t id,
                    const StoreLayout& layout, RunRequest& request,
                    const GlobalOptions& globals) {
  const Store store = Store::OpenForReading(layout);
  const ExperimentDetail detail = FindExperimentDetail(store, id);
  PrintNotice(globals, "experiment " + options.experiment +
                           " is already COMPLETED; nothing to resume");
  return ReportResult(store, MakeResult(store, detail.row),
                      ConfigFromJson(detail.config), request, globals);
}

int ResumeAndRun(const ResumeOptions& original, RunRequest& request,
                 const GlobalOptions& globals) {
  const StoreLayout layout = FindStore(globals);
  const std::int64_t id =
      ResolveExperiment(Store::OpenForReading(layout), original.experiment);
  ResumeOptions options = original;
  options.experiment = std::to_string(id);
  const std::optional<ExperimentConfig> config =
      ConfigToResume(options, id, layout, request, globals);
  if (!config) return ReportCompleted(options, id, layout, request, globals);
  const auto place = FindDistributedEnv(*config, request.detach);
  if (place && place->follows()) {
    throw Error(ErrorKind::kUsage,
                "RANK=" + std::to_string(place->rank) +
                    ": only RANK=0 resumes an experiment; start the other "
                    "ranks with 'dtrain create', as before");
  }
  const auto nodes =
      ConnectRanks(place, *config, PlanExperimentSlots(*config), globals);
  request.nodes = nodes.get();
  return RunRecorded(
      layout, [&](Store&) { return id; }, *config, request, globals);
}

// True if `--all` resumes the experiment: its runner died, or a signal stopped
// it, as at a shutdown of the machine.
bool WasInterrupted(const Store& store, const ExperimentRow& row) {
  if (row.state == State::kInterrupted) return true;
  if (row.state != State::kPaused) return false;
  const auto trials = store.Trials(row.id, {.hparams = false});
  const auto has_reason = [&](std::string_view reason) {
    return std::ranges::any_of(trials, [&](const TrialRow& trial) {
      return !IsFinal(trial.state) &&
             trial.reason.find(reason) != std::string::npos;
    });
  };
  // A trial that waited in a run keeps the reason of the run before, so that
  // both occur, and the last one is not known.
  return has_reason(kStoppedBySignal) && !has_reason(kPausedByRequest);
}

// Resumes all interrupted experiments of the store, each with a runner of its
// own in the background, and says which. One that cannot be resumed does not
// keep the others.
int ResumeAll(const ResumeOptions& options, const GlobalOptions& globals) {
  const RunFlags& run = options.run;
  if (!options.experiment.empty() || run.follow || run.jsonl ||
      !run.demands.empty() || !run.timeout_text.empty() || run.ci.has_file()) {
    throw Error(ErrorKind::kUsage,
                "--all: resumes in the background, so it cannot be combined "
                "with EXP or with options about one result (--follow, --jsonl, "
                "--require, --timeout, files for CI)");
  }
  const StoreLayout layout = FindStore(globals);
  std::vector<std::int64_t> ids;
  {
    const Store store = Store::OpenForReading(layout);  // closed before a fork
    for (const ExperimentRow& row : ListExperiments(store, /*archived=*/true)) {
      if (WasInterrupted(store, row)) ids.push_back(row.id);
    }
  }
  nlohmann::json experiments = nlohmann::json::array();
  bool failed = false;
  for (const std::int64_t id : ids) {
    ResumeOptions one = options;
    one.experiment = std::to_string(id);
    one.run.detach = true;
    std::string problem;
    try {
      RunRequest request = CheckRunFlags(one.run, globals);
      const auto config = ConfigToResume(one, id, layout, request, globals);
      if (!config) continue;  // completed in the meantime
      StartRunner(
          layout, [id](Store&) { return id; }, *config, request, globals);
    } catch (const Error& error) {
      problem = error.what();
      failed = true;
    }
    experiments.push_back(
        {{"experiment", id},
         {"problem",
          problem.empty() ? nlohmann::json() : nlohmann::json(problem)}});
    if (!options.run.json) {
      std::cout << EscapeForTerminal("experiment " + one.experiment +
                                     (problem.empty()
                                          ? " runs in the background"
                                          : " was not resumed: " + problem))
                << '\n';
    }
  }
  if (options.run.json) {
    PrintJson({{"experiments", std::move(experiments)},
               {"store", layout.root().string()}});
  } else if (ids.empty()) {
    PrintNotice(globals, "no experiment in " + layout.root().string() +
                             " was interrupted");
  }
  return failed ? kExitFailed : kExitDone;
}

int Resume(const ResumeOptions& options, const GlobalOptions& globals) {
  if (options.all) return ResumeAll(options, globals);
  if (options.experiment.empty()) {
    throw Error(ErrorKind::kUsage,
                "EXP is required, or --all for what was interrupted");
  }
  RunRequest request = CheckRunFlags(options.run, globals);
  return RunOrReport(request, "experiment " + options.experiment,
                     [&] { return ResumeAndRun(options, request, globals); });
}

}  // namespace

CommandRun SetUpResume(CLI::App& app) {
  auto options = std::make_shared<ResumeOptions>();
  AddOption(app, "EXP", options->experiment, "Experiment ID (3)");
  AddFlag(app, "--all", options->all,
          "Resume all experiments whose runner died or was stopped by a "
          "signal, each in the background");
  AddOption(app, "--slots", options->slots,
            "Slots of this run in place of resources.slots: auto, all, none, "
            "cpu, cpu:N, gpu:N, most_free, or GPU numbers such as [0,1]")
      .TypeName("SLOTS")
      .Suggests({"auto", "all", "none", "cpu", "most_free"});
  AddOption(app, "--listen", options->listen,
            "Port or HOST:PORT of this run in place of resources.listen; 0: "
            "any free port")
      .TypeName("PORT");
  AddRunFlags(app, options->run);
  SetHelp(app, {.exits = RunExits(),
                .examples = {{"Resume what a reboot has interrupted",
                              "dtrain resume --all"},
                             {"Train on CPUs, since the GPUs are gone",
                              "dtrain resume 3 --slots none"}}});
  return RunWith(Resume, options);
}

}  // namespace dtrain
