// `dtrain best`: the best trials of an experiment, or its Pareto front.
//
// Trials are ranked first, by their best validation in the searcher's metric,
// and cut to -n; --sort and --reverse only change the order in which those are
// shown. Fields that --filter, --sort and --columns need are read from the
// store when they are first used (TrialFields), so the rows of the list are
// read without hyperparameters and completed for the trials that are shown.
//
// The checkpoint of the best validation may have been deleted. `best_saved` is
// the best checkpoint that exists, which is often another one.
//
// A value of the Pareto front is that of the trial's best validation by the
// searcher's metric, so that all values of a row were measured at once. Trials
// that lack one of the metrics there are left out and counted in a note.

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/selection.h"
#include "engine/analysis/statistics.h"
#include "engine/app/stores.h"
#include "engine/app/trial_fields.h"
#include "engine/app/trial_files.h"
#include "engine/app/trial_values.h"
#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/base/metric_order.h"
#include "engine/base/rounding.h"
#include "engine/base/text.h"
#include "engine/report/format.h"
#include "engine/report/json_view.h"

namespace dtrain {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

struct BestOptions : SelectionOptions {
  std::string experiment;
  std::size_t count = 1;
  std::string pareto;
  std::string sort;
  bool reverse = false;
};

// The order in which the best trials are shown, in place of their ranking.
struct ShownOrder {
  std::vector<SortKey> keys;
  bool reverse = false;
};

// Puts the rows, which are ranked, in the order of --sort and --reverse.
// `row_of` returns the trial of a row.
template <typename Listed, typename RowText>
void Reorder(const ShownOrder& order, TrialFields& fields,
             const RowText& row_of, std::vector<Listed>& rows) {
  if (order.keys.empty()) {
    if (order.reverse) std::ranges::reverse(rows);
    return;
  }
  SortRows(
      order.keys, order.reverse,
      [&](const Listed& listed, const FieldName& field) {
        return fields.GetValue(row_of(listed), field);
      },
      rows);
}

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
          {"path", store.CheckpointPath(*saved).string()}};
}

nlohmann::json BestTrialJson(const ListedTrial& trial,
                             const std::string& metric, Unit counted,
                             const Store& store) {
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
        (store.CheckpointDirectory(row.id, trial.storage) / checkpoint)
            .string();
  }
  json["best_saved"] = SavedJson(trial.saved, store);
  AddLength(counted, json);
  return json;
}

// True if the trial meets the condition.
bool Meets(const Filter& filter, TrialFields& fields, const TrialRow& trial) {
  return filter.Matches(
      [&](const FieldName& field) { return fields.GetValue(trial, field); });
}

// Returns the trials with a best validation that meet --filter, best first, at
// most -n.
std::vector<ListedTrial> BestTrials(
    const BestOptions& options, const Store& store, const ExperimentRow& row,
    const Filter& filter, const ShownOrder& order, TrialFields& fields) {
  auto trials = ListTrials(store, row, fields.parts());
  std::erase_if(trials, [&](const TrialRow& trial) {
    return !trial.best || !Meets(filter, fields, trial);
  });
  std::ranges::stable_sort(trials, [&](const TrialRow& a, const TrialRow& b) {
    return IsBetter(a.best->value, b.best->value, row.smaller_is_better);
  });
  KeepFirst(options.count, trials);
  std::vector<ListedTrial> best;
  for (TrialRow& trial : WithAllParts(store, row, trials)) {
    const auto checkpoints =
        store.Checkpoints(row.id, /*deleted=*/false, trial.id.number);
    auto saved = BestSavedCheckpoint(checkpoints, row, trial.id.number);
    const auto there = std::ranges::find(checkpoints, trial.best->checkpoint,
                                         &CheckpointRow::uuid);
    best.push_back(
        {.row = std::move(trial),
         .saved = std::move(saved),
         .storage = there == checkpoints.end() ? "" : there->storage});
  }
  Reorder(
      order, fields,
      [](const ListedTrial& trial) -> const TrialRow& { return trial.row; },
      best);
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
          Cell(state, state, ChooseTone(row.state)),
          row.best->checkpoint,
          std::to_string(row.best->batches),
          row.reason,
          detail.row.metric};
}

