#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/listing.h"
#include "cli/output.h"
#include "cli/store_access.h"
#include "cli/trial_order.h"
#include "engine/base/json.h"
#include "engine/base/text.h"
#include "engine/report/format.h"
#include "engine/report/json_view.h"

namespace dtrain {
namespace {

struct BestOptions : TableOptions {
  std::string experiment;
  std::size_t count = 1;
};

// A trial, and the best of its checkpoints.
struct ListedTrial {
  TrialRow row;
  std::optional<CheckpointRow> saved;
  std::string storage;  // of the checkpoint of its best validation
};

nlohmann::json SavedJson(const std::optional<CheckpointRow>& saved,
                         const Store& store) {
  if (!saved) return nullptr;
  return {{"checkpoint", saved->uuid},
          {"batches", saved->batches},
          {"value", JsonNumber(*saved->metric)},
          {"path", store.PathOf(*saved).string()}};
}

nlohmann::json BestTrialJson(const ListedTrial& trial,
                             const std::string& metric, const Store& store) {
  const TrialRow& row = trial.row;
  nlohmann::json json = BestJson(row.best, metric, row.id);
  const std::string& checkpoint = row.best->checkpoint;
  json["hparams"] = row.hparams;
  json["state"] = StateName(row.state);
  json["rung"] = row.rung;
  json["reason"] =
      row.reason.empty() ? nlohmann::json(nullptr) : nlohmann::json(row.reason);
  json["path"] = nullptr;
  if (!checkpoint.empty()) {
    json["path"] =
        (store.CheckpointsOf(row.id, trial.storage) / checkpoint).string();
  }
  json["best_saved"] = SavedJson(trial.saved, store);
  return json;
}

// The trials that have a best validation, best first, at most `count`.
std::vector<ListedTrial> BestTrials(const Store& store,
                                    const ExperimentRow& row,
                                    std::size_t count) {
  auto trials = ListTrials(store, row);
  std::erase_if(trials, [](const TrialRow& trial) { return !trial.best; });
  SortTrials(store, row, "best", trials);
  KeepFirst(count, trials);
  const auto checkpoints = store.Checkpoints(row.id);
  std::vector<ListedTrial> best;
  for (TrialRow& trial : trials) {
    auto saved = BestSavedCheckpoint(checkpoints, row, trial.id.number);
    const auto there = std::ranges::find(checkpoints, trial.best->checkpoint,
                                         &CheckpointRow::uuid);
    best.push_back(
        {.row = std::move(trial),
         .saved = std::move(saved),
         .storage = there == checkpoints.end() ? "" : there->storage});
  }
  return best;
}

std::vector<Cell> Row(const ListedTrial& trial,
                      const ExperimentDetail& detail) {
  const TrialRow& row = trial.row;
  const nlohmann::json space =
      detail.config.value("hyperparameters", nlohmann::json::object());
  const std::string state(StateName(row.state));
  return {ToString(row.id),
          Cell(FormatMetric(row.best->value), FormatNumber(row.best->value)),
          HparamsCell(space, row.hparams),
          std::to_string(row.rung),
          Cell(state, state, ToneOf(row.state)),
          row.best->checkpoint,
          std::to_string(row.best->batches),
          row.reason,
          detail.row.metric};
}

Listing<ListedTrial> BestListing(const ExperimentDetail& detail,
                                 const Store& store,
                                 const std::string& counted) {
  return {
      .name = "best",
      .columns = {{.name = "trial", .right = true},
                  {.name = "value", .right = true},
                  {.name = "hparams", .elastic = true, .least = 24},
                  {.name = "rung", .right = true},
                  {.name = "state"},
                  {.name = "checkpoint", .elastic = true, .least = 9},
                  {.name = counted, .right = true, .optional = true},
                  {.name = "reason", .elastic = true, .least = 24},
                  {.name = "metric", .optional = true}},
      .json =
          [&detail, &store](const ListedTrial& trial) {
            return BestTrialJson(trial, detail.row.metric, store);
          },
      .cells =
          [&detail](const ListedTrial& trial) { return Row(trial, detail); }};
}

int Best(const BestOptions& options, const GlobalOptions& globals) {
  const Store store = OpenStore(globals);
  const ExperimentDetail detail =
      FindExperimentDetail(store, ParseExperimentId(options.experiment));
  const auto rows = BestTrials(store, detail.row, options.count);
  if (rows.empty() && !options.json) {
    Say(globals, "experiment " + options.experiment +
                     " has no finite validation value of " + detail.row.metric +
                     (IsFinal(detail.row.state) ? "" : " so far"));
  }
  const std::string counted =
      CountColumn(store, detail.row.id, options.format());
  PrintListing(BestListing(detail, store, counted), rows, options.format(),
               globals,
               {{"experiment", detail.row.id}, {"metric", detail.row.metric}});
  const Unit unit = CountedUnit(store, detail.row.id);
  for (const ListedTrial& trial : rows) {
    if (!trial.row.best->checkpoint.empty()) continue;
    Say(globals, "note: " + NoBestCheckpointText(trial.row, detail.row,
                                                 trial.saved, unit));
  }
  return kExitDone;
}

}  // namespace

CommandRun SetUpBest(CLI::App& app) {
  auto options = std::make_shared<BestOptions>();
  AddOption(app, "EXP", options->experiment, "Experiment ID (3)").Required();
  AddOption(app, "-n", options->count, "Show at most N trials")
      .TypeName("N")
      .AtLeast(1)
      .ShowDefault();
  AddTableOptions(app, *options);
  SetHelp(app, {.exits = ReaderExits(),
                .examples = {{"Show the best trial", "dtrain best 3"},
                             {"Write the five best trials to a CSV file",
                              "dtrain best 3 -n 5 --csv > best.csv"}}});
  return RunWith(Best, options);
}

}  // namespace dtrain
