#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "engine/analysis/statistics.h"
#include "engine/app/stores.h"
#include "engine/app/trial_values.h"
#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/base/metric_order.h"
#include "engine/base/text.h"
#include "engine/report/format.h"
#include "engine/report/json_view.h"
#include "engine/slots/slots.h"

namespace dtrain {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

using SortValues = std::map<TrialId, double>;

SortValues SearcherValues(const std::vector<TrialRow>& trials) {
  SortValues values;
  for (const TrialRow& trial : trials) {
    if (trial.best) values[trial.id] = trial.best->value;
  }
  return values;
}

SortValues OtherValues(const Store& store, const ExperimentRow& experiment,
                       const std::string& metric,
                       const std::vector<TrialRow>& trials) {
  std::map<TrialId, std::int64_t> best_batches;
  for (const TrialRow& trial : trials) {
    if (trial.best) best_batches[trial.id] = trial.best->batches;
  }
  SortValues values;
  store.ForEachMetric({.experiment = experiment.id,
                       .kind = MetricKind::kValidation,
                       .name = metric},
                      [&](const MetricRow& row) {
                        // Rows come by batches: what comes after the best one
                        // is not wanted.
                        const auto best = best_batches.find(row.trial);
                        const bool later = best != best_batches.end() &&
                                           row.batches > best->second;
                        if (!later) values[row.trial] = row.value;
                      });
  if (!values.empty()) return values;
  const std::vector<std::string> names = store.MetricNames(experiment.id);
  throw Error(ErrorKind::kNotFound,
              "--sort: experiment " + std::to_string(experiment.id) +
                  " has no validation metric '" + metric + "'; reported: " +
                  (names.empty() ? "none yet" : Join(names, ", ")) +
                  "; or sort by best or rung");
}

// Sorts by values, those of trials without one last.
void SortByValues(const SortValues& values, bool ascending,
                  std::vector<TrialRow>& trials) {
  const auto value_of = [&](const TrialRow& trial) {
    const auto found = values.find(trial.id);
    return found == values.end() ? kNone : found->second;
  };
  std::ranges::stable_sort(trials, [&](const TrialRow& a, const TrialRow& b) {
    const double left = value_of(a);
    const double right = value_of(b);
    if (std::isnan(left) || std::isnan(right)) {
      return !std::isnan(left) && std::isnan(right);
    }
    return IsBetter(left, right, ascending);
  });
}

// The best trials by the searcher's metric first.
void SortByBest(const ExperimentRow& experiment, bool reverse,
                std::vector<TrialRow>& trials) {
  SortByValues(SearcherValues(trials), experiment.smaller_is_better != reverse,
               trials);
}

// Sorts by a key of --sort: best, rung, the searcher's metric (best first), or
// another metric (smallest first; with a minus sign before it largest first).
// `reverse`: the other way round.
void SortTrials(const Store& store, const ExperimentRow& experiment,
                std::string key, bool reverse, const GlobalOptions& globals,
                std::vector<TrialRow>& trials) {
  if (key == "best" || key == experiment.metric) {
    return SortByBest(experiment, reverse, trials);
  }
  if (key == "rung") {
    SortByBest(experiment, reverse, trials);
    std::ranges::stable_sort(trials, [&](const auto& a, const auto& b) {
      return reverse ? a.rung < b.rung : a.rung > b.rung;
    });
    return;
  }
  const bool descending = key.starts_with('-');
  if (descending) key.erase(0, 1);
  const bool ascending = descending == reverse;
  const SortValues values = key == experiment.metric
                                ? SearcherValues(trials)
                                : OtherValues(store, experiment, key, trials);
  SortByValues(values, ascending, trials);
  if (descending || reverse) return;
  Say(globals, "note: sorted by " + key +
                   ", the smallest value first; --reverse shows the largest "
                   "first");
}

// Adds a column hp.NAME for each hyperparameter of a row, after the others: for
// CSV, where `hparams` has all in one field.
template <typename Row, typename HparamsOf>
void AddHparamColumns(const std::vector<Row>& rows, const HparamsOf& hparams_of,
                      Listing<Row>& listing) {
  std::set<std::string> names;
  for (const Row& row : rows) {
    for (const auto& [name, value] : FlattenNames(hparams_of(row))) {
      names.insert(name);
    }
  }
  for (const std::string& name : names) {
    listing.columns.push_back({.name = "hp." + name});
  }
  listing.cells = [names, hparams_of,
                   first = std::move(listing.cells)](const Row& row) {
    std::vector<Cell> cells = first(row);
    const auto flat = FlattenNames(hparams_of(row));
    for (const std::string& name : names) {
      const auto found = flat.find(name);
      const std::string value = found == flat.end() ? ""
                                : found->second.is_string()
                                    ? found->second.template get<std::string>()
                                    : found->second.dump();
      cells.emplace_back(value);
    }
    return cells;
  };
}

struct TrialsOptions : TableOptions {
  std::string experiment;
  std::string sort;
  bool reverse = false;
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
    SortTrials(store, detail.row, options.sort, options.reverse, globals, rows);
  } else if (options.reverse) {
    std::ranges::reverse(rows);
  }
  KeepFirst(options.limit, rows);
  const SlotQueueView queue(store);
  const std::string counted =
      CountColumn(store, detail.row.id, options.format());
  auto listing = TrialListing(detail, queue, counted, Clock::System().now());
  if (options.csv) {
    AddHparamColumns(
        rows, [](const TrialRow& row) { return row.hparams; }, listing);
  }
  PrintListing(listing, rows, options.format(), globals);
  return kExitDone;
}