Listing<ListedTrial> BestListing(const ExperimentDetail& detail,
                                 const Store& store, Unit counted,
                                 Format format) {
  return {
      .name = "best",
      .columns =
          {{.name = "trial", .right = true},
           {.name = "value", .right = true},
           {.name = "hparams", .elastic = true, .least = 24},
           {.name = "rung", .right = true},
           {.name = "state"},
           {.name = "checkpoint", .elastic = true, .least = 9},
           {.name = CountColumn(counted, format),
            .right = true,
            .optional = true},
           {.name = "reason", .elastic = true, .least = 16, .optional = true},
           {.name = "metric", .optional = true}},
      .json =
          [&detail, &store, counted](const ListedTrial& trial) {
            return BestTrialJson(trial, detail.row.metric, counted, store);
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
                                      const Filter& filter, TrialFields& fields,
                                      std::size_t& left_out) {
  auto rows = ListTrials(store, detail.row);
  std::erase_if(
      rows, [&](const TrialRow& row) { return !Meets(filter, fields, row); });
  std::vector<TrialValues> metrics;
  std::vector<bool> smaller_is_better;
  for (const MetricGoal& goal : goals) {
    metrics.push_back(ReadTrialValues(store, detail, goal.metric,
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

nlohmann::json ParetoJson(const ParetoTrial& trial,
                          const std::vector<MetricGoal>& goals, Unit counted) {
  nlohmann::json metrics = nlohmann::json::object();
  for (std::size_t i = 0; i < goals.size(); ++i) {
    metrics[goals[i].metric] = JsonNumber(trial.values[i]);
  }
  const std::string& checkpoint = trial.row.best->checkpoint;
  nlohmann::json json = {
      {"trial", ToString(trial.row.id)},
      {"metrics", std::move(metrics)},
      {"hparams", trial.row.hparams},
      {"state", StateName(trial.row.state)},
      {"batches", trial.row.best->batches},
      {"checkpoint", checkpoint.empty() ? nlohmann::json(nullptr)
                                        : nlohmann::json(checkpoint)}};
  AddLength(counted, json);
  return json;
}

Listing<ParetoTrial> ParetoListing(const ExperimentDetail& detail,
                                   const std::vector<MetricGoal>& goals,
                                   Unit counted) {
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
              [&goals, counted](const ParetoTrial& trial) {
                return ParetoJson(trial, goals, counted);
              },
          .cells =
              [space](const ParetoTrial& trial) {
                std::vector<Cell> cells = {ToString(trial.row.id)};
                for (const double value : trial.values) {
                  cells.emplace_back(FormatMetric(value), FormatNumber(value));
                }
                const std::string state(StateName(trial.row.state));
                cells.push_back(HparamsCell(space, trial.row.hparams));
                cells.emplace_back(state, state, ChooseTone(trial.row.state));
                cells.emplace_back(trial.row.best->checkpoint);
                return cells;
              }};
}

int PrintPareto(const BestOptions& options, const Store& store,
                const ExperimentDetail& detail, const Filter& filter,
                const ShownOrder& order, TrialFields& fields,
                const GlobalOptions& globals) {
  const auto goals = ParseGoals(options.pareto, detail.row);
  std::size_t left_out = 0;
  auto front = ParetoTrials(store, detail, goals, filter, fields, left_out);
  Reorder(
      order, fields,
      [](const ParetoTrial& trial) -> const TrialRow& { return trial.row; },
      front);
  nlohmann::json axes = nlohmann::json::array();
  for (const MetricGoal& goal : goals) {
    axes.push_back({{"metric", goal.metric},
                    {"smaller_is_better", goal.smaller_is_better}});
  }
  const Unit counted = CountedUnit(store, detail.row.id);
  auto listing = ParetoListing(detail, goals, counted);
  if (options.format() == Format::kText) {
    SplitHparams(
        HparamColumns(detail.config),
        [](const ParetoTrial& trial) { return trial.row.hparams; }, listing);
  }
  if (options.csv) {
    AddLengthColumns(
        counted,
        [](const ParetoTrial& trial) { return trial.row.best->batches; },
        listing);
  }
  PrintListing(listing, front, options.format(), globals,
               {{"experiment", detail.row.id}, {"metrics", std::move(axes)}});
  if (left_out > 0) {
    PrintNotice(globals,
                "note: " + CountText(left_out, "trial lacks", "trials lack") +
                    " one of these metrics at the best validation by " +
                    detail.row.metric);
  }
  return kExitDone;
}

// Reports why no trial is the best.
void ExplainNone(const BestOptions& options, const ExperimentRow& row,
                 const GlobalOptions& globals) {
  PrintNotice(globals,
              "experiment " + std::to_string(row.id) +
                  (options.filter.empty() ? " has no"
                                          : " has no trial that matches "
                                            "and has a") +
                  " finite validation value of " + row.metric +
                  (IsFinal(row.state) ? "" : " so far"));
}

// The listing in the columns that the format and --columns ask for.
Listing<ListedTrial> ListingFor(const BestOptions& options,
                                const ExperimentDetail& detail,
                                const Store& store,
                                const std::vector<ListedTrial>& rows,
                                const std::vector<SelectedColumn>& columns,
                                TrialFields& fields, Unit counted,
                                Timestamp now) {
  auto listing = BestListing(detail, store, counted, options.format());
  const auto hparams_of = [](const ListedTrial& trial) {
    return trial.row.hparams;
  };
  if (options.csv) {
    AddHparamColumns(
        rows, detail.config.value("hyperparameters", nlohmann::json::object()),
        hparams_of, listing);
    AddLengthColumns(
        counted,
        [](const ListedTrial& trial) { return trial.row.best->batches; },
        listing);
  }
  if (options.format() == Format::kText) {
    SplitHparams(HparamColumns(detail.config), hparams_of, listing);
  }
  SelectColumns(
      columns,
      [&fields](const ListedTrial& trial, const FieldName& field) {
        return fields.GetValue(trial.row, field);
      },
      now, listing);
  return listing;
}

int Best(const BestOptions& options, const GlobalOptions& globals) {
  const Timestamp now = Clock::System().now();
  const Store store = OpenStore(globals);
  const ExperimentDetail detail =
      FindExperimentDetail(store, ResolveExperiment(store, options.experiment));
  TrialFields fields(store, detail, now, DrawsUtf8(options, globals));
  const RowNames names = MakeRowNames(fields);
  const Filter filter = ParseFilter(options, names);
  const auto columns = ParseColumns(options, names);
  const ShownOrder order{
      .keys = ParseTrialKeys(options.sort, options.reverse, names, detail.row,
                             fields, globals),
      .reverse = options.reverse};
  for (const std::string& note : fields.notes())
    PrintNotice(globals, "note: " + note);
  if (!options.pareto.empty()) {
    return PrintPareto(options, store, detail, filter, order, fields, globals);
  }
  const auto rows =
      BestTrials(options, store, detail.row, filter, order, fields);
  if (rows.empty() && !options.json) {
    ExplainNone(options, detail.row, globals);
  }
  const Units units = FindUnits(store, detail.row.id);
  PrintListing(ListingFor(options, detail, store, rows, columns, fields,
                          units.counted, now),
               rows, options.format(), globals,
               {{"experiment", detail.row.id}, {"metric", detail.row.metric}});
  for (const ListedTrial& trial : rows) {
    if (!trial.row.best->checkpoint.empty()) continue;
    PrintNotice(
        globals,
        "note: " +
            NoBestCheckpointText(trial.row, detail.row, trial.saved, units) +
            TrialFilesRemark(store, trial.row.id, ProgramFor(globals)));
  }
  return kExitDone;
}

void AddBestOptions(CLI::App& app, BestOptions& options) {
  AddOption(app, "EXP", options.experiment, "Experiment ID (3)").Required();
  const CliOption count =
      AddOption(app, "-n,--limit", options.count,
                "Show the N best trials by the searcher's metric (0: all)")
          .TypeName("N")
          .AtLeast(0)
          .ShowDefault();
  AddOption(app, "--sort", options.sort,
            "Order in which these N are shown, as in trials; it does not "
            "choose them")
      .TypeName("NAMES")
      .Suggests({"best", "rung"})
      .Completes(ValueKind::kField);
  AddFlag(app, "--reverse", options.reverse, "Reverse the order");
  AddOption(app, "--pareto", options.pareto,
            "Show the Pareto front of 2 to 4 metrics")
      .TypeName("M1:max,M2:min")
      .Excludes(count);
}

}  // namespace

CommandRun SetUpBest(CLI::App& app) {
  auto options = std::make_shared<BestOptions>();
  AddBestOptions(app, *options);
  AddSelectionOptions(app, *options, "state == COMPLETED and hp.lr > 1e-3");
  AddTableOptions(app, *options);
  SetHelp(app, {.exits = ReaderExits(),
                .examples = {{"Show the best trial", "dtrain best 3"},
                             {"Show trials that are both accurate and fast",
                              "dtrain best 3 --pareto "
                              "accuracy:max,latency:min"}}});
  return RunWith(Best, options);
}

}  // namespace dtrain
