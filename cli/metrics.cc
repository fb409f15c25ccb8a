// `dtrain metrics`: the reported values of experiments and trials.
//
// There may be millions of rows, so they are printed as they are read, in JSON
// and CSV as well as in text. That is why this command does not use
// PrintListing and fixes the widths of its columns before the first row. Only
// --sort, --reverse and a table of --columns need all rows in memory. --limit
// applies after the filter and the order.

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <iomanip>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <unistd.h>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/export_tables.h"
#include "cli/output.h"
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
  std::vector<std::string> targets;
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

// "experiment" is no column, but part of the order of trials.
FieldValue ColumnValue(const MetricRow& row, const FieldName& field) {
  if (field.name == "experiment") return row.trial.experiment;
  return FindColumn(field)->value(row);
}

// The experiments and trials whose values are shown, in their order.
struct MetricTargets {
  const Store& store;
  std::vector<MetricQuery> queries;
  std::map<std::int64_t, Unit> counted;  // by experiment

  // The unit that all count; batches if they differ.
  Unit CommonUnit() const {
    const Unit first = counted.begin()->second;
    const bool same = std::ranges::all_of(
        counted, [&](const auto& one) { return one.second == first; });
    return same ? first : Unit::kBatches;
  }
  std::set<std::string> Names() const {
    std::set<std::string> all;
    for (const auto& [experiment, unit] : counted) {
      for (const std::string& name : store.MetricNames(experiment)) {
        all.insert(name);
      }
    }
    return all;
  }
};

// The texts that a column can have; none if there are too many or any.
std::vector<std::string> ColumnWords(const MetricTargets& targets,
                                     std::string_view column) {
  std::vector<std::string> words;
  if (column == "kind") return {"training", "validation"};
  if (column == "superseded") return {"true", "false"};
  if (column == "name") {
    const std::set<std::string> names = targets.Names();
    return {names.begin(), names.end()};
  }
  if (column != "trial") return {};
  for (const auto& [experiment, unit] : targets.counted) {
    for (const TrialRow& row : targets.store.Trials(
             experiment, {.hparams = false, .checkpoints = false})) {
      words.push_back(ToString(row.id));
    }
  }
  return words;
}