struct BestOptions : TableOptions {
  std::string experiment;
  std::size_t count = 1;
  std::string pareto;
};

// A trial and its best checkpoint.
struct ListedTrial {
  TrialRow row;
  std::optional<CheckpointRow> saved;
  std::string storage;  // of the checkpoint of its best validation
};

nlohmann::json SavedJson(const std::optional<CheckpointRow>& saved,
                         const Store& store) {
  if (!saved) return nullptr;
  return {{"checkpoint", saved->uuid},
          {"batches", saved->batches},
          {"value", JsonNumber(*saved->metric)},
          {"path", store.PathOf(*saved).string()}};
}

nlohmann::json BestTrialJson(const ListedTrial& trial,
                             const std::string& metric, const Store& store) {
  const TrialRow& row = trial.row;
  nlohmann::json json = BestJson(row.best, metric, row.id);
  const std::string& checkpoint = row.best->checkpoint;
  json["hparams"] = row.hparams;
  json["state"] = StateName(row.state);
  json["rung"] = row.rung;
  json["reason"] =
      row.reason.empty() ? nlohmann::json(nullptr) : nlohmann::json(row.reason);
  json["path"] = nullptr;
  if (!checkpoint.empty()) {
    json["path"] =
        (store.CheckpointsOf(row.id, trial.storage) / checkpoint).string();
  }
  json["best_saved"] = SavedJson(trial.saved, store);
  return json;
}

// Returns the trials with a best validation, best first, at most `count`.
std::vector<ListedTrial> BestTrials(const Store& store,
                                    const ExperimentRow& row,
                                    std::size_t count) {
  auto trials = ListTrials(store, row);
  std::erase_if(trials, [](const TrialRow& trial) { return !trial.best; });
  SortByBest(row, /*reverse=*/false, trials);
  KeepFirst(count, trials);
  const auto checkpoints = store.Checkpoints(row.id);
  std::vector<ListedTrial> best;
  for (TrialRow& trial : trials) {
    auto saved = BestSavedCheckpoint(checkpoints, row, trial.id.number);
    const auto there = std::ranges::find(checkpoints, trial.best->checkpoint,
                                         &CheckpointRow::uuid);
    best.push_back(
        {.row = std::move(trial),
         .saved = std::move(saved),
         .storage = there == checkpoints.end() ? "" : there->storage});
  }
  return best;
}

std::vector<Cell> Row(const ListedTrial& trial,
                      const ExperimentDetail& detail) {
  const TrialRow& row = trial.row;
  const nlohmann::json space =
      detail.config.value("hyperparameters", nlohmann::json::object());
  const std::string state(StateName(row.state));
  return {ToString(row.id),
          Cell(FormatMetric(row.best->value), FormatNumber(row.best->value)),
          HparamsCell(space, row.hparams),
          std::to_string(row.rung),
          Cell(state, state, ToneOf(row.state)),
          row.best->checkpoint,
          std::to_string(row.best->batches),
          row.reason,
          detail.row.metric};
}

