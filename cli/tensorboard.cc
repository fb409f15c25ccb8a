#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/selection.h"
#include "engine/app/followed_run.h"
#include "engine/app/stores.h"
#include "engine/app/tensorboard_export.h"
#include "engine/app/trial_selection.h"
#include "engine/report/format.h"
#include "engine/store/store.h"

namespace dtrain {
namespace {

constexpr Duration kPoll = std::chrono::seconds(1);

struct TensorboardOptions {
  std::vector<std::string> experiments;
  std::string out = "tensorboard";
  std::string filter;
  bool follow = false;
};

ExportedCounts Export(const Store& store, const std::vector<std::int64_t>& ids,
                      const TensorboardOptions& options,
                      TensorboardExport& directory, bool notes,
                      const GlobalOptions& globals) {
  std::vector<Target> targets;
  for (const std::int64_t id : ids) targets.push_back({.experiment = id});
  const TrialSelection selection(store, targets, options.filter,
                                 Clock::System().now());
  if (notes) PrintNotes(selection, globals);
  ExportedCounts counts;
  for (const std::int64_t id : ids) {
    const ExportedCounts one = directory.Update(store, id, selection);
    counts.trials += one.trials;
    counts.values += one.values;
  }
  return counts;
}

// Exports until the experiments are over.
void Follow(const Store& store, const std::vector<std::int64_t>& ids,
            const TensorboardOptions& options, TensorboardExport& directory,
            const GlobalOptions& globals) {
  const Clock clock = Clock::System();
  FollowedRuns runs(store, ids);
  while (true) {
    // Asked first, so that the last export has everything.
    runs.Poll(clock.monotonic());
    const bool are_over = runs.AllSettled();
    const ExportedCounts counts =
        Export(store, ids, options, directory, /*notes=*/false, globals);
    if (counts.values > 0 && globals.verbose) {
      PrintNotice(globals,
                  "added " + std::to_string(counts.values) + " values");
    }
    if (are_over) return;
    std::this_thread::sleep_for(kPoll);
  }
}

// Returns the experiments' ids. Explains the verbs of Determined's
// `tensorboard`, unless an experiment has that name.
std::vector<std::int64_t> FindExperiments(const Store& store,
                                          const TensorboardOptions& options) {
  static constexpr auto kVerbs = std::to_array<std::string_view>(
      {"config", "describe", "help", "kill", "list", "logs", "ls", "open",
       "set", "start"});
  try {
    return ResolveExperiments(store, options.experiments);
  } catch (const Error&) {
    const std::string& verb = options.experiments.front();
    if (std::ranges::find(kVerbs, verb) == kVerbs.end()) throw;
    throw Error(ErrorKind::kUsage,
                "tensorboard " + verb +
                    ": dtrain starts no TensorBoard; 'dtrain tensorboard EXP' "
                    "writes event files, look at them with: tensorboard "
                    "--logdir " +
                    options.out);
  }
}

int Tensorboard(const TensorboardOptions& options,
                const GlobalOptions& globals) {
  const Store store = OpenStore(globals);
  const auto ids = FindExperiments(store, options);
  TensorboardExport directory(options.out);
  const ExportedCounts counts =
      Export(store, ids, options, directory, /*notes=*/true, globals);
  PrintNotice(
      globals,
      "wrote " + CountText(static_cast<std::size_t>(counts.values), "value") +
          " of " + CountText(static_cast<std::size_t>(counts.trials), "trial") +
          " to " + options.out + "; look at them with: tensorboard --logdir " +
          options.out);
  if (options.follow) Follow(store, ids, options, directory, globals);
  return kExitDone;
}

}  // namespace

CommandRun SetUpTensorboard(CLI::App& app) {
  auto options = std::make_shared<TensorboardOptions>();
  AddOption(app, "EXP", options->experiments, "Experiments").Required();
  AddOption(
      app, "--out", options->out,
      "New or empty directory, or that of an earlier export, which gets what "
      "is new (default: tensorboard)")
      .TypeName("DIR")
      .IsPath();
  AddFlag(app, "--follow", options->follow,
          "Add new values every second until the experiments are over");
  AddTrialFilter(app, options->filter);
  SetHelp(
      app,
      {.notes = "Each trial is a run of its own, named as dtrain names it; "
                "the tab HPARAMS has a row for each.",
       .exits = ReaderExits(),
       .examples = {{"Write event files for tensorboard --logdir tensorboard",
                     "dtrain tensorboard 3"},
                    {"Keep a directory up to date while an experiment runs",
                     "dtrain tensorboard 3 --out runs --follow"}}});
  return RunWith(Tensorboard, options);
}

}  // namespace dtrain
