#include <iostream>
#include <memory>

#include "cli/commands.h"
#include "cli/config_file.h"
#include "cli/exit_code.h"
#include "cli/many_nodes.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/run_experiment.h"
#include "cli/run_options.h"
#include "cli/run_report.h"
#include "cli/secrets.h"
#include "cli/store_access.h"
#include "engine/base/error.h"
#include "engine/base/text.h"

namespace dtrain {
namespace {

struct ResumeOptions {
  std::string experiment;
  RunFlags run;
};

// What a run that has nothing left to do would have come to.
RunResult ResultOf(const Store& store, const ExperimentRow& row) {
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

int Resume(const ResumeOptions& options, const GlobalOptions& globals) {
  RunRequest request = CheckRunFlags(options.run);
  const std::int64_t id = ParseExperimentId(options.experiment);
  const StoreLayout layout = FindStore(globals);
  ExperimentConfig config;
  {
    // Closed before anything forks.
    const Store store = Store::OpenForReading(layout);
    const ExperimentDetail detail = FindExperimentDetail(store, id);
    const bool completed = detail.row.state == State::kCompleted;
    if (IsFinal(detail.row.state) && !completed) {
      throw Error(ErrorKind::kFailed,
                  "experiment " + options.experiment + " is " +
                      std::string(StateName(detail.row.state)) +
                      ", which is final; create it anew from 'dtrain config " +
                      options.experiment + "'");
    }
    config = ConfigFromJson(detail.config);
    if (!completed) {
      PrintDiagnostics(
          CheckRecordedHparams(
              detail.config, RecordedOptions("experiment " + options.experiment,
                                             {}, layout.Context(id))),
          globals);
    }
    if (completed) {
      Say(globals, "experiment " + options.experiment +
                       " is COMPLETED already; there is nothing to resume");
      return ReportResult(store, ResultOf(store, detail.row), config, request,
                          globals);
    }
  }
  for (const std::string& name : FillEnvironment(config)) {
    Say(globals, "warning: the value of environment variable " + name +
                     " was not recorded; set it before 'dtrain resume' if "
                     "the trials need it");
  }
  const auto place = FindNodePlace(config, request);
  if (place && place->follows()) {
    throw Error(ErrorKind::kUsage,
                "RANK=" + std::to_string(place->rank) +
                    ": only RANK=0 resumes an experiment; start the others as "
                    "they were, by 'dtrain create'");
  }
  return RunOnNodes(
      place, config, PlanExperimentSlots(config), globals, request, [&] {
        return RunRecorded(
            layout, [&](Store&) { return id; }, config, request, globals);
      });
}

}  // namespace

void SetUpResume(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<ResumeOptions>();
  AddOption(app, "EXP", options->experiment, "Experiment").Required();
  AddRunFlags(app, options->run);
  OnParsed(app, [options, &invocation] {
    invocation.run = [options, &invocation] {
      return Resume(*options, invocation.globals);
    };
  });
}

}  // namespace dtrain