Listing<ListedTrial> BestListing(const ExperimentDetail& detail,
                                 const Store& store,
                                 const std::string& counted) {
  return {
      .name = "best",
      .columns = {{.name = "trial", .right = true},
                  {.name = "value", .right = true},
                  {.name = "hparams", .elastic = true, .least = 24},
                  {.name = "rung", .right = true},
                  {.name = "state"},
                  {.name = "checkpoint", .elastic = true, .least = 9},
                  {.name = counted, .right = true, .optional = true},
                  {.name = "reason", .elastic = true, .least = 24},
                  {.name = "metric", .optional = true}},
      .json =
          [&detail, &store](const ListedTrial& trial) {
            return BestTrialJson(trial, detail.row.metric, store);
          },
      .cells =
          [&detail](const ListedTrial& trial) { return Row(trial, detail); }};
}

// A trial of the Pareto front and its value of each metric.
struct ParetoTrial {
  TrialRow row;
  std::vector<double> values;
};

// Parses "accuracy:max,latency:min".
std::vector<MetricGoal> ParseGoals(const std::string& text,
                                   const ExperimentRow& experiment) {
  std::vector<MetricGoal> goals;
  for (const std::string& one : Split(text, ',')) {
    goals.push_back(ParseMetricGoal("--pareto", one, experiment));
    const auto equal =
        std::ranges::count(goals, goals.back().metric, &MetricGoal::metric);
    if (equal == 1) continue;
    throw Error(ErrorKind::kUsage,
                "--pareto: metric '" + goals.back().metric + "' comes twice");
  }
  if (goals.size() >= 2 && goals.size() <= 4) return goals;
  throw Error(ErrorKind::kUsage,
              "--pareto: expected 2 to 4 metrics, as in "
              "accuracy:max,latency:min, got " +
                  std::to_string(goals.size()));
}

// Returns the trials that no other one dominates, the best in the first metric
// first. A trial's values are those of its best validation by the searcher's
// metric; trials that lack one are left out and counted.
std::vector<ParetoTrial> ParetoTrials(const Store& store,
                                      const ExperimentDetail& detail,
                                      const std::vector<MetricGoal>& goals,
                                      std::size_t& left_out) {
  const auto rows = ListTrials(store, detail.row);
  std::vector<TrialValues> metrics;
  std::vector<bool> smaller_is_better;
  for (const MetricGoal& goal : goals) {
    metrics.push_back(ReadTrialValues(store, detail, rows, goal.metric,
                                      ValuePlace{ValuePlace::Kind::kBest}));
    smaller_is_better.push_back(goal.smaller_is_better);
  }
  std::vector<ParetoTrial> trials;
  std::vector<std::vector<double>> points;
  for (const TrialRow& row : rows) {
    std::vector<double> values;
    for (const TrialValues& metric : metrics) {
      const auto value = metric.values.find(row.id.number);
      values.push_back(value == metric.values.end() ? kNone : value->second);
    }
    const auto is_nan = [](double value) { return std::isnan(value); };
    left_out += std::ranges::any_of(values, is_nan) ? 1 : 0;
    trials.push_back({row, values});
    points.push_back(std::move(values));
  }
  std::vector<ParetoTrial> front;
  for (const std::size_t index : ParetoFront(points, smaller_is_better)) {
    front.push_back(std::move(trials[index]));
  }
  std::ranges::stable_sort(
      front, [&](const ParetoTrial& a, const ParetoTrial& b) {
        return IsBetter(a.values[0], b.values[0], smaller_is_better[0]);
      });
  return front;
}

Listing<ParetoTrial> ParetoListing(const ExperimentDetail& detail,
                                   const std::vector<MetricGoal>& goals) {
  std::vector<Column> columns = {{.name = "trial", .right = true}};
  for (const MetricGoal& goal : goals) {
    columns.push_back({.name = goal.metric, .right = true, .verbatim = true});
  }
  columns.push_back({.name = "hparams", .elastic = true, .least = 24});
  columns.push_back({.name = "state"});
  columns.push_back({.name = "checkpoint", .elastic = true, .least = 9});
  const nlohmann::json space =
      detail.config.value("hyperparameters", nlohmann::json::object());
  return {.name = "pareto",
          .columns = std::move(columns),
          .json =
              [&goals](const ParetoTrial& trial) {
                nlohmann::json metrics = nlohmann::json::object();
                for (std::size_t i = 0; i < goals.size(); ++i) {
                  metrics[goals[i].metric] = JsonNumber(trial.values[i]);
                }
                const std::string& checkpoint = trial.row.best->checkpoint;
                return nlohmann::json{
                    {"trial", ToString(trial.row.id)},
                    {"metrics", std::move(metrics)},
                    {"hparams", trial.row.hparams},
                    {"state", StateName(trial.row.state)},
                    {"batches", trial.row.best->batches},
                    {"checkpoint", checkpoint.empty()
                                       ? nlohmann::json(nullptr)
                                       : nlohmann::json(checkpoint)}};
              },
          .cells =
              [space](const ParetoTrial& trial) {
                std::vector<Cell> cells = {ToString(trial.row.id)};
                for (const double value : trial.values) {
                  cells.emplace_back(FormatMetric(value), FormatNumber(value));
                }
                const std::string state(StateName(trial.row.state));
                cells.push_back(HparamsCell(space, trial.row.hparams));
                cells.emplace_back(state, state, ToneOf(trial.row.state));
                cells.emplace_back(trial.row.best->checkpoint);
                return cells;
              }};
}

