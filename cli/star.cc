#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "engine/app/stores.h"

namespace dtrain {
namespace {

struct StarOptions : JsonOption {
  std::vector<std::string> trials;
  bool remove = false;
};

int Star(const StarOptions& options, const GlobalOptions& globals) {
  std::vector<TrialId> trials;
  std::vector<std::int64_t> experiments;
  {
    const Store store = OpenStore(globals);
    for (const std::string& text : options.trials) {
      trials.push_back(ResolveTrial(store, text));
      experiments.push_back(trials.back().experiment);
      FindTrial(store, FindExperiment(store, experiments.back()),
                trials.back().number);
    }
  }
  Store store = OpenStoreToChange(globals, experiments);
  store.Write([&](StoreWriter& writer) {
    for (const TrialId trial : trials)
      writer.SetTrialStar(trial, !options.remove);
  });
  nlohmann::json array = nlohmann::json::array();
  for (const TrialId trial : trials) {
    array.push_back({{"trial", ToString(trial)}, {"star", !options.remove}});
    if (options.json) continue;
    std::cout << "trial " << ToString(trial)
              << (options.remove ? ": no star\n" : ": star\n");
  }
  if (options.json) PrintJson({{"trials", std::move(array)}});
  return kExitDone;
}

}  // namespace

CommandRun SetUpStar(CLI::App& app) {
  auto options = std::make_shared<StarOptions>();
  AddOption(app, "EXP.T", options->trials, "Trial IDs (3.7)").Required();
  AddFlag(app, "--remove", options->remove, "Remove the stars");
  AddJsonOption(app, *options);
  SetHelp(app,
          {.exits = {{kExitDone}, {kExitUsage}, {kExitNotFound}, {kExitStore}},
           .examples = {{"Mark two trials", "dtrain star 3.7 3.9"},
                        {"List the marked ones",
                         "dtrain trials 3 --filter 'star == 1'"}}});
  return RunWith(Star, options);
}

}  // namespace dtrain
