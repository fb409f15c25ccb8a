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
#include "cli/export_tables.h"
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
  std::vector<std::string> experiments;
  std::string sort;
  bool reverse = false;
  std::size_t limit = 0;
};

// Returns the trials that --filter, --sort and --limit select, with all parts.
std::vector<TrialRow> SelectTrials(const TrialsOptions& options,
                                   const ExperimentGroup& group,
                                   const RowNames& names, JointFields& fields,
                                   const GlobalOptions& globals) {
  const Filter filter = ParseFilter(options, names);
  const auto keys = ParseTrialKeys(options.sort, options.reverse, names,
                                   group.first().row, fields, globals);
  auto rows = group.ListTrials(fields.parts());
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
  return group.WithAllParts(rows);
}

Cell BestCell(const std::optional<BestValidation>& best) {
  return {best ? FormatMetric(best->value) : "-",
          best ? FormatNumber(best->value) : ""};
}

std::vector<Cell> Row(const TrialRow& row, const SlotWait* wait,
                      const ExperimentGroup& group, Timestamp now) {
  const double seconds = ElapsedSeconds(row, now);
  const std::string state(StateName(row.state));
  std::vector<Cell> cells = {
      ToString(row.id),
      Cell(StateText(row.state, wait), state, ChooseTone(row.state)),
      HparamsCell(group.space(), row.hparams),
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
  group.AddRepeatCells(row, cells);
  return cells;
}

Listing<TrialRow> TrialListing(const ExperimentGroup& group,
                               const SlotQueueView& queue, Format format,
                               Timestamp now) {
  Listing<TrialRow> listing = {
      .name = "trials",
      .columns =
          {{.name = "id", .right = true},
           {.name = "state"},
           {.name = "hparams", .elastic = true, .least = 24},
           {.name = "best", .right = true},
           {.name = "rung", .right = true},
           {.name = group.CountHeader(format), .right = true, .optional = true},
           {.name = "reason", .elastic = true, .least = 16, .optional = true},
           {.name = "duration", .right = true, .optional = true},
           {.name = "latest", .right = true, .optional = true},
           {.name = "restarts", .right = true, .optional = true},
           {.name = "pid", .right = true, .optional = true},
           {.name = "slots", .elastic = true, .optional = true}},
      .json =
          [&group, &queue, now](const TrialRow& row) {
            nlohmann::json json =
                TrialJson(row, group.metric(), ElapsedSeconds(row, now),
                          queue.FindWait(row));
            AddLength(group.counted(row.id), json);
            return json;
          },
      .cells =
          [&group, &queue, now](const TrialRow& row) {
            return Row(row, queue.FindWait(row), group, now);
          }};
  group.AddRepeatColumns(listing.columns);
  return listing;
}

// Adds the columns that only CSV has.
void AddCsvColumns(const std::vector<TrialRow>& rows,
                   const ExperimentGroup& group, Listing<TrialRow>& listing) {
  AddHparamColumns(
      rows, group.space(), [](const TrialRow& row) { return row.hparams; },
      listing);
  AddLengthColumns(
      [](const TrialRow& row) { return row.batches; },
      [&group](const TrialRow& row) { return group.counted(row.id); }, listing);
}

int Trials(const TrialsOptions& options, const GlobalOptions& globals) {
  const Timestamp now = Clock::System().now();
  const Store store = OpenStore(globals);
  const ExperimentGroup group(store, options.experiments);
  const Format format = options.format();
  JointFields fields(store, group.all(), now, DrawsUtf8(options, globals));
  const RowNames names = MakeRowNames(fields);
  const auto columns = ParseColumns(options, names);
  const auto rows = SelectTrials(options, group, names, fields, globals);
  for (const std::string& note : fields.notes())
    PrintNotice(globals, "note: " + note);
  group.PrintUnits(globals);
  const SlotQueueView queue(store);
  auto listing = TrialListing(group, queue, format, now);
  const auto hparams_of = [](const TrialRow& row) { return row.hparams; };
  if (options.csv) AddCsvColumns(rows, group, listing);
  if (format == Format::kText) {
    SplitHparams(HparamColumns(group.space()), hparams_of, listing);
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

std::int64_t WriteTrials(const Store& store,
                         const std::vector<std::string>& words, Format format,
                         const WriteText& write) {
  const Timestamp now = Clock::System().now();
  const ExperimentGroup group(store, words);
  const auto rows = group.ListTrials({});
  const SlotQueueView queue(store);
  auto listing = TrialListing(group, queue, format, now);
  const std::string goal = group.smaller_is_better() ? "minimize" : "maximize";
  if (format == Format::kJson) {
    for (const TrialRow& row : rows) {
      nlohmann::json document = listing.json(row);
      document["search.metric"] = group.metric();
      document["search.goal"] = goal;
      write(DumpJson(document, /*indent=*/-1, /*terminal=*/false) + "\n");
    }
    return std::ssize(rows);
  }
  // Each hyperparameter has a column of its own.
  const auto at = std::ranges::find(listing.columns, "hparams", &Column::name) -
                  listing.columns.begin();
  listing.columns.erase(listing.columns.begin() + at);
  listing.cells = [at, all = std::move(listing.cells)](const TrialRow& row) {
    std::vector<Cell> cells = all(row);
    cells.erase(cells.begin() + at);
    return cells;
  };
  AddCsvColumns(rows, group, listing);
  std::vector<std::string> fields;
  for (const Column& column : listing.columns) fields.push_back(column.name);
  fields.insert(fields.end(), {"search.metric", "search.goal"});
  write(CsvLine(fields));
  for (const TrialRow& row : rows) {
    fields.clear();
    for (const Cell& cell : listing.cells(row)) fields.push_back(cell.raw);
    fields.insert(fields.end(), {group.metric(), goal});
    write(CsvLine(fields));
  }
  return std::ssize(rows);
}

CommandRun SetUpTrials(CLI::App& app) {
  auto options = std::make_shared<TrialsOptions>();
  AddOption(app, "EXP", options->experiments,
            "Experiments with one metric (3 5 7-9)")
      .Required();
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
