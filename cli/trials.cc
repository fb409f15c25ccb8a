#include <memory>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/listing.h"
#include "cli/output.h"
#include "cli/store_access.h"
#include "cli/trial_order.h"
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

std::vector<Cell> Row(const TrialRow& row, const SlotWait* wait,
                      const nlohmann::json& space, Timestamp now) {
  const double seconds = ElapsedSeconds(row, now);
  const std::string state(StateName(row.state));
  return {ToString(row.id),
          Cell(StateText(row.state, wait), state, ToneOf(row.state)),
          HparamsCell(space, row.hparams),
          BestCell(row.best),
          std::to_string(row.rung),
          std::to_string(row.batches),
          row.reason,
          Cell(FormatSeconds(seconds), FormatNumber(seconds)),
          BestCell(row.latest),
          std::to_string(row.restarts),
          Cell(row.pid == 0 ? "-" : std::to_string(row.pid),
               row.pid == 0 ? "" : std::to_string(row.pid))};
}

Listing<TrialRow> TrialListing(const ExperimentDetail& detail,
                               const SlotQueueView& queue,
                               const std::string& counted, Timestamp now) {
  const nlohmann::json space =
      detail.config.value("hyperparameters", nlohmann::json::object());
  return {.name = "trials",
          .columns = {{.name = "id", .right = true},
                      {.name = "state"},
                      {.name = "hparams", .elastic = true, .least = 24},
                      {.name = "best", .right = true},
                      {.name = "rung", .right = true},
                      {.name = counted, .right = true, .optional = true},
                      {.name = "reason", .elastic = true, .least = 32},
                      {.name = "duration", .right = true, .optional = true},
                      {.name = "latest", .right = true, .optional = true},
                      {.name = "restarts", .right = true, .optional = true},
                      {.name = "pid", .right = true, .optional = true}},
          .json =
              [&queue, now, metric = detail.row.metric](const TrialRow& row) {
                return TrialJson(row, metric, ElapsedSeconds(row, now),
                                 queue.WaitOf(row));
              },
          .cells =
              [&queue, now, space](const TrialRow& row) {
                return Row(row, queue.WaitOf(row), space, now);
              }};
}

int Trials(const TrialsOptions& options, const GlobalOptions& globals) {
  const Store store = OpenStore(globals);
  const ExperimentDetail detail =
      FindExperimentDetail(store, ParseExperimentId(options.experiment));
  auto rows = ListTrials(store, detail.row);
  if (!options.sort.empty()) {
    SortTrials(store, detail.row, options.sort, rows);
  }
  KeepFirst(options.limit, rows);
  const SlotQueueView queue(store);
  const std::string counted =
      CountColumn(store, detail.row.id, options.format());
  PrintListing(TrialListing(detail, queue, counted, Clock::System().now()),
               rows, options.format(), globals);
  return kExitDone;
}

}  // namespace

CommandRun SetUpTrials(CLI::App& app) {
  auto options = std::make_shared<TrialsOptions>();
  AddOption(app, "EXP", options->experiment, "Experiment ID (3)").Required();
  AddOption(app, "--sort", options->sort,
            "Sort by best, rung or a metric (default: by number)")
      .TypeName("KEY");
  AddOption(app, "--limit", options->limit, "Show at most N (0: all)")
      .TypeName("N")
      .AtLeast(0)
      .ShowDefault();
  AddTableOptions(app, *options);
  SetHelp(app, {.exits = ReaderExits(),
                .examples = {{"List the ten best trials",
                              "dtrain trials 3 --sort best --limit 10"},
                             {"Write all trials to a CSV file",
                              "dtrain trials 3 --csv > trials.csv"}}});
  return RunWith(Trials, options);
}

}  // namespace dtrain
