// `dtrain metrics`: the reported values of an experiment or trial.
//
// There may be millions of rows, so they are printed as they are read, in JSON
// and CSV as well as in text. That is why this command does not use
// PrintListing and fixes the widths of its columns before the first row. Only
// --sort, --reverse and a table of --columns need all rows in memory. --limit
// applies after the filter and the order.

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <functional>
#include <iomanip>
#include <iostream>
#include <memory>

#include <unistd.h>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/selection.h"
#include "engine/app/plot_data.h"
#include "engine/app/stores.h"
#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/report/format.h"
#include "engine/report/json_view.h"

namespace dtrain {
namespace {

struct MetricsOptions : SelectionOptions {
  std::string target;
  std::string kind;
  std::string name;
  bool superseded = false;
  std::string sort;
  bool reverse = false;
  std::size_t limit = 0;
};

// A column of the reported values.
struct MetricColumn {
  std::string_view name;
  FieldKind kind;
  FieldValue (*value)(const MetricRow& row);
};

constexpr std::array kColumns = {
    MetricColumn{
        "trial", FieldKind::kText,
        [](const MetricRow& row) -> FieldValue { return ToString(row.trial); }},
    MetricColumn{
        "number", FieldKind::kNumber,
        [](const MetricRow& row) -> FieldValue { return row.trial.number; }},
    MetricColumn{"kind", FieldKind::kText,
                 [](const MetricRow& row) -> FieldValue {
                   return std::string(MetricKindName(row.kind));
                 }},
    MetricColumn{
        "batches", FieldKind::kNumber,
        [](const MetricRow& row) -> FieldValue { return row.batches; }},
    MetricColumn{"epoch", FieldKind::kNumber,
                 [](const MetricRow& row) -> FieldValue {
                   if (std::isnan(row.epoch)) return std::monostate();
                   return row.epoch;
                 }},
    MetricColumn{"name", FieldKind::kText,
                 [](const MetricRow& row) -> FieldValue { return row.name; }},
    MetricColumn{"value", FieldKind::kNumber,
                 [](const MetricRow& row) -> FieldValue { return row.value; }},
    MetricColumn{"time", FieldKind::kTime,
                 [](const MetricRow& row) -> FieldValue { return row.time; }},
    MetricColumn{"run", FieldKind::kNumber,
                 [](const MetricRow& row) -> FieldValue {
                   if (row.run == 0) return std::monostate();
                   return row.run;
                 }},
    MetricColumn{"superseded", FieldKind::kText,
                 [](const MetricRow& row) -> FieldValue {
                   return std::string(row.superseded ? "true" : "false");
                 }}};

// Returns the column; null if there is none. `batches` has also the name of
// what it counts, which ResolveColumn checks.
const MetricColumn* FindColumn(const FieldName& field) {
  const bool counts = field.name == UnitName(Unit::kEpochs) ||
                      field.name == UnitName(Unit::kRecords);
  const auto found = std::ranges::find(
      kColumns, counts ? UnitName(Unit::kBatches) : field.name,
      &MetricColumn::name);
  return found == kColumns.end() ? nullptr : found;
}

FieldValue ColumnValue(const MetricRow& row, const FieldName& field) {
  return FindColumn(field)->value(row);
}

// The texts that a column can have; none if there are too many or any.
std::vector<std::string> ColumnWords(const Store& store,
                                     const MetricQuery& query,
                                     std::string_view column) {
  std::vector<std::string> words;
  if (column == "kind") return {"training", "validation"};
  if (column == "superseded") return {"true", "false"};
  if (column == "name") return store.MetricNames(query.experiment);
  if (column != "trial") return {};
  for (const TrialRow& row : store.Trials(
           query.experiment, {.hparams = false, .checkpoints = false})) {
    words.push_back(ToString(row.id));
  }
  return words;
}

ResolvedField ResolveColumn(const Store& store, const MetricQuery& query,
                            const FieldName& field) {
  const MetricColumn* column = FindColumn(field);
  const std::string counted(UnitName(CountedUnit(store, query.experiment)));
  const bool known = field.function == FieldFunction::kNone &&
                     column != nullptr &&
                     (column->name == field.name || field.name == counted);
  if (known) {
    const bool is_trial = column->name == "trial";
    return {.kind = column->kind,
            .words = ColumnWords(store, query, column->name),
            .hint = is_trial
                        ? "'trial' is a text; 'number' is the trial's number"
                        : ""};
  }
  std::vector<std::string> names;
  for (const MetricColumn& one : kColumns) names.emplace_back(one.name);
  if (std::ranges::count(names, counted) == 0) names.push_back(counted);
  const std::string text = field.Text();
  const std::string guess = DidYouMean(text, names);
  throw Error(ErrorKind::kNotFound,
              "reported values have no column '" + text + "'" +
                  (guess.empty() ? ";" : guess) +
                  " columns: " + Join(names, ", ") +
                  "; 'dtrain trials' filters by hyperparameters");
}

RowNames MakeRowNames(const Store& store, const MetricQuery& query,
                      Timestamp now) {
  const auto resolve = [&store, &query](const FieldName& field) {
    return ResolveColumn(store, query, field);
  };
  return {.context =
              [resolve, now](const std::string& option) {
                return QueryContext{
                    .option = option, .resolve = resolve, .now = now};
              },
          .expand =
              [resolve](const std::string& pattern) -> std::vector<FieldName> {
            (void)resolve({.name = pattern});
            return {};
          }};
}

// Trials are ordered by their numbers, not by their texts.
std::vector<SortKey> ParseSort(const MetricsOptions& options,
                               const RowNames& names) {
  if (options.sort.empty()) return {};
  auto keys = ParseSortKeys(options.sort, names.context("--sort"));
  for (SortKey& key : keys) {
    if (key.field.name == "trial") key.field.name = "number";
  }
  return keys;
}

// The rows that the options select, in their order. Epochs that the program
// does not report are NaN.
class MetricRows {
 public:
  MetricRows(const Store& store, const MetricQuery& query,
             const MetricsOptions& options, const RowNames& names)
      : store_(store),
        query_(query),
        options_(options),
        filter_(ParseFilter(options, names)),
        keys_(ParseSort(options, names)),
        knows_epochs_(KnowsEpochs(store, query.experiment)) {}