int PrintPareto(const BestOptions& options, const Store& store,
                const ExperimentDetail& detail, const GlobalOptions& globals) {
  const auto goals = ParseGoals(options.pareto, detail.row);
  std::size_t left_out = 0;
  const auto front = ParetoTrials(store, detail, goals, left_out);
  nlohmann::json axes = nlohmann::json::array();
  for (const MetricGoal& goal : goals) {
    axes.push_back({{"metric", goal.metric},
                    {"smaller_is_better", goal.smaller_is_better}});
  }
  PrintListing(ParetoListing(detail, goals), front, options.format(), globals,
               {{"experiment", detail.row.id}, {"metrics", std::move(axes)}});
  if (left_out > 0) {
    Say(globals, "note: " + std::to_string(left_out) +
                     (left_out == 1 ? " trial lacks" : " trials lack") +
                     " one of these metrics at the best validation by " +
                     detail.row.metric);
  }
  return kExitDone;
}

int Best(const BestOptions& options, const GlobalOptions& globals) {
  const Store store = OpenStore(globals);
  const ExperimentDetail detail =
      FindExperimentDetail(store, ParseExperimentId(options.experiment));
  if (!options.pareto.empty()) {
    return PrintPareto(options, store, detail, globals);
  }
  const auto rows = BestTrials(store, detail.row, options.count);
  if (rows.empty() && !options.json) {
    Say(globals, "experiment " + options.experiment +
                     " has no finite validation value of " + detail.row.metric +
                     (IsFinal(detail.row.state) ? "" : " so far"));
  }
  const std::string counted =
      CountColumn(store, detail.row.id, options.format());
  auto listing = BestListing(detail, store, counted);
  if (options.csv) {
    AddHparamColumns(
        rows, [](const ListedTrial& trial) { return trial.row.hparams; },
        listing);
  }
  PrintListing(listing, rows, options.format(), globals,
               {{"experiment", detail.row.id}, {"metric", detail.row.metric}});
  const Unit unit = CountedUnit(store, detail.row.id);
  for (const ListedTrial& trial : rows) {
    if (!trial.row.best->checkpoint.empty()) continue;
    Say(globals, "note: " + NoBestCheckpointText(trial.row, detail.row,
                                                 trial.saved, unit));
  }
  return kExitDone;
}

}  // namespace

CommandRun SetUpTrials(CLI::App& app) {
  auto options = std::make_shared<TrialsOptions>();
  AddOption(app, "EXP", options->experiment, "Experiment ID (3)").Required();
  AddOption(app, "--sort", options->sort,
            "Sort by best, rung or a metric (default: by number)")
      .TypeName("KEY")
      .Suggests({"best", "rung"})
      .Completes(ValueKind::kMetric);
  AddFlag(app, "--reverse", options->reverse, "Reverse the order");
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

CommandRun SetUpBest(CLI::App& app) {
  auto options = std::make_shared<BestOptions>();
  AddOption(app, "EXP", options->experiment, "Experiment ID (3)").Required();
  const CliOption count =
      AddOption(app, "-n", options->count, "Show at most N trials")
          .TypeName("N")
          .AtLeast(1)
          .ShowDefault();
  AddOption(app, "--pareto", options->pareto,
            "Show the Pareto front of 2 to 4 metrics")
      .TypeName("M1:max,M2:min")
      .Excludes(count);
  AddTableOptions(app, *options);
  SetHelp(app, {.exits = ReaderExits(),
                .examples = {{"Show the best trial", "dtrain best 3"},
                             {"Show trials that are both accurate and fast",
                              "dtrain best 3 --pareto "
                              "accuracy:max,latency:min"}}});
  return RunWith(Best, options);
}

}  // namespace dtrain
