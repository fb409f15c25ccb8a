#include <memory>

#include <CLI/CLI.hpp>

#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/output.h"
#include "cli/store_access.h"
#include "cli/trial_order.h"
#include "cli/validators.h"
#include "engine/base/text.h"
#include "engine/report/format.h"
#include "engine/report/json_view.h"

namespace dtrain {
namespace {

struct BestOptions : TableOptions {
  std::string experiment;
  std::size_t count = 1;
};

nlohmann::json BestTrialJson(const TrialRow& row, const std::string& metric,
                             const StoreLayout& layout) {
  nlohmann::json json = BestJson(row.best, metric, row.id);
  const std::string& checkpoint = row.best->checkpoint;
  json["hparams"] = row.hparams;
  json["path"] = nullptr;
  if (!checkpoint.empty()) {
    json["path"] = layout.Checkpoint(row.id, checkpoint).string();
  }
  return json;
}

// The trials that have a best validation, best first, at most `count`.
std::vector<TrialRow> BestTrials(const Store& store, const ExperimentRow& row,
                                 std::size_t count) {
  auto trials = ListTrials(store, row);
  std::erase_if(trials, [](const TrialRow& trial) { return !trial.best; });
  SortByMetric(store, row, row.metric, trials);
  while (trials.size() > count) trials.pop_back();
  return trials;
}

std::vector<Cell> Row(const TrialRow& row, const ExperimentDetail& detail) {
  const nlohmann::json space =
      detail.config.value("hyperparameters", nlohmann::json::object());
  return {ToString(row.id),
          detail.row.metric,
          Cell(FormatMetric(row.best->value), FormatNumber(row.best->value)),
          std::to_string(row.best->batches),
          row.best->checkpoint,
          Cell(FormatHparams(SearchedHparams(space, row.hparams)),
               DumpJson(row.hparams))};
}

int Best(const BestOptions& options, const GlobalOptions& globals) {
  const Store store = OpenStore(globals);
  const ExperimentDetail detail =
      FindExperimentDetail(store, ParseExperimentId(options.experiment));
  const auto rows = BestTrials(store, detail.row, options.count);
  if (options.json) {
    nlohmann::json array = nlohmann::json::array();
    for (const TrialRow& row : rows) {
      array.push_back(BestTrialJson(row, detail.row.metric, store.layout()));
    }
    PrintJson({{"experiment", detail.row.id},
               {"metric", detail.row.metric},
               {"best", std::move(array)}});
    return kExitDone;
  }
  if (rows.empty()) {
    Say(globals, "experiment " + options.experiment + " has no validation of " +
                     detail.row.metric + " yet");
  }
  Table table({{.name = "trial", .right = true},
               {.name = "metric"},
               {.name = "value", .right = true},
               {.name = "batches", .right = true},
               {.name = "checkpoint"},
               {.name = "hparams", .elastic = true}});
  for (const TrialRow& row : rows) table.AddRow(Row(row, detail));
  PrintTable(table, options.format(), globals);
  return kExitDone;
}

}  // namespace

void SetUpBest(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<BestOptions>();
  app.add_option("EXP", options->experiment, "Experiment")->required();
  app.add_option("-n", options->count, "How many trials")
      ->check(WholeNumber(1))
      ->capture_default_str();
  AddTableOptions(app, *options);
  app.callback([options, &invocation] {
    invocation.run = [options, &invocation] {
      return Best(*options, invocation.globals);
    };
  });
}

}  // namespace dtrain