ResolvedField ResolveColumn(const MetricTargets& targets,
                            const FieldName& field) {
  const MetricColumn* column = FindColumn(field);
  const std::string counted(UnitName(targets.CommonUnit()));
  const bool known = field.function == FieldFunction::kNone &&
                     column != nullptr &&
                     (column->name == field.name || field.name == counted);
  if (known) {
    const bool is_trial = column->name == "trial";
    return {.kind = column->kind,
            .words = ColumnWords(targets, column->name),
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

RowNames MakeRowNames(const MetricTargets& targets, Timestamp now) {
  const auto resolve = [&targets](const FieldName& field) {
    return ResolveColumn(targets, field);
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
  std::vector<SortKey> keys;
  for (SortKey& key : ParseSortKeys(options.sort, names.context("--sort"))) {
    const bool is_trial = key.field.name == "trial";
    if (is_trial) {
      key.field.name = "experiment";
      keys.push_back(key);
      key.field.name = "number";
    }
    keys.push_back(std::move(key));
  }
  return keys;
}

// The rows that the options select, in their order. Epochs that the program
// does not report are NaN.
class MetricRows {
 public:
  MetricRows(const MetricTargets& targets, const MetricsOptions& options,
             const RowNames& names)
      : targets_(targets),
        options_(options),
        filter_(ParseFilter(options, names)),
        keys_(ParseSort(options, names)) {}

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
    if (options_.filter.empty()) return ForEachMetric(row);
    ForEachMetric([&](const MetricRow& one) {
      const bool matches = filter_.Matches(
          [&](const FieldName& field) { return ColumnValue(one, field); });
      if (matches) row(one);
    });
  }
  void ForEachMetric(const std::function<void(const MetricRow&)>& row) const {
    const Store& store = targets_.store;
    for (const MetricQuery& query : targets_.queries) {
      if (KnowsEpochs(store, query.experiment)) {
        store.ForEachMetric(query, row);
        continue;
      }
      store.ForEachMetric(query, [&](MetricRow one) {
        one.epoch = std::nan("");
        row(one);
      });
    }
  }

  const MetricTargets& targets_;
  const MetricsOptions& options_;
  const Filter filter_;
  const std::vector<SortKey> keys_;
};

using SelectedColumns = std::vector<SelectedColumn>;

void PrintMetricsJson(const MetricRows& rows, const MetricTargets& targets,
                      bool superseded, const SelectedColumns& columns) {
  const char* separator = "\n";
  const bool terminal = StdoutIsTerminal();
  std::cout << "{\"metrics\": [";
  rows.ForEach([&](const MetricRow& row) {
    nlohmann::json json = MetricJson(row);
    AddLength(targets.counted.at(row.trial.experiment), json);
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

// Lines of CSV with all that a reported value has. What repeats from line to
// line is formatted once, since there may be millions.
class MetricLines {
 public:
  MetricLines(const MetricTargets& targets, bool superseded, bool terminal,
              const WriteText& write)
      : targets_(targets),
        superseded_(superseded),
        terminal_(terminal),
        write_(write) {
    lines_ = std::string("trial,kind,batches,epoch,name,value,time,") +
             (superseded ? "superseded," : "") + "length,unit\r\n";
  }

  void Add(const MetricRow& row) {
    if (row.trial != trial_) {
      trial_ = row.trial;
      begin_ = ToString(row.trial) + ",";
      end_ = "," +
             std::string(UnitName(targets_.counted.at(row.trial.experiment))) +
             "\r\n";
    }
    lines_ += begin_;
    lines_ += MetricKindName(row.kind);
    lines_ += ',';
    AddNumber(row.batches);
    lines_ += ',';
    if (!std::isnan(row.epoch)) AddNumber(row.epoch);
    lines_ += ',';
    lines_ += FindName(row.name);
    lines_ += ',';
    if (std::isfinite(row.value)) {
      AddNumber(row.value);
    } else {
      lines_ += FormatNumber(row.value);
    }
    lines_ += ',';
    AddTime(row.time);
    if (superseded_) lines_ += row.superseded ? ",true" : ",false";
    lines_ += ',';
    AddNumber(row.batches);
    lines_ += end_;
    constexpr std::size_t kMaxHeld = std::size_t{1} << 16;
    if (lines_.size() >= kMaxHeld) Flush();
  }
  void Flush() {
    write_(lines_);
    lines_.clear();
  }

 private:
  void AddNumber(auto number) {
    std::array<char, 32> text;
    lines_.append(
        text.data(),
        std::to_chars(text.data(), text.data() + text.size(), number).ptr);
  }
  // As FormatTimestamp, which costs more than the rest of the line.
  void AddTime(Timestamp time) {
    const auto second = std::chrono::floor<std::chrono::seconds>(time);
    if (second_ != second) {
      second_ = second;
      constexpr std::size_t kToTheSecond = 20;  // "2026-11-21T07:35:44."
      second_text_ = FormatTimestamp(second).substr(0, kToTheSecond);
    }
    lines_ += second_text_;
    std::array<char, 7> micros = {'0', '0', '0', '0', '0', '0', 'Z'};
    auto rest = (time - second).count();
    for (int i = 5; i >= 0; --i, rest /= 10) {
      micros[static_cast<std::size_t>(i)] = static_cast<char>('0' + rest % 10);
    }
    lines_.append(micros.data(), micros.size());
  }
  const std::string& FindName(const std::string& name) {
    const auto [found, is_new] = names_.try_emplace(name);
    if (is_new) {
      found->second = CsvField(terminal_ ? EscapeForTerminal(name) : name);
    }
    return found->second;
  }

  const MetricTargets& targets_;
  const bool superseded_;
  const bool terminal_;
  const WriteText& write_;
  std::string lines_;
  TrialId trial_;
  std::string begin_, end_;
  std::optional<std::chrono::seconds> second_;
  std::string second_text_;
  std::unordered_map<std::string, std::string> names_;
};

void PrintMetricsCsv(const MetricRows& rows, const MetricTargets& targets,
                     bool superseded) {
  const WriteText write = [](std::string_view text) { std::cout << text; };
  MetricLines lines(targets, superseded, StdoutIsTerminal(), write);
  rows.ForEach([&](const MetricRow& row) { lines.Add(row); });
  lines.Flush();
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

void PrintMetricsText(const MetricTargets& targets, const MetricRows& rows,
                      bool superseded, const TerminalMode& mode) {
  std::size_t width = 4;
  for (const std::string& name : targets.Names()) {
    width = std::max(width, DisplayWidth(EscapeForTerminal(name)));
  }
  const Unit counted = targets.CommonUnit();
  const bool counts_epochs = counted == Unit::kEpochs;
  const MetricsLayout layout =
      ChooseLayout(width, superseded, counts_epochs, mode);
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
  const std::string omitted = std::string("(omitted: ") +
                              (layout.epoch || counts_epochs ? "" : "EPOCH, ") +
                              "TIME; use a wider terminal or --json)";
  std::cout << Paint(mode, Tone::kDim, WrapForStdout(omitted, 0, 0)) << '\n';
}

// Throws for a metric that none of the experiments has, if the first one has
// ended. One that has not ended may report it later, which a note says, as it
// does of an experiment that lacks what others have.
void RequireName(const MetricTargets& targets, const std::string& name,
                 const GlobalOptions& globals) {
  const bool known = targets.Names().contains(name);
  for (const auto& [id, unit] : targets.counted) {
    const auto names = targets.store.MetricNames(id);
    if (std::ranges::binary_search(names, name)) continue;
    const std::string experiment = "experiment " + std::to_string(id);
    const bool ended = IsFinal(FindExperiment(targets.store, id).state);
    const std::string lacks =
        experiment + " has no metric '" + name + "'" + KnownMetrics(names);
    if (ended && !known) throw Error(ErrorKind::kNotFound, lacks);
    PrintNotice(globals,
                "note: " + (ended ? lacks
                                  : experiment + " has not reported '" + name +
                                        "' yet" + KnownMetrics(names)));
  }
}

// Returns what `words` name, each value once.
MetricTargets FindTargets(const Store& store,
                          const std::vector<std::string>& words) {
  MetricTargets found{.store = store, .queries = {}, .counted = {}};
  const std::vector<Target> targets = ResolveTargets(store, words);
  std::vector<ExperimentRow> rows;
  std::vector<Target> taken;
  for (const Target& target : targets) {
    rows.push_back(FindTarget(store, target));
    found.counted[target.experiment] = CountedUnit(store, target.experiment);
    const bool again =
        std::ranges::count(taken, target) > 0 ||
        (target.trial &&
         std::ranges::count(targets, Target{.experiment = target.experiment}) >
             0);
    if (again) continue;
    taken.push_back(target);
    found.queries.push_back(
        {.experiment = target.experiment, .trial = target.trial});
  }
  RequireOneMetric(rows);
  return found;
}

int ShowMetrics(const MetricsOptions& options, const GlobalOptions& globals) {
  const Store store = OpenStore(globals);
  MetricTargets targets = FindTargets(store, options.targets);
  if (!options.name.empty()) RequireName(targets, options.name, globals);
  for (MetricQuery& query : targets.queries) {
    if (options.kind == "training") query.kind = MetricKind::kTraining;
    if (options.kind == "validation") query.kind = MetricKind::kValidation;
    if (!options.name.empty()) query.name = options.name;
    query.superseded = options.superseded;
  }
  const Timestamp now = Clock::System().now();
  const RowNames names = MakeRowNames(targets, now);
  const SelectedColumns columns = ParseColumns(options, names);
  const MetricRows rows(targets, options, names);
  switch (options.format()) {
    case Format::kJson:
      PrintMetricsJson(rows, targets, options.superseded, columns);
      break;
    case Format::kCsv:
      if (columns.empty()) {
        PrintMetricsCsv(rows, targets, options.superseded);
      } else {
        PrintColumnsCsv(rows, columns, now);
      }
      break;
    case Format::kText:
      if (columns.empty()) {
        PrintMetricsText(targets, rows, options.superseded,
                         GetTerminalMode(STDOUT_FILENO, globals.color));
      } else {
        PrintColumnsText(rows, columns, now, globals);
      }
      break;
  }
  return kExitDone;
}

}  // namespace

std::int64_t WriteMetrics(const Store& store,
                          const std::vector<std::string>& words, Format format,
                          const WriteText& write) {
  const MetricTargets targets = FindTargets(store, words);
  const MetricsOptions options;
  const MetricRows rows(targets, options,
                        MakeRowNames(targets, Clock::System().now()));
  MetricLines lines(targets, /*superseded=*/false, /*terminal=*/false, write);
  std::int64_t count = 0;
  rows.ForEach([&](const MetricRow& row) {
    ++count;
    if (format != Format::kJson) return lines.Add(row);
    nlohmann::json json = MetricJson(row);
    AddLength(targets.counted.at(row.trial.experiment), json);
    write(DumpJson(json, /*indent=*/-1, /*terminal=*/false) + "\n");
  });
  if (format != Format::kJson) lines.Flush();
  return count;
}

CommandRun SetUpMetrics(CLI::App& app) {
  auto options = std::make_shared<MetricsOptions>();
  AddOption(app, "EXP", options->targets,
            "Experiments (3 5 7-9) and trials (3.7) with one metric")
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
