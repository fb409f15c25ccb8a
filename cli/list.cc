#include <algorithm>
#include <array>
#include <memory>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "engine/app/stores.h"
#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/report/expression.h"
#include "engine/report/format.h"
#include "engine/report/json_view.h"
#include "engine/slots/slots.h"

namespace dtrain {
namespace {

struct ListOptions : TableOptions {
  bool all = false;
  std::string state;
  std::vector<std::string> labels;
  std::string sort = "id";
  bool reverse = false;
  std::string filter;
  std::optional<std::int64_t> limit;

  bool by_id() const { return sort == "id" && !reverse; }
};

constexpr std::size_t kTerminalRows = 20;  // without --limit

// A field of an experiment for --sort and --filter.
struct Field {
  std::string_view name;
  FieldValue (*value)(const ExperimentRow& row, Timestamp now);
};

constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();

constexpr std::array kFields = {
    Field{"id",
          [](const ExperimentRow& row, Timestamp) -> FieldValue {
            return static_cast<double>(row.id);
          }},
    Field{"name",
          [](const ExperimentRow& row, Timestamp) -> FieldValue {
            return row.name;
          }},
    Field{"state",
          [](const ExperimentRow& row, Timestamp) -> FieldValue {
            return std::string(StateName(row.state));
          }},
    Field{"progress",
          [](const ExperimentRow& row, Timestamp) -> FieldValue {
            return row.progress;
          }},
    Field{"searcher",
          [](const ExperimentRow& row, Timestamp) -> FieldValue {
            return row.searcher;
          }},
    Field{"trials",
          [](const ExperimentRow& row, Timestamp) -> FieldValue {
            return static_cast<double>(row.trials);
          }},
    Field{"best",
          [](const ExperimentRow& row, Timestamp) -> FieldValue {
            return row.best ? row.best->value : kMissing;
          }},
    Field{"started",
          [](const ExperimentRow& row, Timestamp) -> FieldValue {
            return row.started ? FormatTimestamp(*row.started) : std::string();
          }},
    Field{"duration",
          [](const ExperimentRow& row, Timestamp now) -> FieldValue {
            return ElapsedSeconds(row, now);
          }}};

const Field& FindField(const std::string& name, const char* option) {
  std::vector<std::string> names;
  for (const Field& field : kFields) {
    if (field.name == name) return field;
    names.emplace_back(field.name);
  }
  throw Error(ErrorKind::kUsage, std::string(option) + ": unknown field '" +
                                     name +
                                     "'; available: " + Join(names, ", "));
}

bool IsMissing(const FieldValue& value) {
  const double* number = std::get_if<double>(&value);
  if (number != nullptr) return std::isnan(*number);
  return std::get<std::string>(value).empty();
}

// Missing values come last, reversed or not.
bool Before(const FieldValue& a, const FieldValue& b, bool reverse) {
  if (IsMissing(a) || IsMissing(b)) return !IsMissing(a) && IsMissing(b);
  return reverse ? b < a : a < b;
}

void Filter(const ListOptions& options, Timestamp now,
            std::vector<ExperimentRow>& rows) {
  std::optional<State> state;
  if (!options.state.empty()) state = StateFromName(options.state);
  std::vector<Comparison> comparisons;
  if (!options.filter.empty()) {
    comparisons = ParseExpression(options.filter, "--filter");
  }
  for (const Comparison& comparison : comparisons) {
    FindField(comparison.name, "--filter");
  }
  std::erase_if(rows, [&](const ExperimentRow& row) {
    const FieldLookup lookup = [&](const std::string& name) {
      return std::optional(FindField(name, "--filter").value(row, now));
    };
    const bool labelled =
        std::ranges::all_of(options.labels, [&](const std::string& label) {
          return std::ranges::count(row.labels, label) > 0;
        });
    return (state && row.state != *state) || !labelled ||
           !AllMet(comparisons, lookup);
  });
}

void Sort(const ListOptions& options, Timestamp now,
          std::vector<ExperimentRow>& rows) {
  const Field& key = FindField(options.sort, "--sort");
  if (options.reverse) std::ranges::reverse(rows);  // equal ones too
  std::ranges::stable_sort(
      rows, [&](const ExperimentRow& a, const ExperimentRow& b) {
        return Before(key.value(a, now), key.value(b, now), options.reverse);
      });
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

std::vector<Cell> Row(const ExperimentRow& row, const SlotWait* wait,
                      Timestamp now) {
  const double seconds = ElapsedSeconds(row, now);
  const std::string state(StateName(row.state));
  const std::string best =
      row.best ? row.metric + " " + FormatMetric(row.best->value) : "-";
  return {std::to_string(row.id),
          row.name,
          Cell(StateText(row.state, wait), state, ToneOf(row.state)),
          Cell(FormatProgress(row), FormatNumber(row.progress)),
          row.searcher,
          std::to_string(row.trials),
          Cell(best, row.best ? FormatNumber(row.best->value) : "",
               Tone::kPlain, row.best ? row.metric.size() + 1 : 0),
          Cell(FormatTime(row.started),
               row.started ? FormatTimestamp(*row.started) : ""),
          Cell(FormatSeconds(seconds), FormatNumber(seconds))};
}

Listing<ExperimentRow> ExperimentListing(const SlotQueueView& queue,
                                         Timestamp now) {
  return {.name = "experiments",
          .columns = {{.name = "id", .right = true},
                      {.name = "name", .elastic = true},
                      {.name = "state"},
                      {.name = "progress", .right = true, .optional = true},
                      {.name = "searcher", .optional = true},
                      {.name = "trials", .right = true, .optional = true},
                      {.name = "best", .elastic = true, .least = 18},
                      {.name = "started", .optional = true},
                      {.name = "duration", .right = true, .optional = true}},
          .json =
              [&queue, now](const ExperimentRow& row) {
                return ExperimentJson(row, ElapsedSeconds(row, now),
                                      queue.WaitOf(row));
              },
          .cells =
              [&queue, now](const ExperimentRow& row) {
                return Row(row, queue.WaitOf(row), now);
              }};
}

int List(const ListOptions& options, const GlobalOptions& globals) {
  const Timestamp now = Clock::System().now();
  const Store store = OpenStore(globals);
  auto rows = ListExperiments(store, options.all);
  Filter(options, now, rows);
  Sort(options, now, rows);
  const std::size_t matching = rows.size();
  Limit(options, rows);
  if (rows.empty() && options.format() == Format::kText) {
    const std::string where = store.layout().root().string();
    Say(globals, ListExperiments(store, /*all=*/true).empty()
                     ? "no experiments in " + where + "; " +
                           NamedCommand(CommandFor(globals, "create CONFIG")) +
                           " creates one"
                     : "no experiment in " + where + " matches; " +
                           NamedCommand(CommandFor(globals, "list -a")) +
                           " lists all");
    return kExitDone;
  }
  const SlotQueueView queue(store);
  PrintListing(ExperimentListing(queue, now), rows, options.format(), globals);
  if (!options.limit && rows.size() < matching) {
    Say(globals,
        std::to_string(matching - rows.size()) + " older ones are not shown; " +
            NamedCommand(CommandFor(globals, "list -n 0")) + " shows all");
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
            "Sort by id, name, state, progress, searcher, trials, best, "
            "started or duration")
      .TypeName("FIELD")
      .Suggests({"id", "name", "state", "progress", "searcher", "trials",
                 "best", "started", "duration"})
      .ShowDefault();
  AddFlag(app, "--reverse", options->reverse, "Sort in descending order");
  AddOption(
      app, "--filter", options->filter,
      "Only experiments matching EXPR, e.g. 'best<0.1 and state==COMPLETED'")
      .TypeName("EXPR");
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
