// `dtrain rerun` and `dtrain confirm`: new experiments that train recorded
// hyperparameters from scratch. `confirm` trains the best of a search as the
// points of a random search with repeats, whose record names the trials.

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/run.h"
#include "engine/app/config_file.h"
#include "engine/app/recorded_trial.h"
#include "engine/app/stores.h"
#include "engine/app/trial_values.h"
#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/base/length.h"
#include "engine/run/points.h"
#include "engine/store/store.h"
#include "searchers/hparam_space.h"

namespace dtrain {
namespace {

struct RerunOptions {
  std::string trial;
  std::int64_t repeats = 1;
  DeriveFlags changes;
  RunFlags run;
};

struct ConfirmOptions {
  std::string experiment;
  std::int64_t top = 3;
  std::int64_t repeats = 5;
  DeriveFlags changes;
  RunFlags run;
};

// Returns the first key of --set that is one of `keys` or their section; empty
// if there is none.
std::string FindOverride(const std::vector<std::string>& overrides,
                         std::string_view section,
                         std::initializer_list<std::string_view> keys) {
  for (const std::string& override : overrides) {
    const std::string key = override.substr(0, override.find('='));
    if (key == section) return key;
    for (const std::string_view one : keys) {
      if (key == std::string(section) + "." + std::string(one)) return key;
    }
  }
  return "";
}

// The search may have stopped the trial long before the length that it is
// trained to now.
void PrintLength(const Store& store, const RecordedTrial& trial,
                 const ExperimentConfig& config, const GlobalOptions& globals) {
  const TrialRow& row = trial.row;
  const std::int64_t length = config.searcher.max_length;
  const Unit counted = CountedUnit(store, row.id.experiment);
  const bool is_short = row.state == State::kStopped &&
                        counted == config.length_unit && row.batches < length;
  if (!is_short) return;
  PrintNotice(globals, "note: the search stopped trial " + ToString(row.id) +
                           " after " + LengthText(row.batches, counted) +
                           "; this run trains " + LengthText(length, counted));
}

int RerunTrial(const RerunOptions& options, RunRequest& request,
               const GlobalOptions& globals) {
  const StoreLayout layout = FindStore(globals);
  DerivedExperiment derived;
  {
    // Closed before the process forks.
    const Store store = Store::OpenForReading(layout);
    const RecordedTrial trial =
        FindRecordedTrial(store, ResolveTrial(store, options.trial));
    RequireStoredFiles(trial.experiment);
    nlohmann::json effective = RerunConfig(trial);
    // The seed of the trial is to follow from another one.
    if (!FindOverride(options.changes.overrides, "reproducibility",
                      {"experiment_seed"})
             .empty()) {
      effective["reproducibility"].erase("trial_seed");
    }
    if (options.repeats > 1) {
      effective["searcher"]["repeats"] = options.repeats;
    }
    derived = DeriveExperiment(store, trial, effective,
                               ToChanges(options.changes), /*start=*/{},
                               FindingsRecorder(request, globals), globals);
    derived.provenance["reruns"] = ToString(trial.row.id);
    PrintLength(store, trial, derived.config, globals);
  }
  return RunDerived(layout, derived, request, globals);
}

int Rerun(const RerunOptions& options, const GlobalOptions& globals) {
  RunRequest request = CheckRunFlags(options.run, globals);
  return RunOrReport(request, options.trial,
                     [&] { return RerunTrial(options, request, globals); });
}

// The best trials of an experiment with different points, these, and the values
// that the search reported; with repeats those of the points.
struct BestPoints {
  std::vector<TrialRow> trials;
  std::vector<nlohmann::json> points;
  std::vector<double> values;
};

BestPoints FindBestPoints(const Store& store,
                          const ExperimentDetail& experiment,
                          std::int64_t top) {
  auto rows = store.Trials(experiment.row.id, {.checkpoints = false});
  std::map<std::int64_t, double> bests;
  for (const TrialRow& row : rows) {
    if (row.best) bests[row.id.number] = row.best->value;
  }
  const bool has_repeats = ReadRepeats(experiment.config).count > 1;
  std::map<std::int64_t, PointRow> points;  // by number
  for (PointRow& point : ListPoints(rows, experiment)) {
    points[point.point] = std::move(point);
  }
  SortByPoint(experiment, bests, rows);
  BestPoints found;
  for (TrialRow& row : rows) {
    if (std::ssize(found.points) == top) break;
    const PointRow* point = has_repeats ? &points.at(row.point) : nullptr;
    if (!row.best || (point != nullptr && !point->value)) continue;
    std::string why;
    auto place = PointOfHparams(experiment.config.at("hyperparameters"),
                                row.hparams, why);
    if (!place || std::ranges::find(found.points, *place) != found.points.end())
      continue;
    found.points.push_back(*std::move(place));
    found.values.push_back(point != nullptr ? *point->value : row.best->value);
    found.trials.push_back(std::move(row));
  }
  return found;
}

// Refuses an experiment whose best trials are not known yet, or are all alike.
void CheckConfirmable(const ExperimentDetail& experiment,
                      const BestPoints& best, const GlobalOptions& globals) {
  const std::string id = std::to_string(experiment.row.id);
  std::string problem;
  if (!IsFinal(experiment.row.state)) {
    const bool runs = experiment.row.state == State::kRunning;
    problem = " is " + std::string(StateName(experiment.row.state)) +
              ", and its best trials may change; confirm them after " +
              CommandFor(globals, (runs ? "wait " : "resume ") + id);
  } else if (best.points.empty()) {
    problem = " has no trial with a finite value of " + experiment.row.metric;
  } else if (best.points.front().empty()) {
    problem = " searches no hyperparameter; train its trial again with " +
              CommandFor(globals, "rerun " + ToString(best.trials.front().id) +
                                      " --repeats 5");
  } else {
    return;
  }
  throw Error(ErrorKind::kUsage,
              "experiment " + id + problem + "; nothing was created");
}

// Returns the configuration that trains these points with seeds of its own.
nlohmann::json ConfirmConfig(const RecordedTrial& trial, const BestPoints& best,
                             std::int64_t repeats) {
  const nlohmann::json& recorded = trial.experiment.config;
  nlohmann::json effective = RerunConfig(trial);
  effective["hyperparameters"] = recorded.at("hyperparameters");
  effective["reproducibility"].erase("trial_seed");
  effective["reproducibility"].erase("experiment_seed");
  nlohmann::json& searcher = effective["searcher"];
  searcher["name"] = "random";
  searcher["max_trials"] = best.points.size();
  searcher["points"] = best.points;
  if (repeats > 1) searcher["repeats"] = repeats;
  const char* at_once = "max_concurrent_trials";
  const nlohmann::json& before = recorded.at("searcher");
  if (before.contains(at_once)) searcher[at_once] = before.at(at_once);
  return effective;
}

int ConfirmBest(const ConfirmOptions& options, RunRequest& request,
                const GlobalOptions& globals) {
  const StoreLayout layout = FindStore(globals);
  DerivedExperiment derived;
  {
    // Closed before the process forks.
    const Store store = Store::OpenForReading(layout);
    const std::int64_t id = ResolveExperiment(store, options.experiment);
    const ExperimentDetail experiment = FindExperimentDetail(store, id);
    const BestPoints best = FindBestPoints(store, experiment, options.top);
    CheckConfirmable(experiment, best, globals);
    const std::string key = FindOverride(options.changes.overrides, "searcher",
                                         {"points", "metric"});
    if (!key.empty()) {
      throw Error(ErrorKind::kUsage,
                  "--set: " + key +
                      " follows from the trials that are trained again; "
                      "nothing was created");
    }
    RequireStoredFiles(experiment);
    const RecordedTrial trial{experiment, best.trials.front(),
                              /*is_example=*/true};
    derived = DeriveExperiment(store, trial,
                               ConfirmConfig(trial, best, options.repeats),
                               ToChanges(options.changes), /*start=*/{},
                               FindingsRecorder(request, globals), globals);
    nlohmann::json& confirms = derived.provenance[kConfirms];
    confirms["experiment"] = id;
    for (std::size_t i = 0; i < best.trials.size(); ++i) {
      confirms["trials"].push_back({{"trial", ToString(best.trials[i].id)},
                                    {"value", JsonNumber(best.values[i])}});
    }
  }
  return RunDerived(layout, derived, request, globals);
}

int Confirm(const ConfirmOptions& options, const GlobalOptions& globals) {
  RunRequest request = CheckRunFlags(options.run, globals);
  return RunOrReport(request, "experiment " + options.experiment,
                     [&] { return ConfirmBest(options, request, globals); });
}

}  // namespace

CommandRun SetUpConfirm(CLI::App& app) {
  auto options = std::make_shared<ConfirmOptions>();
  AddOption(app, "EXP", options->experiment, "Experiment that has ended")
      .Required();
  AddOption(app, "--top", options->top, "Train its N best points again")
      .TypeName("N")
      .AtLeast(1)
      .ShowDefault();
  AddOption(app, "--repeats", options->repeats,
            "Train each N times, with new seeds (searcher.repeats)")
      .TypeName("N")
      .AtLeast(1)
      .ShowDefault();
  AddDeriveFlags(app, options->changes, "experiment");
  AddRunFlags(app, options->run);
  SetHelp(app, {.exits = RunExits(),
                .examples = {{"Which of the three best trials is the best, by "
                              "five more trainings of each?",
                              "dtrain confirm 3"},
                             {"Two of them, ten times",
                              "dtrain confirm 3 --top 2 --repeats 10"}}});
  return RunWith(Confirm, options);
}

CommandRun SetUpRerun(CLI::App& app) {
  auto options = std::make_shared<RerunOptions>();
  AddOption(app, "TRIAL", options->trial, "Trial (3.7)").Required();
  AddOption(app, "--repeats", options->repeats,
            "Train it N times, the first with its seed (searcher.repeats)")
      .TypeName("N")
      .AtLeast(1)
      .ShowDefault();
  AddDeriveFlags(app, options->changes, "trial");
  AddRunFlags(app, options->run);
  SetHelp(app, {.exits = RunExits(),
                .examples = {{"Train it with five seeds",
                              "dtrain rerun 3.7 --repeats 5"},
                             {"Train it with another seed",
                              "dtrain rerun 3.7 --set "
                              "reproducibility.experiment_seed=2"}}});
  return RunWith(Rerun, options);
}

}  // namespace dtrain
