// `dtrain resume`: of one experiment, or with --all of every one that was
// interrupted, or stopped by a signal.
//
// Everything that could make trials fail for good (the stored files, their
// data, slots, the program) is checked before the runner starts; what only
// changes results, such as another Python, is a warning. With --all each
// experiment gets a runner of its own in the background, and one that cannot be
// resumed is reported without keeping the others from it.

#include "cli/resume.h"

#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>
#include <string_view>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "engine/app/config_file.h"
#include "engine/app/entrypoint_check.h"
#include "engine/app/extension.h"
#include "engine/app/notifications.h"
#include "engine/app/record_experiment.h"
#include "engine/app/run_experiment.h"
#include "engine/app/script_check.h"
#include "engine/app/secrets.h"
#include "engine/app/stores.h"
#include "engine/base/clock.h"
#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/config/read_config.h"
#include "engine/nodes/distributed_env.h"
#include "engine/nodes/nodes.h"
#include "engine/run/reporter.h"
#include "engine/run/runner.h"

namespace dtrain {
namespace {

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
  const std::string id = std::to_string(row.id);
  if (row.state == State::kError) {
    throw Error(
        ErrorKind::kFailed,
        "experiment " + id + " is in ERROR; " +
            NamedCommand(CommandFor(globals, "resume " + id + " --failed")) +
            " runs its failed trials again, " +
            NamedCommand(CommandFor(globals, "config " + id)) +
            " prints its configuration for a new experiment");
  }
  if (!IsFinal(row.state)) return;
  throw Error(ErrorKind::kFailed,
              "experiment " + id + " is " + std::string(StateName(row.state)) +
                  ", which is final; create a new experiment from " +
                  NamedCommand(CommandFor(globals, "config " + id)));
}

// True if `--failed` has trials to run again.
bool HasFailed(const Store& store, std::int64_t id) {
  return std::ranges::any_of(
      store.Trials(id, {.hparams = false}),
      [](const TrialRow& trial) { return trial.state == State::kError; });
}

// Returns the configuration of `detail`, checked for this machine.
ExperimentConfig ConfigToResume(const ResumeOptions& options,
                                const ExperimentDetail& detail,
                                const StoreLayout& layout,
                                const GlobalOptions& globals) {
  const std::int64_t id = detail.row.id;
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
  for (const std::string& name :
       MissingVariables(config.notify.value_or(NotifyConfig()))) {
    PrintNotice(globals, "warning: environment variable " + name +
                             " is not set, so notify cannot send; set it "
                             "before 'dtrain resume'");
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

}  // namespace

void AddResumeOptions(CLI::App& app, ResumeOptions& options) {
  AddOption(app, "--slots", options.slots,
            "Slots of this run in place of resources.slots: auto, all, none, "
            "cpu, cpu:N, gpu:N, most_free, or GPU numbers such as [0,1]")
      .TypeName("SLOTS")
      .Suggests({"auto", "all", "none", "cpu", "most_free"});
  AddOption(app, "--listen", options.listen,
            "Port or HOST:PORT of this run in place of resources.listen; 0: "
            "any free port")
      .TypeName("PORT");
  AddRunFlags(app, options.run);
}

int ResumeAndRun(const ResumeOptions& original,
                 const std::optional<nlohmann::json>& extended,
                 RunRequest& request, const GlobalOptions& globals) {
  const StoreLayout layout = FindStore(globals);
  ResumeOptions options = original;
  ExperimentDetail detail;
  {
    const Store store = Store::OpenForReading(layout);  // closed before a fork
    const std::int64_t id = ResolveExperiment(store, original.experiment);
    options.experiment = std::to_string(id);
    request.experiment = id;
    detail = FindExperimentDetail(store, id);
    RequireNotImported(detail);
    const std::vector<std::int64_t> unsent = store.UnsentNotifications();
    // A run that was killed after its end was recorded has not sent them.
    if (std::ranges::find(unsent, id) != unsent.end()) {
      const Notifier sends(layout, id);
    }
    const bool is_completed = detail.row.state == State::kCompleted;
    const bool has_failed = options.failed && HasFailed(store, id);
    if (is_completed && !extended && !has_failed) {
      PrintNotice(globals, "experiment " + options.experiment +
                               (options.failed
                                    ? " has no trial in ERROR; nothing to run "
                                      "again"
                                    : " is already COMPLETED; nothing to "
                                      "resume"));
      return ReportResult(store, MakeResult(store, detail.row),
                          ConfigFromJson(detail.config), request, globals);
    }
    if (options.failed && !has_failed && detail.row.state == State::kError) {
      throw Error(ErrorKind::kFailed,
                  "experiment " + options.experiment +
                      " is in ERROR, but no trial of it is: " +
                      detail.row.error + "; " +
                      NamedCommand(CommandFor(
                          globals, "create --from " + options.experiment)) +
                      " runs it again");
    }
    if (detail.row.state == State::kCanceled || !(extended || has_failed)) {
      RequireNotFinal(detail.row, globals);
    }
  }
  const ExperimentDetail recorded = detail;
  if (extended) detail.config = *extended;
  const std::optional<ExperimentConfig> config =
      ConfigToResume(options, detail, layout, globals);
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
  request.retry_failed = options.failed;
  return RunRecorded(
      layout,
      [&](Store& store) {
        if (extended) {
          RecordExtension(store, recorded, *extended, Clock::System().now());
        }
        return detail.row.id;
      },
      *config, request, globals);
}

namespace {

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
  if (!options.experiment.empty() || options.failed || run.follow ||
      run.jsonl || !run.demands.empty() || !run.timeout_text.empty() ||
      run.ci.has_file()) {
    throw Error(
        ErrorKind::kUsage,
        "--all: resumes in the background, so it cannot be combined "
        "with EXP, --failed or options about one result (--follow, --jsonl, "
        "--require, --timeout, files for CI)");
  }
  const StoreLayout layout = FindStore(globals);
  std::vector<std::int64_t> ids;
  {
    const Store store = Store::OpenForReading(layout);  // closed before a fork
    for (const std::int64_t id : store.UnsentNotifications()) {
      const Notifier sends(layout, id);
    }
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
      const ExperimentDetail detail =
          FindExperimentDetail(Store::OpenForReading(layout), id);
      if (detail.row.state == State::kCompleted) continue;  // in the meantime
      RequireNotFinal(detail.row, globals);
      const ExperimentConfig config =
          ConfigToResume(one, detail, layout, globals);
      StartRunner(
          layout, [id](Store&) { return id; }, config, request, globals);
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
  return RunOrReport(request, "experiment " + options.experiment, [&] {
    return ResumeAndRun(options, std::nullopt, request, globals);
  });
}

}  // namespace

CommandRun SetUpResume(CLI::App& app) {
  auto options = std::make_shared<ResumeOptions>();
  AddOption(app, "EXP", options->experiment, "Experiment ID (3)");
  AddFlag(app, "--all", options->all,
          "Resume all experiments whose runner died or was stopped by a "
          "signal, each in the background");
  AddFlag(app, "--failed", options->failed,
          "Run trials in ERROR again, in their place in the search and from "
          "their last checkpoint");
  AddResumeOptions(app, *options);
  SetHelp(app, {.exits = RunExits(),
                .examples = {{"Resume what a reboot has interrupted",
                              "dtrain resume --all"},
                             {"Run failed trials again after fixing the cause",
                              "dtrain resume 3 --failed"}}});
  return RunWith(Resume, options);
}

}  // namespace dtrain
