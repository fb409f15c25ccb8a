// `dtrain best`: the best trials of experiments, or their Pareto front.
//
// Trials are ranked first, by their best validation in the searcher's metric,
// and cut to -n; --sort and --reverse only change the order in which those are
// shown. Fields that --filter, --sort and --columns need are read from the
// store when they are first used (JointFields), so the rows of the list are
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
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/selection.h"
#include "engine/analysis/statistics.h"
#include "engine/app/best_doubt.h"
#include "engine/app/stores.h"
#include "engine/app/trial_fields.h"
#include "engine/app/trial_files.h"
#include "engine/app/trial_values.h"
#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/base/metric_order.h"
#include "engine/base/rounding.h"
#include "engine/base/text.h"
#include "engine/config/read_config.h"
#include "engine/report/format.h"
#include "engine/report/json_view.h"
#include "engine/run/points.h"
#include "searchers/hparam_space.h"

namespace dtrain {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

struct BestOptions : SelectionOptions {
  std::vector<std::string> experiments;
  std::size_t count = 1;
  std::string pareto;
  std::string sort;
  bool reverse = false;
  bool points = false;
};

// The order in which the best trials are shown, in place of their ranking.
struct ShownOrder {
  std::vector<SortKey> keys;
  bool reverse = false;
};

// Puts the rows, which are ranked, in the order of --sort and --reverse.
// `row_of` returns the trial of a row.
template <typename Listed, typename RowText>
void Reorder(const ShownOrder& order, JointFields& fields,
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

// A trial in the order of the best. With repeats it stands for its point, of
// which it is the best.
struct RankedTrial {
  TrialRow row;
  std::optional<PointRow> point;

  double value() const { return point ? *point->value : row.best->value; }
};

// A trial and its best checkpoint.
struct ListedTrial : RankedTrial {
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
  if (trial.point) {
    const PointRow& point = *trial.point;
    json["trial_value"] = json["value"];
    json["value"] = JsonNumber(*point.value);
    json["point"] = row.point;
    json["repeat"] = row.repeat;
    json["n"] = point.values.size();
    json["mean"] = JsonNumber(point.mean());
    json["sd"] = std::isnan(point.sd()) ? nlohmann::json(nullptr)
                                        : JsonNumber(point.sd());
  }
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
bool Meets(const Filter& filter, JointFields& fields, const TrialRow& trial) {
  return filter.Matches(
      [&](const FieldName& field) { return fields.GetValue(trial, field); });
}

// Returns the trials with a best validation that meet --filter, best first, at
// most `count`. With repeats it is one of each point of which a trial meets it,
// once all repeats have ended.
std::vector<RankedTrial> RankedTrials(const ExperimentGroup& group,
                                      const Filter& filter, JointFields& fields,
                                      TrialParts parts, std::size_t count) {
  const auto trials = group.ListTrials(parts);
  std::map<TrialId, PointRow> points;  // by their best trial
  for (const ExperimentDetail& detail : group.all()) {
    const std::int64_t repeats = ReadRepeats(detail.config).count;
    if (repeats == 1) continue;
    std::vector<TrialRow> own;
    std::ranges::copy_if(trials, std::back_inserter(own),
                         [&](const TrialRow& trial) {
                           return trial.id.experiment == detail.row.id;
                         });
    for (PointRow& point : ListPoints(own, detail)) {
      if (!point.IsKnown(repeats, IsFinal(detail.row.state))) continue;
      const TrialId best{detail.row.id, point.best_trial};
      points.emplace(best, std::move(point));
    }
  }
  std::set<std::pair<std::int64_t, std::int64_t>> met;  // experiment, point
  for (const TrialRow& trial : trials) {
    if (trial.point > 0 && Meets(filter, fields, trial)) {
      met.emplace(trial.id.experiment, trial.point);
    }
  }
  std::vector<RankedTrial> ranked;
  for (const TrialRow& trial : trials) {
    if (trial.point == 0) {
      if (!trial.best || !Meets(filter, fields, trial)) continue;
      ranked.push_back({.row = trial, .point = std::nullopt});
    } else if (const auto point = points.find(trial.id);
               point != points.end() &&
               met.contains({trial.id.experiment, trial.point})) {
      ranked.push_back({.row = trial, .point = point->second});
    }
  }
  std::ranges::stable_sort(
      ranked, [&](const RankedTrial& a, const RankedTrial& b) {
        return IsBetter(a.value(), b.value(), group.smaller_is_better());
      });
  KeepFirst(count, ranked);
  return ranked;
}

// Returns the -n best trials with their checkpoints, in the order that is
// shown.
std::vector<ListedTrial> BestTrials(const BestOptions& options,
                                    const Store& store,
                                    const ExperimentGroup& group,
                                    const Filter& filter,
                                    const ShownOrder& order,
                                    JointFields& fields) {
  auto ranked =
      RankedTrials(group, filter, fields, fields.parts(), options.count);
  std::vector<TrialRow> rows;
  for (const RankedTrial& one : ranked) rows.push_back(one.row);
  rows = group.WithAllParts(rows);
  std::vector<ListedTrial> best;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    TrialRow& trial = rows[i];
    const ExperimentRow& row = group.Find(trial.id).row;
    const auto checkpoints =
        store.Checkpoints(row.id, /*deleted=*/false, trial.id.number);
    auto saved = BestSavedCheckpoint(checkpoints, row, trial.id.number);
    const auto there = std::ranges::find(checkpoints, trial.best->checkpoint,
                                         &CheckpointRow::uuid);
    ListedTrial listed;
    listed.storage = there == checkpoints.end() ? "" : there->storage;
    listed.row = std::move(trial);
    listed.point = std::move(ranked[i].point);
    listed.saved = std::move(saved);
    best.push_back(std::move(listed));
  }
  Reorder(
      order, fields,
      [](const ListedTrial& trial) -> const TrialRow& { return trial.row; },
      best);
  return best;
}

std::vector<Cell> Row(const ListedTrial& trial, const ExperimentGroup& group) {
  const TrialRow& row = trial.row;
  const std::string state(StateName(row.state));
  const auto number = [](double value) {
    if (std::isnan(value)) return Cell("");
    return Cell(FormatMetric(value), FormatNumber(value));
  };
  std::vector<Cell> cells = {ToString(row.id),
                             number(trial.value()),
                             HparamsCell(group.space(), row.hparams),
                             std::to_string(row.rung),
                             Cell(state, state, ChooseTone(row.state)),
                             row.best->checkpoint,
                             std::to_string(row.best->batches),
                             row.reason,
                             group.metric()};
  if (!group.has_repeats()) return cells;
  std::vector<Cell> of_point(3, Cell(""));
  if (trial.point) {
    of_point = {std::to_string(trial.point->values.size()),
                number(trial.point->mean()), number(trial.point->sd())};
  }
  cells.insert(cells.begin() + 2, of_point.begin(), of_point.end());
  group.AddRepeatCells(row, cells);
  return cells;
}

Listing<ListedTrial> BestListing(const ExperimentGroup& group,
                                 const Store& store, Format format) {
  Listing<ListedTrial> listing = {
      .name = "best",
      .columns =
          {{.name = "trial", .right = true},
           {.name = "value", .right = true},
           {.name = "hparams", .elastic = true, .least = 24},
           {.name = "rung", .right = true},
           {.name = "state"},
           {.name = "checkpoint", .elastic = true, .least = 9},
           {.name = group.CountHeader(format), .right = true, .optional = true},
           {.name = "reason", .elastic = true, .least = 16, .optional = true},
           {.name = "metric", .optional = true}},
      .json =
          [&group, &store](const ListedTrial& trial) {
            return BestTrialJson(trial, group.metric(),
                                 group.counted(trial.row.id), store);
          },
      .cells =
          [&group](const ListedTrial& trial) { return Row(trial, group); }};
  if (group.has_repeats()) {
    listing.columns.insert(listing.columns.begin() + 2,
                           {{.name = "n", .right = true},
                            {.name = "mean", .right = true},
                            {.name = "sd", .right = true}});
  }
  group.AddRepeatColumns(listing.columns);
  return listing;
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
                                      const ExperimentGroup& group,
                                      const std::vector<MetricGoal>& goals,
                                      const Filter& filter, JointFields& fields,
                                      std::size_t& left_out) {
  auto rows = group.ListTrials({});
  std::erase_if(
      rows, [&](const TrialRow& row) { return !Meets(filter, fields, row); });
  std::vector<std::map<TrialId, double>> metrics;
  std::vector<bool> smaller_is_better;
  for (const MetricGoal& goal : goals) {
    std::map<TrialId, double>& values = metrics.emplace_back();
    for (const ExperimentDetail& detail : group.all()) {
      const TrialValues own = ReadTrialValues(
          store, detail, goal.metric, ValuePlace{ValuePlace::Kind::kBest});
      for (const auto& [number, value] : own.values) {
        values[{detail.row.id, number}] = value;
      }
    }
    smaller_is_better.push_back(goal.smaller_is_better);
  }
  std::vector<ParetoTrial> trials;
  std::vector<std::vector<double>> points;
  for (const TrialRow& row : rows) {
    std::vector<double> values;
    for (const std::map<TrialId, double>& metric : metrics) {
      const auto value = metric.find(row.id);
      values.push_back(value == metric.end() ? kNone : value->second);
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

Listing<ParetoTrial> ParetoListing(const ExperimentGroup& group,
                                   const std::vector<MetricGoal>& goals) {
  std::vector<Column> columns = {{.name = "trial", .right = true}};
  for (const MetricGoal& goal : goals) {
    columns.push_back({.name = goal.metric, .right = true, .verbatim = true});
  }
  columns.push_back({.name = "hparams", .elastic = true, .least = 24});
  columns.push_back({.name = "state"});
  columns.push_back({.name = "checkpoint", .elastic = true, .least = 9});
  return {.name = "pareto",
          .columns = std::move(columns),
          .json =
              [&group, &goals](const ParetoTrial& trial) {
                return ParetoJson(trial, goals, group.counted(trial.row.id));
              },
          .cells =
              [&group](const ParetoTrial& trial) {
                std::vector<Cell> cells = {ToString(trial.row.id)};
                for (const double value : trial.values) {
                  cells.emplace_back(FormatMetric(value), FormatNumber(value));
                }
                const std::string state(StateName(trial.row.state));
                cells.push_back(HparamsCell(group.space(), trial.row.hparams));
                cells.emplace_back(state, state, ChooseTone(trial.row.state));
                cells.emplace_back(trial.row.best->checkpoint);
                return cells;
              }};
}

int PrintPareto(const BestOptions& options, const Store& store,
                const ExperimentGroup& group, const Filter& filter,
                const ShownOrder& order, JointFields& fields,
                const GlobalOptions& globals) {
  const auto goals = ParseGoals(options.pareto, group.first().row);
  std::size_t left_out = 0;
  auto front = ParetoTrials(store, group, goals, filter, fields, left_out);
  Reorder(
      order, fields,
      [](const ParetoTrial& trial) -> const TrialRow& { return trial.row; },
      front);
  nlohmann::json axes = nlohmann::json::array();
  for (const MetricGoal& goal : goals) {
    axes.push_back({{"metric", goal.metric},
                    {"smaller_is_better", goal.smaller_is_better}});
  }
  auto listing = ParetoListing(group, goals);
  if (options.format() == Format::kText) {
    SplitHparams(
        HparamColumns(group.space()),
        [](const ParetoTrial& trial) { return trial.row.hparams; }, listing);
  }
  if (options.csv) {
    AddLengthColumns(
        [](const ParetoTrial& trial) { return trial.row.best->batches; },
        [&group](const ParetoTrial& trial) {
          return group.counted(trial.row.id);
        },
        listing);
  }
  nlohmann::json document = group.Document();
  document["metrics"] = std::move(axes);
  PrintListing(listing, front, options.format(), globals, std::move(document));
  if (ReadRepeats(group.all().front().config).count > 1) {
    PrintNotice(globals, "note: these are single repeats, not means of points");
  }
  if (left_out > 0) {
    PrintNotice(globals,
                "note: " + CountText(left_out, "trial lacks", "trials lack") +
                    " one of these metrics at the best validation by " +
                    group.metric());
  }
  return kExitDone;
}

// Reports why no trial is the best.
void ExplainNone(const BestOptions& options, const ExperimentGroup& group,
                 const GlobalOptions& globals) {
  const bool one = group.all().size() == 1;
  const bool ended = std::ranges::all_of(
      group.all(),
      [](const ExperimentDetail& detail) { return IsFinal(detail.row.state); });
  PrintNotice(
      globals,
      group.Text() + (one ? " has no" : " have no") +
          (options.filter.empty() ? "" : " trial that matches and has a") +
          " finite validation value of " + group.metric() +
          (ended ? "" : " so far"));
}

// The listing in the columns that the format and --columns ask for.
Listing<ListedTrial> ListingFor(const BestOptions& options,
                                const ExperimentGroup& group,
                                const Store& store,
                                const std::vector<ListedTrial>& rows,
                                const std::vector<SelectedColumn>& columns,
                                JointFields& fields, Timestamp now) {
  auto listing = BestListing(group, store, options.format());
  const auto hparams_of = [](const ListedTrial& trial) {
    return trial.row.hparams;
  };
  if (options.csv) {
    AddHparamColumns(rows, group.space(), hparams_of, listing);
    AddLengthColumns(
        [](const ListedTrial& trial) { return trial.row.best->batches; },
        [&group](const ListedTrial& trial) {
          return group.counted(trial.row.id);
        },
        listing);
  }
  if (options.format() == Format::kText) {
    SplitHparams(HparamColumns(group.space()), hparams_of, listing);
  }
  SelectColumns(
      columns,
      [&fields](const ListedTrial& trial, const FieldName& field) {
        return fields.GetValue(trial.row, field);
      },
      now, listing);
  return listing;
}

// Prints the best trials, each different one once, as the searched
// hyperparameters of a YAML for `searcher.points`.
int PrintPoints(const BestOptions& options, const ExperimentGroup& group,
                const Filter& filter, JointFields& fields,
                const GlobalOptions& globals) {
  TrialParts parts = fields.parts();
  parts.hparams = true;
  nlohmann::json points = nlohmann::json::array();
  std::vector<std::string> trials;
  for (const RankedTrial& ranked :
       RankedTrials(group, filter, fields, parts, /*count=*/0)) {
    const TrialRow& trial = ranked.row;
    if (options.count > 0 && points.size() == options.count) break;
    const nlohmann::json& config = group.Find(trial.id).config;
    std::string why;
    const auto point = PointOfHparams(
        config.value("hyperparameters", nlohmann::json::object()),
        trial.hparams, why);
    if (!point || std::ranges::find(points, *point) != points.end()) continue;
    points.push_back(*point);
    trials.push_back(ToString(trial.id));
  }
  if (points.empty()) {
    ExplainNone(options, group, globals);
    return kExitDone;
  }
  if (points.front().empty()) {
    throw Error(ErrorKind::kUsage,
                "--points: " + group.Text() +
                    (group.all().size() == 1 ? " searches" : " search") +
                    " no hyperparameter; 'dtrain config " + trials.front() +
                    "' prints the YAML of its best trial");
  }
  // To be pasted below `searcher:`.
  const std::string yaml = ToYaml({{"searcher", {{"points", points}}}});
  PrintYaml(yaml.substr(yaml.find('\n') + 1));
  PrintNotice(globals, "the points are those of " + Join(trials, ", "));
  return kExitDone;
}

int Best(const BestOptions& options, const GlobalOptions& globals) {
  const Timestamp now = Clock::System().now();
  const Store store = OpenStore(globals);
  const ExperimentGroup group(store, options.experiments);
  JointFields fields(store, group.all(), now, DrawsUtf8(options, globals));
  const RowNames names = MakeRowNames(fields);
  const Filter filter = ParseFilter(options, names);
  const auto columns = ParseColumns(options, names);
  const ShownOrder order{
      .keys = ParseTrialKeys(options.sort, options.reverse, names,
                             group.first().row, fields, globals),
      .reverse = options.reverse};
  for (const std::string& note : fields.notes())
    PrintNotice(globals, "note: " + note);
  group.PrintUnits(globals);
  if (options.points) {
    if (options.json || options.csv || !columns.empty()) {
      throw Error(
          ErrorKind::kUsage,
          "--points: prints YAML, so it cannot be combined with --json, "
          "--csv or --columns");
    }
    return PrintPoints(options, group, filter, fields, globals);
  }
  if (!options.pareto.empty()) {
    return PrintPareto(options, store, group, filter, order, fields, globals);
  }
  const auto rows = BestTrials(options, store, group, filter, order, fields);
  if (rows.empty() && !options.json) ExplainNone(options, group, globals);
  nlohmann::json document = group.Document();
  document["metric"] = group.metric();
  std::optional<BestDoubt> doubt;
  const ExperimentDetail& first = group.all().front();
  if (group.all().size() == 1 && options.filter.empty() &&
      options.format() != Format::kCsv) {
    doubt = ReadBestDoubt(store, first);
    document["doubt"] = doubt ? doubt->ToJson() : nlohmann::json(nullptr);
  }
  PrintListing(ListingFor(options, group, store, rows, columns, fields, now),
               rows, options.format(), globals, std::move(document));
  if (doubt && options.format() == Format::kText) {
    std::string text = "note: " + doubt->Text();
    if (doubt->near > 0 && IsFinal(first.row.state)) {
      text += "; to tell: " +
              CommandFor(globals, "confirm " + std::to_string(first.row.id));
    }
    PrintNotice(globals, text);
  }
  std::vector<std::string> without_any;  // notes of trials without checkpoints
  for (const ListedTrial& trial : rows) {
    if (trial.point) {
      const Repeats repeats = ReadRepeats(group.Find(trial.row.id).config);
      if (std::ssize(trial.point->values) < repeats.count) {
        PrintNotice(globals, "note: " + PointText(*trial.point, repeats) +
                                 "; the others have no result");
      }
    }
    if (!trial.row.best->checkpoint.empty()) continue;
    const ExperimentRow& row = group.Find(trial.row.id).row;
    const Units units = FindUnits(store, row.id);
    std::string files =
        TrialFilesRemark(store, trial.row.id, ProgramFor(globals));
    if (!files.empty()) files += FilesLaterThanBest(trial.row, units);
    const std::string note =
        "note: " + NoBestCheckpointText(trial.row, row, trial.saved, units) +
        files;
    if (trial.saved || !files.empty()) {
      PrintNotice(globals, note);
    } else {
      without_any.push_back(note);
    }
  }
  if (without_any.size() == 1) PrintNotice(globals, without_any.front());
  if (without_any.size() > 1) {
    PrintNotice(globals, "note: " + std::to_string(without_any.size()) +
                             " of these trials have no checkpoint");
  }
  return kExitDone;
}

void AddBestOptions(CLI::App& app, BestOptions& options) {
  AddOption(app, "EXP", options.experiments,
            "Experiments with one metric (3 5 7-9)")
      .Required();
  const CliOption count =
      AddOption(app, "-n,--limit", options.count,
                "Show the N best trials by the searcher's metric (0: all)")
          .TypeName("N")
          .AtLeast(0)
          .ShowDefault();
  const CliOption sort =
      AddOption(app, "--sort", options.sort,
                "Order in which these N are shown, as in trials; it does not "
                "choose them")
          .TypeName("NAMES")
          .Suggests({"best", "rung"})
          .Completes(ValueKind::kField);
  const CliOption reverse =
      AddFlag(app, "--reverse", options.reverse, "Reverse the order");
  const CliOption pareto = AddOption(app, "--pareto", options.pareto,
                                     "Show the Pareto front of 2 to 4 metrics")
                               .TypeName("M1:max,M2:min")
                               .Excludes(count);
  AddFlag(app, "--points", options.points,
          "Print their searched hyperparameters as YAML, to be pasted below "
          "'searcher:'")
      .Excludes(pareto)
      .Excludes(sort)
      .Excludes(reverse);
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
