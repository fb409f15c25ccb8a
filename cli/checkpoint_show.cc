#include <iostream>
#include <memory>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/output.h"
#include "cli/store_access.h"
#include "engine/base/text.h"
#include "engine/report/format.h"
#include "engine/report/json_view.h"

namespace dtrain {
namespace {

struct ShowOptions : JsonOption {
  std::string uuid;
};

int Show(const ShowOptions& options, const GlobalOptions& globals) {
  const Store store = OpenStore(globals);
  const CheckpointRow row = store.CheckpointByPrefix(options.uuid);
  const std::string path = store.PathOf(row).string();
  if (options.json) {
    PrintJson(CheckpointJson(row, path));
    return kExitDone;
  }
  std::cout << "checkpoint " << EscapeForTerminal(row.uuid) << '\n';
  PrintFact("trial", ToString(row.trial));
  PrintFact("state", row.state);
  PrintFact(CountColumn(store, row.trial.experiment, Format::kText),
            std::to_string(row.batches));
  PrintFact("epoch", FormatMetric(row.epoch));
  PrintFact("size", FormatBytes(row.bytes));
  PrintFact("metric", row.metric ? FormatMetric(*row.metric) : "-");
  PrintFact("saved", FormatTime(row.time));
  PrintFact("directory", path);
  std::cout << "\nfiles and their SHA-256\n";
  for (const auto& [name, sum] : row.files.items()) {
    std::string label = "  " + EscapeForTerminal(name);
    label.resize(std::max<std::size_t>(label.size() + 2, 26), ' ');
    std::cout << label << EscapeForTerminal(FormatValue(sum)) << '\n';
  }
  return kExitDone;
}

}  // namespace

CommandRun SetUpCheckpointShow(CLI::App& app) {
  auto options = std::make_shared<ShowOptions>();
  AddOption(app, "UUID", options->uuid,
            "Checkpoint ID, or its first 4 or more characters")
      .Required();
  AddJsonOption(app, *options);
  SetHelp(app, {.exits = ReaderExits(),
                .examples = {
                    {"Show where a checkpoint is stored",
                     "dtrain checkpoint show 0a1b2c3d"},
                    {"Print its directory in a script",
                     "dtrain checkpoint show 0a1b2c3d --json | jq -r .path"}}});
  return RunWith(Show, options);
}

}  // namespace dtrain
