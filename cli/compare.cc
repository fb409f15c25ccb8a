// `dtrain compare`: what differs between experiments or trials.
//
// CompareTargets (engine/app/comparison.h) computes the rows; this file prints
// them. For people there are two layouts: a column for each target if the
// widest section fits the terminal, and otherwise a block of lines for each
// row. CSV has a line for each row and target, so that its numbers stay
// numbers. Equal rows are hidden unless --all is given, in CSV and JSON, too.
// Only the layouts for people are followed by the number of hidden rows.
//
// --group prints something else: statistics of all trials, grouped by the value
// of a hyperparameter.

#include <algorithm>
#include <cmath>
#include <iostream>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <unistd.h>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/selection.h"
#include "engine/app/comparison.h"
#include "engine/app/stores.h"
#include "engine/app/trial_selection.h"
#include "engine/app/trial_values.h"
#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/base/rounding.h"
#include "engine/base/text.h"
#include "engine/page/markdown_report.h"
#include "engine/report/format.h"

namespace dtrain {
namespace {

constexpr std::size_t kMaxTargets = 50;
constexpr std::size_t kMaxCell = 40;  // columns of a value for people

struct CompareOptions : TableOptions {
  std::vector<std::string> targets;
  std::vector<std::string> metrics;
  std::string baseline;
  std::string group;
  std::string at;
  std::string filter;
  bool all = false;
  bool markdown = false;
};

std::vector<Target> FindTargets(const Store& store,
                                const CompareOptions& options) {
  std::vector<Target> targets;
  for (const Target& target : ResolveTargets(store, options.targets)) {
    if (std::ranges::count(targets, target) > 0) {
      throw Error(ErrorKind::kUsage,
                  "'" + ToString(target) + "' is named twice");
    }
    targets.push_back(target);
  }
  const std::size_t least = options.group.empty() ? 2 : 1;
  if (targets.size() >= least && targets.size() <= kMaxTargets) return targets;
  throw Error(ErrorKind::kUsage, "expected " + std::to_string(least) + " to " +
                                     std::to_string(kMaxTargets) +
                                     " experiments or trials to compare, got " +
                                     std::to_string(targets.size()));
}

// The index of the target that --baseline names; the first one without it.
std::size_t FindBaseline(const Store& store, const CompareOptions& options,
                         const std::vector<Target>& targets) {
  if (options.baseline.empty()) return 0;
  const auto found =
      std::ranges::find(targets, ResolveTarget(store, options.baseline));
  if (found != targets.end()) {
    return static_cast<std::size_t>(found - targets.begin());
  }
  throw Error(ErrorKind::kUsage, "--baseline: '" + options.baseline +
                                     "' is not among the compared: " +
                                     Join(options.targets, ", "));
}

std::string Signed(double value, const std::string& text) {
  return value > 0 ? "+" + text : text;
}

std::string FormatVerdict(const ComparedValue& value) {
  return !value.better ? "" : *value.better ? "better" : "worse";
}

// "log minval=-4 maxval=1 base=10": what distinguishes ranges comes before a
// cell is cut.
std::string RangeText(const nlohmann::json& range) {
  std::string text = FormatValue(range.at("type"));
  const auto add = [&](const std::string& key, const nlohmann::json& value) {
    text += " " + (key == "vals" ? "" : key + "=") + FormatValue(value);
  };
  for (const char* key : {"minval", "maxval"}) {
    if (range.contains(key)) add(key, range.at(key));
  }
  for (const auto& [key, value] : range.items()) {
    if (key != "type" && key != "minval" && key != "maxval") add(key, value);
  }
  return text;
}

std::string NumberText(const ComparedRow& row, double value) {
  if (row.section != "effort") return FormatMetric(value);
  if (row.name != "seconds") return FormatBriefly(value);
  return (value < 0 ? "-" : "") + FormatSeconds(std::abs(value));
}

// "0.951", "adam", "-".
std::string ValueText(const ComparedRow& row, const nlohmann::json& value) {
  if (value.is_null()) return "-";
  if (value.is_number_float()) return NumberText(row, value.get<double>());
  if (value.is_object() && value.contains("type")) return RangeText(value);
  return FormatValue(value);
}

// "+0.0139 (+1.4 %, better)", or empty.
std::string DifferenceText(const ComparedRow& row, const ComparedValue& value) {
  if (!value.difference) return "";
  if (*value.difference == 0) return "equal";
  std::vector<std::string> notes;
  if (value.percent) {
    notes.push_back(Signed(*value.percent, FormatFixed(*value.percent, 1)) +
                    " %");
  }
  const std::string verdict = FormatVerdict(value);
  if (!verdict.empty()) notes.push_back(verdict);
  const double difference = DropNoise(*value.difference);
  return Signed(difference, NumberText(row, difference)) +
         (notes.empty() ? "" : " (" + Join(notes, ", ") + ")");
}

std::string CellText(const ComparedRow& row, const ComparedValue& value) {
  const std::string difference = DifferenceText(row, value);
  return Truncate(ValueText(row, value.value), kMaxCell) +
         (difference.empty() ? "" : "  " + difference);
}

Tone ToneOfValue(const ComparedValue& value) {
  return !value.better   ? Tone::kPlain
         : *value.better ? Tone::kGood
                         : Tone::kBad;
}

std::string TargetHeading(const TargetComparison& comparison, std::size_t i) {
  return comparison.targets[i].id + " " + comparison.targets[i].name +
         (i == comparison.baseline ? " (baseline)" : "");
}

// One column for each target.
void PrintColumns(const TargetComparison& comparison,
                  const TerminalMode& mode) {
  std::string section;
  std::size_t i = 0;
  while (i < comparison.rows.size()) {
    section = comparison.rows[i].section;
    std::vector<Column> columns = {{.name = section}};
    for (std::size_t t = 0; t < comparison.targets.size(); ++t) {
      columns.push_back(
          {.name = TargetHeading(comparison, t), .verbatim = true});
    }
    Table table(columns);
    for (; i < comparison.rows.size() && comparison.rows[i].section == section;
         ++i) {
      std::vector<Cell> cells = {comparison.rows[i].name};
      for (const ComparedValue& value : comparison.rows[i].values) {
        const std::string text = CellText(comparison.rows[i], value);
        cells.emplace_back(text, text, ToneOfValue(value));
      }
      table.AddRow(std::move(cells));
    }
    table.PrintText(std::cout, mode);
    if (i < comparison.rows.size()) std::cout << '\n';
  }
}

// The name of a row, and below it a line for each target: for narrow terminals.
void PrintBlocks(const TargetComparison& comparison, const TerminalMode& mode) {
  std::size_t width = 0;
  for (std::size_t t = 0; t < comparison.targets.size(); ++t) {
    width = std::max(width, comparison.targets[t].id.size());
  }
  const std::size_t limit = mode.width == 0 ? 80 : mode.width;
  std::string section;
  for (const ComparedRow& row : comparison.rows) {
    if (row.section != section) {
      section = row.section;
      std::cout << Paint(mode, Tone::kStrong, section) << '\n';
    }
    std::cout << "  "
              << Truncate(EscapeForTerminal(row.name), limit - 2,
                          Ellipsis(mode))
              << '\n';
    for (std::size_t t = 0; t < row.values.size(); ++t) {
      const std::string& id = comparison.targets[t].id;
      const std::string text = "    " + id +
                               std::string(width - id.size() + 2, ' ') +
                               EscapeForTerminal(CellText(row, row.values[t]));
      std::cout << Paint(mode, ToneOfValue(row.values[t]),
                         Truncate(text, limit, Ellipsis(mode)))
                << '\n';
    }
  }
}

// The width of the widest section in columns.
std::size_t WidthInColumns(const TargetComparison& comparison) {
  std::size_t names = 0;
  std::vector<std::size_t> widths;
  for (std::size_t t = 0; t < comparison.targets.size(); ++t) {
    widths.push_back(DisplayWidth(TargetHeading(comparison, t)) + 2);
  }
  for (const ComparedRow& row : comparison.rows) {
    names = std::max(names, DisplayWidth(row.name));
    for (std::size_t t = 0; t < widths.size(); ++t) {
      widths[t] =
          std::max(widths[t], DisplayWidth(CellText(row, row.values[t])) + 2);
    }
  }
  for (const std::size_t width : widths) names += width;
  return names;
}

void PrintComparisonText(const TargetComparison& comparison,
                         const GlobalOptions& globals) {
  const TerminalMode mode = GetTerminalMode(STDOUT_FILENO, globals.color);
  if (mode.width == 0 || WidthInColumns(comparison) <= mode.width) {
    PrintColumns(comparison, mode);
  } else {
    PrintBlocks(comparison, mode);
  }
}

void PrintMarkdown(const TargetComparison& comparison) {
  std::string section;
  for (const ComparedRow& row : comparison.rows) {
    if (row.section != section) {
      std::cout << (section.empty() ? "" : "\n") << "| " << row.section;
      section = row.section;
      std::string line = "|---";
      for (std::size_t t = 0; t < comparison.targets.size(); ++t) {
        std::cout << " | " << MarkdownCell(TargetHeading(comparison, t));
        line += "|---";
      }
      std::cout << " |\n" << line << "|\n";
    }
    std::cout << "| " << MarkdownCell(row.name);
    for (const ComparedValue& value : row.values) {
      std::cout << " | " << MarkdownCell(CellText(row, value));
    }
    std::cout << " |\n";
  }
}

// One line for each row and target, so that numbers stay numbers.
void PrintComparisonCsv(const TargetComparison& comparison,
                        const GlobalOptions& globals) {
  Table table({{.name = "section"},
               {.name = "name"},
               {.name = "target"},
               {.name = "value"},
               {.name = "difference"},
               {.name = "percent"},
               {.name = "verdict"}});
  for (const ComparedRow& row : comparison.rows) {
    for (std::size_t t = 0; t < row.values.size(); ++t) {
      const ComparedValue& one = row.values[t];
      const auto number = [](const std::optional<double>& value) {
        return Cell(value ? FormatNumber(*value) : "");
      };
      std::string value;
      if (one.value.is_string()) {
        value = one.value.get<std::string>();
      } else if (!one.value.is_null()) {
        value = one.value.dump();
      }
      table.AddRow({row.section, row.name, comparison.targets[t].id,
                    Cell(value, value), number(one.difference),
                    number(one.percent), FormatVerdict(one)});
    }
  }
  PrintTable(table, Format::kCsv, globals);
}

nlohmann::json NumberOrNull(const std::optional<double>& value) {
  return value ? JsonNumber(*value) : nlohmann::json(nullptr);
}

void PrintComparisonJson(const TargetComparison& comparison,
                         const TrialSelection& selection) {
  nlohmann::json targets = nlohmann::json::array();
  for (const ComparedTarget& target : comparison.targets) {
    targets.push_back(
        {{"id", target.id},
         {"name", target.name},
         {"trial", target.trial.empty() ? nlohmann::json(nullptr)
                                        : nlohmann::json(target.trial)}});
  }
  nlohmann::json rows = nlohmann::json::array();
  for (const ComparedRow& row : comparison.rows) {
    nlohmann::json values = nlohmann::json::array();
    for (const ComparedValue& value : row.values) {
      const std::string verdict = FormatVerdict(value);
      values.push_back(
          {{"value", value.value},
           {"difference", NumberOrNull(value.difference)},
           {"percent", NumberOrNull(value.percent)},
           {"verdict", verdict.empty() ? nlohmann::json(nullptr)
                                       : nlohmann::json(verdict)}});
    }
    rows.push_back({{"section", row.section},
                    {"name", row.name},
                    {"values", std::move(values)}});
  }
  PrintJson({{"targets", std::move(targets)},
             {"baseline", comparison.targets[comparison.baseline].id},
             {"filter", selection.ToJson()},
             {"rows", std::move(rows)},
             {"warnings", comparison.warnings}});
}

// Prints on stderr which trials represent their searches.
void PrintBestTrials(const TargetComparison& comparison,
                     const GlobalOptions& globals) {
  std::vector<std::string> best, none;
  for (const ComparedTarget& target : comparison.targets) {
    if (target.trial.empty()) {
      none.push_back(target.id);
    } else if (target.trials > 1) {
      best.push_back(target.trial + " (of " + std::to_string(target.trials) +
                     ")");
    }
  }
  if (!best.empty()) {
    PrintNotice(
        globals,
        "note: hyperparameters and metrics are those of the best trial: " +
            Join(best, ", "));
  }
  if (!none.empty()) {
    PrintNotice(
        globals,
        "note: no hyperparameters and metrics, because no trial has a finite "
        "value of the searcher's metric: " +
            Join(none, ", "));
  }
}

int PrintComparison(TargetComparison comparison, const CompareOptions& options,
                    const TrialSelection& selection,
                    const GlobalOptions& globals) {
  const std::size_t compared = comparison.rows.size();
  if (!options.all) {
    std::erase_if(comparison.rows,
                  [](const ComparedRow& row) { return row.equal(); });
  }
  for (const std::string& warning : comparison.warnings) {
    PrintNotice(globals, "warning: " + warning);
  }
  PrintBestTrials(comparison, globals);
  if (options.json) {
    PrintComparisonJson(comparison, selection);
  } else if (options.csv) {
    PrintComparisonCsv(comparison, globals);
  } else if (options.markdown) {
    PrintMarkdown(comparison);
    if (selection.is_filtered()) {
      std::cout << '\n'
                << selection.Text() << ' ' << MarkdownCell(selection.filter())
                << "; the others are left out.\n";
    }
  } else {
    PrintComparisonText(comparison, globals);
  }
  const std::size_t hidden = compared - comparison.rows.size();
  if (hidden > 0 && !options.json && !options.csv) {
    PrintNotice(globals, CountText(hidden, "equal row is", "equal rows are") +
                             " hidden; --all shows them");
  }
  return kExitDone;
}

Listing<TrialGroup> GroupListing(const std::string& hparam) {
  const auto number = [](double value) {
    return Cell(FormatMetric(DropNoise(value)), FormatNumber(value));
  };
  return {.name = "groups",
          .columns = {{.name = hparam, .verbatim = true},
                      {.name = "trials", .right = true},
                      {.name = "mean", .right = true},
                      {.name = "deviation", .right = true},
                      {.name = "median", .right = true},
                      {.name = "best", .right = true}},
          .json =
              [](const TrialGroup& group) {
                return nlohmann::json{
                    {"value", group.value},   {"trials", group.trials},
                    {"mean", group.mean},     {"deviation", group.deviation},
                    {"median", group.median}, {"best", group.best}};
              },
          .cells =
              [number](const TrialGroup& group) {
                return std::vector<Cell>{ValueText(ComparedRow(), group.value),
                                         std::to_string(group.trials),
                                         number(group.mean),
                                         number(group.deviation),
                                         number(group.median),
                                         number(group.best)};
              }};
}

int PrintGroups(const CompareOptions& options, const Store& store,
                const std::vector<Target>& targets,
                const TrialSelection& selection, const GlobalOptions& globals) {
  const std::string hparam = ParseGroup(options.group, targets);
  const ExperimentRow first = FindTarget(store, targets.front());
  if (options.metrics.size() > 1) {
    throw Error(ErrorKind::kUsage, "--group takes one --metric");
  }
  const MetricGoal goal = ParseMetricGoal(
      "--metric", options.metrics.empty() ? first.metric : options.metrics[0],
      first);
  std::optional<ValuePlace> place;
  if (!options.at.empty()) place = ParseValuePlace("--at", options.at);
  const TrialGroups found =
      GroupTrials(store, targets, hparam, goal, place, selection);
  PrintNotice(
      globals,
      goal.metric + " " + found.values.PlaceText() + " of " +
          CountText(found.trials, "trial") +
          (found.left_out == 0
               ? ""
               : "; " + CountText(found.left_out, "trial has", "trials have") +
                     " no finite value there and " +
                     (found.left_out == 1 ? "is" : "are") + " left out"));
  const std::string header = hparam == kPointGroup ? "point" : hparam;
  PrintListing(GroupListing(header), found.groups, options.format(), globals,
               {{"hparam", header},
                {"metric", goal.metric},
                {"at", found.values.PlaceJson()},
                {"smaller_is_better", goal.smaller_is_better}});
  return kExitDone;
}

int Compare(const CompareOptions& options, const GlobalOptions& globals) {
  if (options.markdown && (options.json || options.csv)) {
    throw Error(ErrorKind::kUsage,
                "--md cannot be combined with --json or --csv");
  }
  if (options.markdown && !options.group.empty()) {
    throw Error(ErrorKind::kUsage, "--md cannot be combined with --group");
  }
  const Store store = OpenStore(globals);
  const auto targets = FindTargets(store, options);
  const std::size_t baseline = FindBaseline(store, options, targets);
  const TrialSelection selection(store, targets, options.filter,
                                 Clock::System().now());
  PrintNotes(selection, globals);
  if (options.group.empty() && !options.at.empty()) {
    throw Error(ErrorKind::kUsage, "--at needs --group");
  }
  if (!options.group.empty()) {
    return PrintGroups(options, store, targets, selection, globals);
  }
  return PrintComparison(
      CompareTargets(store, targets, baseline, options.metrics, selection),
      options, selection, globals);
}

}  // namespace

CommandRun SetUpCompare(CLI::App& app) {
  auto options = std::make_shared<CompareOptions>();
  AddOption(app, "EXP", options->targets, "Experiments (3) or trials (3.7)")
      .Completes(ValueKind::kTarget)
      .Required();
  AddOption(app, "--metric", options->metrics,
            "Only this validation metric (repeatable; default: all)")
      .TypeName("NAME")
      .Completes(ValueKind::kMetric)
      .OneEach();
  AddOption(app, "--baseline", options->baseline,
            "Compare with this one (default: the first)")
      .TypeName("EXP")
      .Completes(ValueKind::kTarget);
  AddFlag(app, "--all", options->all, "Show equal rows, too");
  AddOption(
      app, "--group", options->group,
      "Statistics of all trials by their value of a hyperparameter, or of "
      "the repeats of each point")
      .TypeName("hp.NAME|points")
      .Completes(ValueKind::kHparam);
  AddOption(app, "--at", options->at,
            "With --group, compare at this length (default: one that enough "
            "trials reached), the best or last validation")
      .TypeName("LENGTH|best|last")
      .Suggests({"best", "last"});
  AddTrialFilter(app, options->filter);
  AddTableOptions(app, *options);
  AddFlag(app, "--md", options->markdown, "Print Markdown tables");
  SetHelp(app, {.exits = ReaderExits(),
                .examples = {
                    {"Show how two experiments differ", "dtrain compare 3 4"},
                    {"Compare the seeds of an experiment by optimizer",
                     "dtrain compare 3 --group hp.optimizer"}}});
  return RunWith(Compare, options);
}

}  // namespace dtrain
