// The plan of a search and its simulation, as tables and JSON.
//
// The plan is what the searcher would do if every trial were validated at once.
// In a real search trials are promoted while others still train, so more of
// them may reach a rung; the expected range comes from simulated searches with
// random metrics.

#include "engine/report/search_preview.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "engine/base/length.h"
#include "engine/base/metric_order.h"
#include "engine/base/rounding.h"
#include "engine/base/text.h"
#include "engine/report/format.h"
#include "engine/report/json_view.h"
#include "engine/report/terminal.h"
#include "searchers/hparam_space.h"

namespace dtrain {
namespace {

using nlohmann::json;

constexpr std::size_t kBestShown = 5;

// `planned` is false if a program decides how long it trains.
std::string LengthText(std::int64_t length, Unit unit, bool planned) {
  if (!planned) return "decided by the program";
  return LengthText(length, unit);
}

std::string RungsText(const std::vector<std::int64_t>& rungs) {
  std::vector<std::string> lengths;
  for (const std::int64_t rung : rungs) lengths.push_back(std::to_string(rung));
  return Join(lengths, ", ");
}

std::string EndName(const std::optional<ExitReason>& exit) {
  if (!exit) return "closed";
  switch (*exit) {
    case ExitReason::kErrored:
      return "errored";
    case ExitReason::kInvalidHp:
      return "invalid_hp";
    case ExitReason::kUserStop:
      return "user_stop";
  }
  return "errored";
}

// True if the trials have planned lengths.
bool IsPlanned(const Simulation& simulation) {
  return std::ranges::none_of(
      simulation.trials, [](const SimulatedTrial& trial) {
        return !trial.lengths.empty() && trial.lengths.front() == 0;
      });
}

// Returns null if the program decides the length.
json LengthJson(std::int64_t length) {
  return length == 0 ? json() : json(length);
}

std::map<std::int64_t, std::int64_t> TrialsByFinalLength(
    const Simulation& simulation) {
  std::map<std::int64_t, std::int64_t> trials;
  for (const SimulatedTrial& trial : simulation.trials) {
    ++trials[trial.final_length()];
  }
  return trials;
}

json TrialJson(const SimulatedTrial& trial) {
  json lengths = json::array();
  for (const std::int64_t length : trial.lengths) {
    lengths.push_back(LengthJson(length));
  }
  return {{"trial", trial.created.trial},
          {"request_id", trial.created.request_id},
          {"trial_seed", trial.created.seed},
          {"hparams", trial.created.hparams},
          {"ops", std::move(lengths)},
          {"final_length", trial.lengths.empty()
                               ? json(trial.final_length())
                               : LengthJson(trial.final_length())},
          {"end", EndName(trial.exit)}};
}

// The best validation of one trial.
struct Best {
  const SimulatedTrial* trial = nullptr;
  double value = 0;
  std::int64_t length = 0;
};

std::vector<Best> BestTrials(const PlayedSearch& search) {
  const bool smaller = search.config.smaller_is_better;
  const auto better = [&](double a, double b) {
    return IsBetter(a, b, smaller);
  };
  std::vector<Best> best;
  for (const SimulatedTrial& trial : search.simulation.trials) {
    std::optional<Best> own;
    for (const std::int64_t length : trial.lengths) {
      const double value = search.metric(trial.created.trial, length);
      if (!own || better(value, own->value)) own = {&trial, value, length};
    }
    if (own) best.push_back(*own);
  }
  const auto first = best.begin() + static_cast<std::ptrdiff_t>(
                                        std::min(kBestShown, best.size()));
  std::partial_sort(best.begin(), first, best.end(),
                    [&](const Best& a, const Best& b) {
                      if (a.value != b.value) return better(a.value, b.value);
                      return a.trial->created.trial < b.trial->created.trial;
                    });
  best.erase(first, best.end());
  return best;
}

void PrintBest(const PlayedSearch& search, const TerminalMode& mode,
               std::ostream& out) {
  Table table({{.name = "trial", .right = true},
               {.name = "best", .right = true},
               {.name = "at", .right = true},
               {.name = "ended_at", .right = true},
               {.name = "end"},
               {.name = "hparams", .elastic = true}});
  for (const Best& best : BestTrials(search)) {
    const SimulatedTrial& trial = *best.trial;
    table.AddRow({std::to_string(trial.created.trial + 1),
                  FormatMetric(best.value),
                  best.length == 0 ? "-" : std::to_string(best.length),
                  best.length == 0 ? "-" : std::to_string(trial.final_length()),
                  EndName(trial.exit),
                  FormatHparamsBriefly(SearchedHparams(
                      search.hyperparameters, trial.created.hparams))});
  }
  if (!table.empty()) table.PrintText(out, mode);
}

json RangeJson(const std::string& name, const json& range) {
  const std::string type = range.at("type");
  json shown = {{"name", name}, {"type", type}};
  for (const char* key : {"when", "else"}) {
    if (range.contains(key)) shown[key] = range.at(key);
  }
  if (type == "categorical") {
    shown["vals"] = range.at("vals");
    return shown;
  }
  shown["log"] = type == "log" || IsLog(range);
  for (const char* key : {"mean", "std", "minval", "maxval", "step"}) {
    const auto value = range.find(key);
    if (value == range.end()) continue;
    shown[key] = *value;
    if (type != "log") continue;
    shown[key] = std::pow(range.value("base", 10.0), value->get<double>());
  }
  // A base below 1 reverses the bounds.
  if (type == "log" && shown.at("minval") > shown.at("maxval")) {
    shown.at("minval").swap(shown.at("maxval"));
  }
  return shown;
}

void AppendRanges(const json& space, const std::string& prefix, json& ranges) {
  for (const auto& [name, value] : space.items()) {
    if (!value.is_object()) continue;
    if (!HasType(value)) {
      AppendRanges(value, prefix + name + '.', ranges);
    } else if (value.at("type") != "const") {
      ranges.push_back(RangeJson(prefix + name, value));
    }
  }
}

// "optimizer is sgd or rmsprop and model.layers is at least 3".
std::string ConditionText(const json& when) {
  std::vector<std::string> parts;
  if (when.is_array()) {
    for (const json& one : when) parts.push_back(ConditionText(one));
    return Join(parts, " and ");
  }
  for (const auto& [name, values] : when.items()) {
    std::vector<std::string> texts;
    if (values.is_array()) {
      for (const json& value : values) texts.push_back(FormatValue(value));
      parts.push_back(name + " is " + Join(texts, " or "));
      continue;
    }
    if (values.contains("minval")) {
      texts.push_back("at least " + FormatValue(values.at("minval")));
    }
    if (values.contains("maxval")) {
      texts.push_back("at most " + FormatValue(values.at("maxval")));
    }
    parts.push_back(name + " is " + Join(texts, " and "));
  }
  return Join(parts, " and ");
}

std::string ValuesText(const json& range) {
  if (range.contains("vals")) {
    std::vector<std::string> values;
    for (const json& value : range.at("vals")) {
      values.push_back(FormatValue(value));
    }
    return Join(values, ", ");
  }
  const auto number = [&](const char* name) {
    const json& value = range.at(name);
    return value.is_number_float() ? FormatMetric(value.get<double>())
                                   : FormatValue(value);
  };
  const bool log = range.at("log");
  std::vector<std::string> parts;
  if (range.at("type") == "normal") {
    parts.push_back(std::string(log ? "log-normal" : "normal") + ", mean " +
                    number("mean") + ", std " + number("std"));
    if (log) parts.back() += " of the logarithm";
    if (range.contains("minval")) parts.push_back("from " + number("minval"));
    if (range.contains("maxval")) parts.push_back("up to " + number("maxval"));
    return Join(parts, ", ");
  }
  parts.push_back(number("minval") + " to " + number("maxval"));
  if (range.contains("step")) {
    parts.push_back("in steps of " + number("step"));
  } else if (range.at("type") == "int") {
    parts.emplace_back("integers");
  }
  if (log) parts.emplace_back("log-uniform");
  return Join(parts, ", ");
}

}  // namespace

json RangesJson(const json& hyperparameters) {
  json ranges = json::array();
  AppendRanges(hyperparameters, "", ranges);
  return ranges;
}

void PrintRanges(const json& hyperparameters, const TerminalMode& mode,
                 std::ostream& out) {
  Table table(
      {{.name = "hyperparameter"}, {.name = "values", .elastic = true}});
  for (const json& range : RangesJson(hyperparameters)) {
    std::string values = ValuesText(range);
    if (range.contains("when")) {
      values += " when " + ConditionText(range.at("when"));
    }
    if (range.contains("else")) {
      values += ", else " + FormatValue(range.at("else"));
    }
    table.AddRow({range.at("name").get<std::string>(), std::move(values)});
  }
  if (table.empty()) return;
  out << '\n';
  table.PrintText(out, mode);
}

json PlanJson(const SearchPlan& plan) {
  json rows = json::array();
  for (const PlanRow& row : plan.rows) {
    rows.push_back(
        {{"trials", row.trials}, {"length", LengthJson(row.length)}});
  }
  json brackets = json::array();
  for (const Bracket& bracket : plan.brackets) {
    brackets.push_back(
        {{"max_trials", bracket.max_trials},
         {"max_concurrent_trials", bracket.max_concurrent_trials},
         {"rungs", bracket.rungs}});
  }
  return {
      {"plan", std::move(rows)},
      {"brackets", std::move(brackets)},
      {"total_length", LengthJson(plan.total_length)},
      {"max_seconds", plan.max_seconds > 0 ? json(plan.max_seconds) : json()}};
}

std::string BudgetText(const SearchPlan& plan, Unit unit) {
  if (plan.max_seconds > 0) {
    return FormatSeconds(plan.max_seconds) + " of training in all trials";
  }
  return LengthText(plan.total_length, unit) + " in all trials";
}

json ExpectedJson(const std::optional<ExpectedSearch>& expected) {
  if (!expected) return nullptr;
  json trials = json::array();
  for (const auto& [length, range] : expected->trials) {
    trials.push_back({{"length", LengthJson(length)},
                      {"min", range.min},
                      {"max", range.max}});
  }
  const ExpectedRange& total = expected->total_length;
  return {{"simulations", expected->simulations},
          {"trials", std::move(trials)},
          {"total_length",
           {{"min", LengthJson(total.min)}, {"max", LengthJson(total.max)}}}};
}

std::string RangeText(const ExpectedRange& range) {
  const std::string min = std::to_string(range.min);
  return range.min == range.max ? min : min + "-" + std::to_string(range.max);
}

std::string ExpectedText(const ExpectedSearch& expected, Unit unit) {
  std::vector<std::string> parts;
  for (const auto& [length, range] : expected.trials) {
    // The last one names the unit.
    const bool last = parts.size() + 1 == expected.trials.size();
    parts.push_back(RangeText(range) + " to " +
                    (last ? LengthText(length, unit) : std::to_string(length)));
  }
  return Join(parts, ", ");
}

namespace {

bool IsSimulated(const PlannedSearch& search) {
  return search.expected && search.expected->simulations > 0;
}

// A search without a plan for each length has its expected trials only.
// REQUIRES: it has a plan or was simulated.
Table PlanTable(const PlannedSearch& search) {
  const bool planned = search.config.max_length > 0;
  std::vector<Column> columns = {{.name = "trials", .right = true},
                                 {.name = "length", .right = true}};
  if (IsSimulated(search)) {
    columns.push_back({.name = "expected", .right = true});
  }
  Table table(columns);
  if (search.plan.rows.empty()) {
    Table expected(std::vector<Column>{columns.at(1), columns.at(2)});
    for (const auto& [length, range] : search.expected->trials) {
      expected.AddRow({LengthText(length, search.unit), RangeText(range)});
    }
    return expected;
  }
  for (const PlanRow& row : search.plan.rows) {
    std::vector<Cell> cells = {std::to_string(row.trials),
                               LengthText(row.length, search.unit, planned)};
    if (IsSimulated(search)) {
      cells.emplace_back(RangeText(search.expected->trials.at(row.length)));
    }
    table.AddRow(std::move(cells));
  }
  return table;
}

Table BracketTable(const PlannedSearch& search) {
  Table table({{.name = "bracket", .right = true},
               {.name = "trials", .right = true},
               {.name = "at_once", .right = true},
               {.name = "rungs", .elastic = true}});
  for (const Bracket& bracket : search.plan.brackets) {
    const std::int64_t at_once = TrialsAtStart(bracket, search.config.divisor);
    const auto number = &bracket - search.plan.brackets.data() + 1;
    table.AddRow({std::to_string(number), std::to_string(bracket.max_trials),
                  std::to_string(at_once), RungsText(bracket.rungs)});
  }
  return table;
}

}  // namespace

void PrintSearchPlan(const PlannedSearch& search, const TerminalMode& mode,
                     std::ostream& out) {
  const SearcherConfig& config = search.config;
  const std::int64_t trials = search.plan.max_trials;
  const bool planned = config.max_length > 0;
  const bool by_model = IsModelBased(config);
  const auto print = [&](const std::string& text) {
    out << WrapText(EscapeForTerminal(text), 0, kWrapIndent, mode.width)
        << '\n';
  };
  print(config.name + " search of " + (by_model ? "up to " : "") +
        CountText(trials, "trial") +
        (config.repeats > 1
             ? ", " + CountText(trials / config.repeats, "point") +
                   " trained " + std::to_string(config.repeats) + " times,"
             : "") +
        (config.smaller_is_better ? " minimizing " : " maximizing ") +
        config.metric + ", " + (planned ? "up to " : "length ") +
        LengthText(config.max_length, search.unit, planned) +
        (planned ? " each" : ""));
  out << '\n';
  if (!by_model || IsSimulated(search)) PlanTable(search).PrintText(out, mode);
  const std::string expected =
      IsSimulated(search)
          ? "; expected " + RangeText(search.expected->total_length) + " in " +
                std::to_string(search.expected->simulations) +
                " simulated searches with random metrics"
          : "";
  if (by_model) {
    print("budget " + BudgetText(search.plan, search.unit) + expected +
          "; a model decides which trials train how long");
  } else if (planned) {
    print("in total " +
          LengthText(search.plan.total_length, search.unit, planned) +
          expected);
  }
  if (search.plan.brackets.empty()) return;
  out << '\n';
  BracketTable(search).PrintText(out, mode);
  if (by_model && config.max_concurrent_trials == 0) {
    print("AT ONCE becomes what the slots hold when the experiment is created");
  }
}

void PrintSimulation(const PlayedSearch& search, const TerminalMode& mode,
                     std::ostream& out) {
  const Simulation& simulation = search.simulation;
  std::map<std::string, std::int64_t> ends;
  for (const SimulatedTrial& trial : simulation.trials) {
    ++ends[EndName(trial.exit)];
  }
  const std::size_t trials = simulation.trials.size();
  std::vector<std::string> parts = {CountText(trials, "trial")};
  for (const auto& [name, count] : ends) {
    parts.push_back(std::to_string(count) + " " + name);
  }
  const std::string text =
      Join(parts, ", ") + (simulation.failed ? "; the search failed" : "");
  out << WrapText(text, 0, kWrapIndent, mode.width) << "\n\n";
  Table table({{.name = "trials", .right = true},
               {.name = "final_length", .right = true}});
  for (const auto& [length, count] : TrialsByFinalLength(simulation)) {
    table.AddRow(
        {std::to_string(count),
         LengthText(length, search.unit, search.config.max_length > 0)});
  }
  table.PrintText(out, mode);
  out << '\n';
  PrintBest(search, mode, out);
}

void WriteSimulationJson(const Simulation& simulation, std::ostream& out,
                         bool terminal) {
  out << "{\"n_trials\": " << simulation.trials.size()
      << ",\n \"trials_by_final_length\": {";
  const char* between = "";
  const bool planned = IsPlanned(simulation);
  for (const auto& [length, trials] : TrialsByFinalLength(simulation)) {
    out << between << '"' << (planned ? std::to_string(length) : "null")
        << "\": " << trials;
    between = ", ";
  }
  out << "},\n \"trials\": [";
  between = "\n  ";
  for (const SimulatedTrial& trial : simulation.trials) {
    out << between << DumpJson(TrialJson(trial), /*indent=*/-1, terminal);
    between = ",\n  ";
  }
  out << "]}\n";
}

}  // namespace dtrain