  // Rows are passed on as they are read, since there may be millions, unless
  // they are in another order than the store's.
  void ForEach(const std::function<void(const MetricRow&)>& row) const {
    std::size_t left = options_.limit == 0 ? SIZE_MAX : options_.limit;
    const auto pass_on = [&](const MetricRow& one) {
      if (left == 0) return;
      --left;
      row(one);
    };
    if (keys_.empty() && !options_.reverse) return ForEachMatch(pass_on);
    std::vector<MetricRow> rows;
    ForEachMatch([&](const MetricRow& one) { rows.push_back(one); });
    if (options_.reverse) std::ranges::reverse(rows);  // equal ones, too
    if (!keys_.empty()) SortRows(keys_, options_.reverse, ColumnValue, rows);
    std::ranges::for_each(rows, pass_on);
  }

 private:
  void ForEachMatch(const std::function<void(const MetricRow&)>& row) const {
    const auto pass_match = [&](const MetricRow& one) {
      const bool matches = filter_.Matches(
          [&](const FieldName& field) { return ColumnValue(one, field); });
      if (matches) row(one);
    };
    if (knows_epochs_) return store_.ForEachMetric(query_, pass_match);
    store_.ForEachMetric(query_, [&](MetricRow one) {
      one.epoch = std::nan("");
      pass_match(one);
    });
  }

