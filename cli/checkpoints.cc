#include <cstddef>
#include <memory>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/selection.h"
#include "engine/app/stores.h"
#include "engine/base/text.h"
#include "engine/report/format.h"
#include "engine/report/json_view.h"

namespace dtrain {
namespace {

struct CheckpointsOptions : TableOptions {
  std::string target;
  bool deleted = false;
};

std::vector<Cell> Row(const CheckpointRow& row, bool knows_epochs) {
  return {row.uuid,
          ToString(row.trial),
          row.state,
          std::to_string(row.batches),
          Cell(knows_epochs ? FormatMetric(row.epoch) : "-",
               FormatNumber(row.epoch)),
          Cell(FormatBytes(row.bytes), std::to_string(row.bytes)),
          Cell(row.metric ? FormatMetric(*row.metric) : "-",
               row.metric ? FormatNumber(*row.metric) : ""),
          Cell(FormatTime(row.time), FormatTimestamp(row.time))};
}

Listing<CheckpointRow> CheckpointListing(const Store& store, Unit counted,
                                         bool knows_epochs, Format format) {
  Listing<CheckpointRow> listing = {
      .name = "checkpoints",
      .columns = {{.name = "uuid", .elastic = true, .least = 36},
                  {.name = "trial", .right = true},
                  {.name = "state"},
                  {.name = CountColumn(counted, format), .right = true},
                  {.name = "epoch", .right = true, .optional = true},
                  {.name = "bytes", .right = true},
                  {.name = "metric", .right = true},
                  {.name = "time", .optional = true}},
      .json =
          [&store, counted](const CheckpointRow& row) {
            nlohmann::json json =
                CheckpointJson(row, store.CheckpointPath(row).string());
            AddLength(counted, json);
            return json;
          },
      .cells =
          [knows_epochs](const CheckpointRow& row) {
            return Row(row, knows_epochs);
          }};
  if (format == Format::kText && counted == Unit::kEpochs) {
    // The column before it has the epochs.
    constexpr std::ptrdiff_t kEpoch = 4;
    listing.columns.erase(listing.columns.begin() + kEpoch);
    listing.cells = [](const CheckpointRow& row) {
      std::vector<Cell> cells = Row(row, /*knows_epochs=*/true);
      cells.erase(cells.begin() + kEpoch);
      return cells;
    };
  }
  if (format == Format::kCsv) {
    AddLengthColumns([](const CheckpointRow& row) { return row.batches; },
                     [counted](const CheckpointRow&) { return counted; },
                     listing);
  }
  return listing;
}

int ListCheckpoints(const CheckpointsOptions& options,
                    const GlobalOptions& globals) {
  const Store store = OpenStore(globals);
  const Target target = ResolveTarget(store, options.target);
  FindTarget(store, target);
  auto rows = store.Checkpoints(target.experiment, options.deleted);
  std::erase_if(rows, [&](const CheckpointRow& row) {
    return target.trial && row.trial.number != *target.trial;
  });
  const Unit counted = CountedUnit(store, target.experiment);
  const bool knows_epochs = KnowsEpochs(store, target.experiment);
  PrintListing(
      CheckpointListing(store, counted, knows_epochs, options.format()), rows,
      options.format(), globals);
  return kExitDone;
}

}  // namespace

CommandRun SetUpCheckpoints(CLI::App& app) {
  auto options = std::make_shared<CheckpointsOptions>();
  AddOption(app, "EXP", options->target, "Experiment (3) or trial (3.7)")
      .Completes(ValueKind::kTarget)
      .Required();
  AddFlag(app, "--deleted", options->deleted, "Include deleted checkpoints");
  AddTableOptions(app, *options);
  SetHelp(app, {.exits = ReaderExits(),
                .examples = {{"List the checkpoints of a trial",
                              "dtrain checkpoints 3.7"},
                             {"List deleted ones, too, as CSV",
                              "dtrain checkpoints 3 --deleted --csv"}}});
  return RunWith(ListCheckpoints, options);
}

}  // namespace dtrain
