#include <memory>

#include <CLI/CLI.hpp>

#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/output.h"
#include "cli/store_access.h"
#include "engine/base/text.h"
#include "engine/report/format.h"
#include "engine/report/json_view.h"

namespace dtrain {
namespace {

struct CheckpointsOptions : TableOptions {
  std::string target;
  bool deleted = false;
};

int ListCheckpoints(const CheckpointsOptions& options,
                    const GlobalOptions& globals) {
  const Store store = OpenStore(globals);
  const Target target = ParseTarget(options.target);
  FindTarget(store, target);
  auto rows = store.Checkpoints(target.experiment, options.deleted);
  std::erase_if(rows, [&](const CheckpointRow& row) {
    return target.trial && row.trial.number != *target.trial;
  });
  const StoreLayout& layout = store.layout();
  if (options.json) {
    nlohmann::json array = nlohmann::json::array();
    for (const CheckpointRow& row : rows) {
      const auto path = layout.Checkpoint(row.trial, row.uuid);
      array.push_back(CheckpointJson(row, path.string()));
    }
    PrintJson({{"checkpoints", std::move(array)}});
    return kExitDone;
  }
  Table table({{.name = "uuid"},
               {.name = "trial", .right = true},
               {.name = "state"},
               {.name = "batches", .right = true},
               {.name = "epoch", .right = true},
               {.name = "bytes", .right = true},
               {.name = "metric", .right = true},
               {.name = "time"}});
  for (const CheckpointRow& row : rows) {
    table.AddRow({row.uuid, ToString(row.trial), row.state,
                  std::to_string(row.batches),
                  Cell(FormatMetric(row.epoch), FormatNumber(row.epoch)),
                  Cell(FormatBytes(row.bytes), std::to_string(row.bytes)),
                  Cell(row.metric ? FormatMetric(*row.metric) : "-",
                       row.metric ? FormatNumber(*row.metric) : ""),
                  Cell(FormatTime(row.time), FormatTimestamp(row.time))});
  }
  PrintTable(table, options.format(), globals);
  return kExitDone;
}

}  // namespace

void SetUpCheckpoints(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<CheckpointsOptions>();
  app.add_option("EXP", options->target, "Experiment, or trial as EXP.N")
      ->required();
  app.add_flag("--deleted", options->deleted, "Deleted ones too");
  AddTableOptions(app, *options);
  app.callback([options, &invocation] {
    invocation.run = [options, &invocation] {
      return ListCheckpoints(*options, invocation.globals);
    };
  });
}

}  // namespace dtrain
