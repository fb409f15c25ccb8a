#include <memory>
#include <string>
#include <vector>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/run.h"
#include "engine/app/checkpoints.h"
#include "engine/app/config_file.h"
#include "engine/app/recorded_trial.h"
#include "engine/app/stores.h"
#include "engine/base/error.h"

namespace dtrain {
namespace {

struct ContinueOptions {
  std::string source;
  bool best = false;
  bool latest = false;
  DeriveFlags changes;
  RunFlags run;
};

SourceCheckpoint FindSource(const Store& store, const ContinueOptions& options,
                            const GlobalOptions& globals) {
  if (const auto target = ResolveSource(store, options.source)) {
    if (options.best) {
      return SourceFrom(store, FindBestCheckpoint(store, *target));
    }
    return SourceFrom(store, FindOnlyTrial(store, *target).id, globals);
  }
  if (options.best || options.latest) {
    throw Error(
        ErrorKind::kUsage,
        std::string(options.best ? "--best" : "--latest") +
            ": requires a trial such as 3.7, not a checkpoint; omit it");
  }
  return SourceFrom(store, FindCheckpoint(store, options.source));
}

int ContinueAndRun(const ContinueOptions& options, RunRequest& request,
                   const GlobalOptions& globals) {
  const StoreLayout layout = FindStore(globals);
  DerivedExperiment derived;
  {
    // Closed before the process forks.
    const Store store = Store::OpenForReading(layout);
    const SourceCheckpoint start = FindSource(store, options, globals);
    const RecordedTrial trial = FindRecordedTrial(store, start.trial);
    derived = DeriveExperiment(store, trial, SingleTrialConfig(trial),
                               ToChanges(options.changes), start,
                               FindingsRecorder(request, globals), globals);
  }
  return RunDerived(layout, derived, request, globals);
}

int Continue(const ContinueOptions& options, const GlobalOptions& globals) {
  RunRequest request = CheckRunFlags(options.run, globals);
  return RunOrReport(request, options.source,
                     [&] { return ContinueAndRun(options, request, globals); });
}

}  // namespace

CommandRun SetUpContinue(CLI::App& app) {
  auto options = std::make_shared<ContinueOptions>();
  AddOption(app, "SOURCE", options->source,
            "Experiment with one trial (3), trial (3.7), or first characters "
            "of a checkpoint ID")
      .Required();
  const CliOption best =
      AddFlag(app, "--best", options->best,
              "Start from the checkpoint of the best validation");
  AddFlag(app, "--latest", options->latest,
          "Start from the latest checkpoint (default)")
      .Excludes(best);
  AddDeriveFlags(app, options->changes, "source");
  AddRunFlags(app, options->run);
  SetHelp(
      app,
      {.exits = RunExits(),
       .examples = {
           {"Train the best trial of experiment 3 longer",
            "dtrain continue 3 --best --set searcher.max_length.batches=5000"},
           {"Start from a checkpoint with another learning rate",
            "dtrain continue 0a1b2c3d --set hyperparameters.lr=0.001"}}});
  return RunWith(Continue, options);
}

}  // namespace dtrain
