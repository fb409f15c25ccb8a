// `dtrain list`: the experiments of a store.
//
// Rows are filtered, sorted and then limited, in this order. The list itself
// reads one table; hyperparameters and metrics, which --filter, --sort and
// --columns may name, are read from others when they are first used. For equal
// keys the order is that of ids; --reverse reverses equal rows, too.

#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <utility>

#include <unistd.h>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/selection.h"
#include "engine/app/experiment_fields.h"
#include "engine/app/stores.h"
#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/report/format.h"
#include "engine/report/json_view.h"
#include "engine/slots/slots.h"

namespace dtrain {
namespace {

struct ListOptions : SelectionOptions {
  bool all = false;
  std::string state;
  std::vector<std::string> labels;
  std::string sort = "id";
  bool reverse = false;
  std::optional<std::int64_t> limit;

  bool by_id() const { return sort == "id" && !reverse; }
};

constexpr std::size_t kTerminalRows = 20;  // without --limit

// Keeps the experiments that --state, --label and --filter select.
void Select(const ListOptions& options, const RowNames& names,
            ExperimentFields& fields, std::vector<ExperimentRow>& rows) {
  std::optional<State> state;
  if (!options.state.empty()) state = StateFromName(options.state);
  Filter filter;
  if (!options.filter.empty()) {
    filter =
        Filter::ParseWithPlainNames(options.filter, names.context("--filter"));
  }
  std::erase_if(rows, [&](const ExperimentRow& row) {
    const bool labelled =
        std::ranges::all_of(options.labels, [&](const std::string& label) {
          return std::ranges::count(row.labels, label) > 0;
        });
    return (state && row.state != *state) || !labelled ||
           !filter.Matches([&](const FieldName& field) {
             return fields.GetValue(row, field);
           });
  });
}

void Sort(const ListOptions& options, const RowNames& names,
          ExperimentFields& fields, std::vector<ExperimentRow>& rows) {
  if (options.reverse) std::ranges::reverse(rows);  // equal ones too
  SortRows(
      ParseSortKeys(options.sort, names.context("--sort")), options.reverse,
      [&](const ExperimentRow& row, const FieldName& field) {
        return fields.GetValue(row, field);
      },
      rows);
}

// Keeps the first rows in the order that was asked for; of those by id, the
// newest. Somebody at a terminal sees the newest 20, the newest first.
void Limit(const ListOptions& options, std::vector<ExperimentRow>& rows) {
  const bool on_terminal =
      options.format() == Format::kText && StdoutIsTerminal();
  const std::size_t limit =
      options.limit ? static_cast<std::size_t>(*options.limit)
                    : (on_terminal && options.by_id() ? kTerminalRows : 0);
  if (options.by_id()) std::ranges::reverse(rows);
  KeepFirst(limit, rows);
  if (options.by_id() && !on_terminal) std::ranges::reverse(rows);
}

// `origin`: "reproduces 3.7" for an experiment that has the name of another.
std::vector<Cell> Row(const ExperimentRow& row, const std::string& origin,
                      const SlotWait* wait, Timestamp now, bool local) {
  const double seconds = ElapsedSeconds(row, now);
  const std::string state(StateName(row.state));
  const std::string best =
      row.best ? row.metric + " " + FormatMetric(row.best->value) : "-";
  return {std::to_string(row.id),
          Cell(row.name + (origin.empty() ? "" : " (" + origin + ")"), row.name,
               Tone::kPlain, origin.empty() ? 0 : row.name.size() + 1),
          Cell(StateText(row.state, wait), state, ChooseTone(row.state)),
          Cell(FormatProgress(row), FormatNumber(row.progress)),
          row.searcher,
          std::to_string(row.trials),
          Cell(best, row.best ? FormatNumber(row.best->value) : "",
               Tone::kPlain, row.best ? row.metric.size() + 1 : 0),
          Cell(row.started && local ? FormatLocalTime(*row.started, now)
                                    : FormatTime(row.started),
               row.started ? FormatTimestamp(*row.started) : ""),
          Cell(FormatSeconds(seconds), FormatNumber(seconds))};
}

// Prints why experiments failed below the table, each in lines of its own: in a
// column it would take the room of the others.
void PrintErrors(const std::vector<ExperimentRow>& rows,
                 const GlobalOptions& globals) {
  const TerminalMode mode = GetTerminalMode(STDOUT_FILENO, globals.color);
  for (const ExperimentRow& row : rows) {
    if (row.error.empty()) continue;
    std::cout << Paint(mode, Tone::kDim,
                       WrapForStdout("experiment " + std::to_string(row.id) +
                                         ": " + row.error,
                                     0, kWrapIndent))
              << '\n';
  }
}

// Adds why experiments failed to a table without a limit of its width. CSV
// keeps its columns; there `--columns` has it.
void ShowErrors(Listing<ExperimentRow>& listing) {
  listing.columns.push_back({.name = "error", .elastic = true, .least = 20});
  listing.cells = [cells = listing.cells](const ExperimentRow& row) {
    std::vector<Cell> all = cells(row);
    all.emplace_back(row.error);
    return all;
  };
}

Listing<ExperimentRow> ExperimentListing(const Store& store,
                                         const SlotQueueView& queue,
                                         Format format, Timestamp now) {
  // Only the table shows them.
  std::map<std::int64_t, std::string> origins;
  if (format == Format::kText) origins = store.Origins();
  const bool local = StdoutIsTerminal();
  return {.name = "experiments",
          .columns = {{.name = "id", .right = true},
                      {.name = "name", .elastic = true, .least = 20},
                      {.name = "state"},
                      {.name = "progress", .right = true, .optional = true},
                      {.name = "searcher", .optional = true},
                      {.name = "trials", .right = true, .optional = true},
                      {.name = "best", .elastic = true, .least = 18},
                      {.name = "started", .optional = true},
                      {.name = "duration", .right = true, .optional = true}},
          .json =
              [&store, &queue, now](const ExperimentRow& row) {
                nlohmann::json json = ExperimentJson(
                    row, ElapsedSeconds(row, now), queue.FindWait(row));
                if (row.best) AddLength(FindCountedUnit(store, row.id), json);
                return json;
              },
          .cells =
              [&queue, origins = std::move(origins), now,
               local](const ExperimentRow& row) {
                const auto origin = origins.find(row.id);
                return Row(row, origin == origins.end() ? "" : origin->second,
                           queue.FindWait(row), now, local);
              }};
}

int List(const ListOptions& options, const GlobalOptions& globals) {
  const Timestamp now = Clock::System().now();
  const Store store = OpenStore(globals);
  const auto all = ListExperiments(store, options.all);
  ExperimentFields fields(store, all, now, DrawsUtf8(options, globals));
  const RowNames names = MakeRowNames(fields);
  const auto columns = ParseColumns(options, names);
  auto rows = all;
  Select(options, names, fields, rows);
  Sort(options, names, fields, rows);
  const std::size_t matching = rows.size();
  Limit(options, rows);
  if (rows.empty() && options.format() == Format::kText) {
    const std::string where = store.layout().root().string();
    PrintNotice(globals,
                ListExperiments(store, /*all=*/true).empty()
                    ? "no experiments in " + where + "; " +
                          NamedCommand(CommandFor(globals, "create CONFIG")) +
                          " creates one"
                    : "no experiment in " + where + " matches; " +
                          NamedCommand(CommandFor(globals, "list -a")) +
                          " lists all");
    return kExitDone;
  }
  const SlotQueueView queue(store);
  auto listing = ExperimentListing(store, queue, options.format(), now);
  const bool narrow = GetTerminalMode(STDOUT_FILENO, globals.color).width > 0;
  const bool failed = std::ranges::any_of(
      rows, [](const auto& row) { return !row.error.empty(); });
  if (options.format() == Format::kText && failed && !narrow) {
    ShowErrors(listing);
  }
  SelectColumns(
      columns,
      [&fields](const ExperimentRow& row, const FieldName& field) {
        return fields.GetValue(row, field);
      },
      now, listing);
  PrintListing(listing, rows, options.format(), globals);
  if (options.format() == Format::kText && narrow) PrintErrors(rows, globals);
  if (!options.limit && rows.size() < matching) {
    PrintNotice(globals, std::to_string(matching - rows.size()) +
                             " older ones are not shown; " +
                             NamedCommand(CommandFor(globals, "list -n 0")) +
                             " shows all");
  }
  return kExitDone;
}

}  // namespace

CommandRun SetUpList(CLI::App& app) {
  auto options = std::make_shared<ListOptions>();
  AddFlag(app, "-a,--all", options->all, "Include archived experiments");
  AddOption(app, "--state", options->state,
            "Only experiments in STATE, e.g. RUNNING")
      .TypeName("STATE")
      .Suggests({"PENDING", "RUNNING", "PAUSED", "INTERRUPTED", "COMPLETED",
                 "CANCELED", "ERROR"});
  AddOption(app, "--label", options->labels,
            "Only experiments with this label (repeatable)")
      .TypeName("LABEL")
      .OneEach();
  AddOption(app, "--sort", options->sort,
            "Sort by columns, hp.NAME or metrics; -NAME: descending")
      .TypeName("NAMES")
      .Suggests({"id", "name", "state", "progress", "searcher", "trials",
                 "best", "started", "duration"})
      .ShowDefault();
  AddFlag(app, "--reverse", options->reverse, "Sort in descending order");
  AddSelectionOptions(app, *options, "best < 0.1 and label ~ night");
  AddOption(app, "-n,--limit", options->limit,
            "Show at most N, the newest; 0: all (default: 20 on a terminal, "
            "otherwise all)")
      .TypeName("N")
      .AtLeast(0);
  AddTableOptions(app, *options);
  SetHelp(app, {.exits = {{kExitDone}, {kExitUsage}, {kExitStore}},
                .examples = {
                    {"List completed experiments with a low loss",
                     "dtrain list --filter 'best<0.1 and state==COMPLETED'"},
                    {"List the ten longest experiments",
                     "dtrain list --sort duration --reverse --limit 10"}}});
  return RunWith(List, options);
}

}  // namespace dtrain
