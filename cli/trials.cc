// Reading is in two passes, because a search may have many thousands of trials:
// first the parts that --filter and --sort need of all trials, then, of the
// ones to be shown, everything (WithAllParts).

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/selection.h"
#include "engine/app/stores.h"
#include "engine/app/trial_fields.h"
#include "engine/base/text.h"
#include "engine/report/format.h"
#include "engine/report/json_view.h"
#include "engine/slots/slots.h"

namespace dtrain {
namespace {

struct TrialsOptions : SelectionOptions {
  std::string experiment;
  std::string sort;
  bool reverse = false;
  std::size_t limit = 0;
};

// Returns the trials that --filter, --sort and --limit select, with all parts.
std::vector<TrialRow> SelectTrials(const TrialsOptions& options,
                                   const Store& store,
                                   const ExperimentDetail& detail,
                                   const RowNames& names, TrialFields& fields,
                                   const GlobalOptions& globals) {
  const Filter filter = ParseFilter(options, names);
  const auto keys = ParseTrialKeys(options.sort, options.reverse, names,
                                   detail.row, fields, globals);
  auto rows = ListTrials(store, detail.row, fields.parts());
  std::erase_if(rows, [&](const TrialRow& row) {
    return !filter.Matches(
        [&](const FieldName& field) { return fields.GetValue(row, field); });
  });
  if (!keys.empty()) {
    SortRows(
        keys, options.reverse,
        [&](const TrialRow& row, const FieldName& field) {
          return fields.GetValue(row, field);
        },
        rows);
  } else if (options.reverse) {
    std::ranges::reverse(rows);
  }
  KeepFirst(options.limit, rows);
  return WithAllParts(store, detail.row, rows);
}

Cell BestCell(const std::optional<BestValidation>& best) {
  return {best ? FormatMetric(best->value) : "-",
          best ? FormatNumber(best->value) : ""};
}

std::vector<Cell> Row(const TrialRow& row, const SlotWait* wait,
                      const nlohmann::json& space, Timestamp now) {
  const double seconds = ElapsedSeconds(row, now);
  const std::string state(StateName(row.state));
  return {ToString(row.id),
          Cell(StateText(row.state, wait), state, ChooseTone(row.state)),
          HparamsCell(space, row.hparams),
          BestCell(row.best),
          std::to_string(row.rung),
          std::to_string(row.batches),
          row.reason,
          Cell(FormatSeconds(seconds), FormatNumber(seconds)),
          BestCell(row.latest),
          std::to_string(row.restarts),
          Cell(row.pid == 0 ? "-" : std::to_string(row.pid),
               row.pid == 0 ? "" : std::to_string(row.pid)),
          Cell(SlotsText(row.slots), row.slots)};
}

Listing<TrialRow> TrialListing(const ExperimentDetail& detail,
                               const SlotQueueView& queue, Unit counted,
                               Format format, Timestamp now) {
  const nlohmann::json space =
      detail.config.value("hyperparameters", nlohmann::json::object());
  return {.name = "trials",
          .columns = {{.name = "id", .right = true},
                      {.name = "state"},
                      {.name = "hparams", .elastic = true, .least = 24},
                      {.name = "best", .right = true},
                      {.name = "rung", .right = true},
                      {.name = CountColumn(counted, format),
                       .right = true,
                       .optional = true},
                      {.name = "reason",
                       .elastic = true,
                       .least = 16,
                       .optional = true},
                      {.name = "duration", .right = true, .optional = true},
                      {.name = "latest", .right = true, .optional = true},
                      {.name = "restarts", .right = true, .optional = true},
                      {.name = "pid", .right = true, .optional = true},
                      {.name = "slots", .elastic = true, .optional = true}},
          .json =
              [&queue, now, counted,
               metric = detail.row.metric](const TrialRow& row) {
                nlohmann::json json = TrialJson(
                    row, metric, ElapsedSeconds(row, now), queue.FindWait(row));
                AddLength(counted, json);
                return json;
              },
          .cells =
              [&queue, now, space](const TrialRow& row) {
                return Row(row, queue.FindWait(row), space, now);
              }};
}

int Trials(const TrialsOptions& options, const GlobalOptions& globals) {
  const Timestamp now = Clock::System().now();
  const Store store = OpenStore(globals);
  const ExperimentDetail detail =
      FindExperimentDetail(store, ResolveExperiment(store, options.experiment));
  const Format format = options.format();
  TrialFields fields(store, detail, now, DrawsUtf8(options, globals));
  const RowNames names = MakeRowNames(fields);
  const auto columns = ParseColumns(options, names);
  const auto rows =
      SelectTrials(options, store, detail, names, fields, globals);
  for (const std::string& note : fields.notes())
    PrintNotice(globals, "note: " + note);
  const SlotQueueView queue(store);
  const Unit counted = CountedUnit(store, detail.row.id);
  auto listing = TrialListing(detail, queue, counted, format, now);
  const auto hparams_of = [](const TrialRow& row) { return row.hparams; };
  if (options.csv) {
    AddHparamColumns(
        rows, detail.config.value("hyperparameters", nlohmann::json::object()),
        hparams_of, listing);
    AddLengthColumns(
        counted, [](const TrialRow& row) { return row.batches; }, listing);
  }
  if (format == Format::kText) {
    SplitHparams(HparamColumns(detail.config), hparams_of, listing);
  }
  SelectColumns(
      columns,
      [&fields](const TrialRow& row, const FieldName& field) {
        return fields.GetValue(row, field);
      },
      now, listing);
  PrintListing(listing, rows, format, globals);
  return kExitDone;
}

}  // namespace

CommandRun SetUpTrials(CLI::App& app) {
  auto options = std::make_shared<TrialsOptions>();
  AddOption(app, "EXP", options->experiment, "Experiment ID (3)").Required();
  AddOption(app, "--sort", options->sort,
            "Sort by best, rung, a metric or column; -NAME: largest first "
            "(default: by number)")
      .TypeName("NAMES")
      .Suggests({"best", "rung"})
      .Completes(ValueKind::kField);
  AddFlag(app, "--reverse", options->reverse, "Reverse the order");
  AddOption(app, "--limit", options->limit, "Show at most N (0: all)")
      .TypeName("N")
      .AtLeast(0)
      .ShowDefault();
  AddSelectionOptions(app, *options, "loss < 0.1 and hp.lr > 1e-3");
  AddTableOptions(app, *options);
  SetHelp(app, {.exits = ReaderExits(),
                .examples = {{"List the ten best trials",
                              "dtrain trials 3 --sort best --limit 10"},
                             {"Write all trials to a CSV file",
                              "dtrain trials 3 --csv > trials.csv"}}});
  return RunWith(Trials, options);
}

}  // namespace dtrain
