#include <algorithm>
#include <map>
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

struct TrialsOptions : TableOptions {
  std::string experiment;
  std::string sort;
  std::size_t limit = 0;
};

Cell BestCell(const std::optional<BestValidation>& best) {
  return {best ? FormatMetric(best->value) : "-",
          best ? FormatNumber(best->value) : ""};
}

std::vector<Cell> Row(const TrialRow& row, const nlohmann::json& space,
                      Timestamp now) {
  const double seconds = ElapsedSeconds(row, now);
  const std::string state(StateName(row.state));
  return {ToString(row.id),
          Cell(state, state, ToneOf(row.state)),
          std::to_string(row.batches),
          std::to_string(row.rung),
          BestCell(row.best),
          BestCell(row.latest),
          std::to_string(row.restarts),
          Cell(row.pid == 0 ? "-" : std::to_string(row.pid),
               row.pid == 0 ? "" : std::to_string(row.pid)),
          Cell(FormatSeconds(seconds), FormatNumber(seconds)),
          Cell(FormatHparams(SearchedHparams(space, row.hparams)),
               DumpJson(row.hparams)),
          row.reason};
}

int Trials(const TrialsOptions& options, const GlobalOptions& globals) {
  const Timestamp now = Clock::System().now();
  const Store store = OpenStore(globals);
  const ExperimentDetail detail =
      FindExperimentDetail(store, ParseExperimentId(options.experiment));
  auto rows = ListTrials(store, detail.row);
  if (!options.sort.empty()) {
    SortByMetric(store, detail.row, options.sort, rows);
  }
  if (options.limit > 0 && rows.size() > options.limit) {
    rows.erase(rows.begin() + static_cast<std::ptrdiff_t>(options.limit),
               rows.end());
  }
  if (options.json) {
    nlohmann::json array = nlohmann::json::array();
    for (const TrialRow& row : rows) {
      array.push_back(
          TrialJson(row, detail.row.metric, ElapsedSeconds(row, now)));
    }
    PrintJson({{"trials", std::move(array)}});
    return kExitDone;
  }
  Table table({{.name = "id", .right = true},
               {.name = "state"},
               {.name = "batches", .right = true},
               {.name = "rung", .right = true},
               {.name = "best", .right = true},
               {.name = "latest", .right = true},
               {.name = "restarts", .right = true},
               {.name = "pid", .right = true},
               {.name = "duration", .right = true},
               {.name = "hparams", .elastic = true},
               {.name = "reason", .elastic = true}});
  const nlohmann::json space =
      detail.config.value("hyperparameters", nlohmann::json::object());
  for (const TrialRow& row : rows) table.AddRow(Row(row, space, now));
  PrintTable(table, options.format(), globals);
  return kExitDone;
}

}  // namespace

void SetUpTrials(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<TrialsOptions>();
  app.add_option("EXP", options->experiment, "Experiment")->required();
  app.add_option("--sort", options->sort, "Metric to sort by, best first");
  app.add_option("--limit", options->limit, "At most so many (0: all)")
      ->check(WholeNumber(0))
      ->capture_default_str();
  AddTableOptions(app, *options);
  app.callback([options, &invocation] {
    invocation.run = [options, &invocation] {
      return Trials(*options, invocation.globals);
    };
  });
}

}  // namespace dtrain