  const Store& store_;
  const MetricQuery& query_;
  const MetricsOptions& options_;
  const Filter filter_;
  const std::vector<SortKey> keys_;
  const bool knows_epochs_;
};

using SelectedColumns = std::vector<SelectedColumn>;

void PrintMetricsJson(const MetricRows& rows, Unit counted, bool superseded,
                      const SelectedColumns& columns) {
  const char* separator = "\n";
  const bool terminal = StdoutIsTerminal();
  std::cout << "{\"metrics\": [";
  rows.ForEach([&](const MetricRow& row) {
    nlohmann::json json = MetricJson(row);
    AddLength(counted, json);
    if (superseded) json["superseded"] = row.superseded;
    for (const SelectedColumn& column : columns) {
      json["columns"][column.field.Text()] =
          FieldJson(ColumnValue(row, column.field));
    }
    std::cout << separator << DumpJson(json, /*indent=*/-1, terminal);
    separator = ",\n";
  });
  std::cout << "\n]}\n";
}

void PrintColumnsCsv(const MetricRows& rows, const SelectedColumns& columns,
                     Timestamp now) {
  const bool terminal = StdoutIsTerminal();
  std::vector<std::string> cells;
  for (const SelectedColumn& column : columns) {
    cells.push_back(column.field.Text());
  }
  std::cout << CsvLine(cells, terminal);
  rows.ForEach([&](const MetricRow& row) {
    cells.clear();
    for (const SelectedColumn& column : columns) {
      cells.push_back(FieldCell(ColumnValue(row, column.field), column.kind,
                                /*local=*/false, now)
                          .raw);
    }
    std::cout << CsvLine(cells, terminal);
  });
}

void PrintColumnsText(const MetricRows& rows, const SelectedColumns& columns,
                      Timestamp now, const GlobalOptions& globals) {
  std::vector<Column> heads;
  for (const SelectedColumn& column : columns) {
    heads.push_back(FieldColumn(column.field, column.kind));
  }
  Table table(std::move(heads));
  const bool local = StdoutIsTerminal();
  rows.ForEach([&](const MetricRow& row) {
    std::vector<Cell> cells;
    for (const SelectedColumn& column : columns) {
      cells.push_back(
          FieldCell(ColumnValue(row, column.field), column.kind, local, now));
    }
    table.AddRow(std::move(cells));
  });
  PrintTable(table, Format::kText, globals);
}

void PrintMetricsCsv(const MetricRows& rows, Unit counted, bool superseded) {
  const bool terminal = StdoutIsTerminal();
  std::vector<std::string> cells = {"trial", "kind",  "batches", "epoch",
                                    "name",  "value", "time"};
  if (superseded) cells.push_back("superseded");
  cells.insert(cells.end(), {"length", "unit"});
  std::cout << CsvLine(cells, terminal);
  rows.ForEach([&](const MetricRow& row) {
    cells = {ToString(row.trial),
             std::string(MetricKindName(row.kind)),
             std::to_string(row.batches),
             std::isnan(row.epoch) ? "" : FormatNumber(row.epoch),
             row.name,
             FormatNumber(row.value),
             FormatTimestamp(row.time)};
    if (superseded) cells.push_back(row.superseded ? "true" : "false");
    cells.push_back(std::to_string(row.batches));
    cells.emplace_back(UnitName(counted));
    std::cout << CsvLine(cells, terminal);
  });
}

// The columns that fit the terminal: the time is omitted first, then the epoch,
// then names are cut. Numbers never are.
struct MetricsLayout {
  std::size_t name = 0;  // its width
  bool epoch = true;
  bool time = true;
};

MetricsLayout ChooseLayout(std::size_t name, bool superseded,
                           bool counts_epochs, const TerminalMode& mode) {
  constexpr std::size_t kOthers = 47, kEpoch = 10, kTime = 22, kNote = 12;
  MetricsLayout layout{.name = name, .epoch = !counts_epochs};
  if (mode.width == 0) return layout;
  const std::size_t others = kOthers + (superseded ? kNote : 0);
  const std::size_t epoch = counts_epochs ? 0 : kEpoch;
  const bool fits = others + name + epoch <= mode.width;
  layout.epoch = layout.epoch && fits;
  layout.time = others + name + epoch + kTime <= mode.width;
  const std::size_t room = mode.width - std::min(mode.width, others);
  if (!fits) layout.name = std::clamp<std::size_t>(room, 4, name);
  return layout;
}

void PrintMetricsText(const Store& store, const MetricQuery& query,
                      const MetricRows& rows, const TerminalMode& mode) {
  std::size_t width = 4;
  for (const std::string& name : store.MetricNames(query.experiment)) {
    width = std::max(width, DisplayWidth(EscapeForTerminal(name)));
  }
  const Unit counted = CountedUnit(store, query.experiment);
  const bool counts_epochs = counted == Unit::kEpochs;
  const MetricsLayout layout =
      ChooseLayout(width, query.superseded, counts_epochs, mode);
  const auto print = [&](const std::string& trial, std::string_view kind,
                         const std::string& batches, const std::string& epoch,
                         const std::string& full_name, const std::string& value,
                         const std::string& time, const std::string& note) {
    const std::string name = Truncate(full_name, layout.name, Ellipsis(mode));
    std::cout << std::setw(8) << trial << "  " << std::left << std::setw(10)
              << kind << std::right << "  " << std::setw(9) << batches << "  ";
    if (layout.epoch) std::cout << std::setw(8) << epoch << "  ";
    std::cout << name << std::string(layout.name - DisplayWidth(name), ' ')
              << "  " << std::setw(12) << value
              << (layout.time ? "  " + time : "") << note << '\n';
  };
  std::string count(UnitName(counted));
  std::ranges::transform(count, count.begin(), ::toupper);
  print("TRIAL", "KIND", count, "EPOCH", "NAME", "VALUE", "TIME", "");
  rows.ForEach([&](const MetricRow& row) {
    print(ToString(row.trial), MetricKindName(row.kind),
          std::to_string(row.batches),
          std::isnan(row.epoch) ? "-" : FormatMetric(row.epoch),
          EscapeForTerminal(row.name), FormatMetric(row.value),
          FormatTime(row.time), row.superseded ? "  superseded" : "");
  });
  if (layout.time) return;
  std::cout << Paint(mode, Tone::kDim,
                     std::string("(omitted: ") +
                         (layout.epoch || counts_epochs ? "" : "EPOCH, ") +
                         "TIME; use a wider terminal or --json)")
            << '\n';
}

// Throws for a metric that the experiment does not have. One that has not ended
// may report it later, which a note says.
void RequireName(const Store& store, const MetricQuery& query,
                 const GlobalOptions& globals) {
  if (!query.name) return;
  const auto names = store.MetricNames(query.experiment);
  if (std::ranges::binary_search(names, *query.name)) return;
  const std::string experiment = std::to_string(query.experiment);
  if (IsFinal(FindExperiment(store, query.experiment).state)) {
    throw Error(ErrorKind::kNotFound, "experiment " + experiment +
                                          " has no metric '" + *query.name +
                                          "'" + KnownMetrics(names));
  }
  PrintNotice(globals, "note: experiment " + experiment +
                           " has not reported '" + *query.name + "' yet" +
                           KnownMetrics(names));
}

int ShowMetrics(const MetricsOptions& options, const GlobalOptions& globals) {
  const Store store = OpenStore(globals);
  const Target target = ResolveTarget(store, options.target);
  FindTarget(store, target);
  MetricQuery query{.experiment = target.experiment, .trial = target.trial};
  if (options.kind == "training") query.kind = MetricKind::kTraining;
  if (options.kind == "validation") query.kind = MetricKind::kValidation;
  if (!options.name.empty()) query.name = options.name;
  RequireName(store, query, globals);
  query.superseded = options.superseded;
  const Timestamp now = Clock::System().now();
  const RowNames names = MakeRowNames(store, query, now);
  const SelectedColumns columns = ParseColumns(options, names);
  const MetricRows rows(store, query, options, names);
  const Unit counted = CountedUnit(store, query.experiment);
  switch (options.format()) {
    case Format::kJson:
      PrintMetricsJson(rows, counted, options.superseded, columns);
      break;
    case Format::kCsv:
      if (columns.empty()) {
        PrintMetricsCsv(rows, counted, options.superseded);
      } else {
        PrintColumnsCsv(rows, columns, now);
      }
      break;
    case Format::kText:
      if (columns.empty()) {
        PrintMetricsText(store, query, rows,
                         GetTerminalMode(STDOUT_FILENO, globals.color));
      } else {
        PrintColumnsText(rows, columns, now, globals);
      }
      break;
  }
  return kExitDone;
}

}  // namespace

CommandRun SetUpMetrics(CLI::App& app) {
  auto options = std::make_shared<MetricsOptions>();
  AddOption(app, "EXP", options->target, "Experiment (3) or trial (3.7)")
      .Completes(ValueKind::kTarget)
      .Required();
  AddOption(app, "--kind", options->kind,
            "Only training or only validation metrics")
      .TypeName("KIND")
      .OneOf({"training", "validation"});
  AddOption(app, "--name", options->name, "Only the metric NAME")
      .TypeName("NAME")
      .Completes(ValueKind::kMetric);
  AddFlag(app, "--superseded", options->superseded,
          "Include values that a restart has superseded");
  AddOption(app, "--sort", options->sort,
            "Sort by columns; -NAME: largest first (default: by trial, kind, "
            "batches and name)")
      .TypeName("NAMES")
      .Suggests({"trial", "kind", "batches", "epoch", "name", "value", "time"});
  AddFlag(app, "--reverse", options->reverse, "Reverse the order");
  AddOption(app, "--limit", options->limit, "Print at most N (0: all)")
      .TypeName("N")
      .AtLeast(0)
      .ShowDefault();
  AddSelectionOptions(app, *options, "name == loss and value < 0.1",
                      "Print these columns instead of all");
  AddTableOptions(app, *options);
  SetHelp(app,
          {.exits = ReaderExits(),
           .examples = {{"Print the validation loss of a trial",
                         "dtrain metrics 3.7 --kind validation --name loss"},
                        {"Write all metrics of an experiment to a CSV file",
                         "dtrain metrics 3 --csv > metrics.csv"}}});
  return RunWith(ShowMetrics, options);
}

}  // namespace dtrain
