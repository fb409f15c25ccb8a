// Each target is read into a TargetColumn: its values by section and name, of
// an experiment those of its best trial and the sums over all trials. The rows
// of the comparison are the union of the columns' names.
//
// Lengths need a common unit. If the experiments count in different ones, they
// are compared in epochs, provided that all report these; otherwise a warning
// says why they are not. Best values so far are compared at parts of the
// smallest budget, beyond which a search would be compared with one that has
// ended.
#include "engine/app/comparison.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <map>
#include <set>
#include <utility>

#include "engine/analysis/statistics.h"
#include "engine/app/trial_selection.h"
#include "engine/app/trial_values.h"
#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/base/length.h"
#include "engine/base/metric_order.h"
#include "engine/base/text.h"
#include "engine/store/store.h"
#include "searchers/hparam_space.h"

namespace dtrain {
namespace {

using nlohmann::json;

// Sections in the order of the output.
constexpr std::array kSections = {"hyperparameters", "configuration", "metrics",
                                  "best so far",     "trials",        "effort"};

// Values by section and name.
struct TargetColumn {
  ComparedTarget target;
  std::map<std::string, std::map<std::string, json>> sections;
  ExperimentRow experiment;
  Unit unit = Unit::kBatches;  // of batches
  std::vector<TrialRow> trials;
  // Validations of a search, by time; empty for a trial.
  std::vector<Observation> validations;
};

void AddHparams(const json& hparams, const json& config, TargetColumn& column) {
  column.sections["hyperparameters"] = HparamValues(
      hparams, NamesWithParts(config.value("hyperparameters", json::object())));
}

// The configuration without what the hyperparameters' own section shows: of the
// hyperparameters only the ranges of a search.
void AddConfiguration(const json& config, bool is_trial, TargetColumn& column) {
  auto& rows = column.sections["configuration"];
  json others = config.is_object() ? config : json::object();
  others.erase("hyperparameters");
  rows = FlattenNames(others);
  if (is_trial || !config.contains("hyperparameters")) return;
  const json& space = config.at("hyperparameters");
  if (!space.is_object()) return;
  for (const auto& [name, value] : space.items()) {
    if (HasType(value)) rows["hyperparameters." + name] = value;
  }
}

double SlotHours(const json& config, double seconds) {
  const json::json_pointer place("/resources/slots_per_trial");
  const json slots = config.value(place, json(1));
  return (slots.is_number() ? slots.get<double>() : 1) * seconds / 3600;
}

void AddEffort(const json& config, const std::vector<TrialRow>& trials,
               std::optional<double> wall_seconds, TargetColumn& column) {
  std::int64_t batches = 0;
  double seconds = 0;
  for (const TrialRow& trial : trials) {
    batches += trial.batches;
    seconds += trial.seconds;
  }
  auto& rows = column.sections["effort"];
  rows[std::string(UnitName(column.unit))] = batches;
  if (wall_seconds) rows["seconds"] = *wall_seconds;
  rows["slot hours"] = SlotHours(config, seconds);
}

void AddTrials(const std::vector<TrialRow>& trials, bool filtered,
               TargetColumn& column) {
  auto& rows = column.sections["trials"];
  rows[filtered ? "matching" : "all"] = trials.size();
  for (const TrialRow& trial : trials) {
    json& count = rows[std::string(StateName(trial.state))];
    count = count.is_null() ? 1 : count.get<int>() + 1;
  }
}

// The values of a trial's validation metrics at its best validation.
void AddMetrics(const Store& store, const TrialRow& trial,
                TargetColumn& column) {
  if (!trial.best) return;
  store.ForEachMetric({.experiment = trial.id.experiment,
                       .trial = trial.id.number,
                       .kind = MetricKind::kValidation},
                      [&](const MetricRow& row) {
                        if (row.batches != trial.best->batches) return;
                        column.sections["metrics"][row.name] =
                            JsonNumber(row.value);
                      });
}

std::vector<Observation> ReadValidations(const Store& store,
                                         const ExperimentRow& experiment,
                                         const TrialSelection& selection) {
  std::vector<Observation> seen;
  store.ForEachMetric({.experiment = experiment.id,
                       .kind = MetricKind::kValidation,
                       .name = experiment.metric},
                      [&](const MetricRow& row) {
                        if (!selection.Has(row.trial)) return;
                        seen.push_back({.time = row.time,
                                        .trial = row.trial.number,
                                        .batches = row.batches,
                                        .value = row.value,
                                        .epochs = row.epoch});
                      });
  std::ranges::stable_sort(seen, {}, &Observation::time);
  return seen;
}

TargetColumn ReadColumn(const Store& store, const Target& target,
                        const TrialSelection& selection) {
  ExperimentDetail detail = FindExperimentDetail(store, target.experiment);
  const ExperimentRow& row = detail.row;
  TargetColumn column{
      .target = ComparedTarget{.id = std::to_string(row.id), .name = row.name},
      .experiment = row,
      .unit = CountedUnit(store, row.id)};
  AddConfiguration(detail.config, target.trial.has_value(), column);
  if (target.trial) {
    const TrialRow trial = FindTrial(store, row, *target.trial);
    column.target.id = column.target.trial = ToString(trial.id);
    AddHparams(trial.hparams, detail.config, column);
    AddMetrics(store, trial, column);
    AddEffort(detail.config, {trial}, trial.seconds, column);
    column.trials = {trial};
    return column;
  }
  auto trials =
      ListTrials(store, row, {.hparams = false, .checkpoints = false});
  selection.Keep(trials);
  selection.SetBest(trials, detail);
  column.target.trials = trials.size();
  if (row.best_trial > 0) {
    const TrialRow best = FindTrial(store, row, row.best_trial);
    column.target.trial = ToString(best.id);
    AddHparams(best.hparams, detail.config, column);
    AddMetrics(store, best, column);
  }
  const bool filtered = selection.is_filtered();
  AddTrials(trials, filtered, column);
  AddEffort(detail.config, trials,
            filtered ? std::nullopt : std::optional(row.seconds), column);
  if (trials.size() > 1) {
    column.validations = ReadValidations(store, row, selection);
  }
  column.trials = std::move(trials);
  return column;
}

// The value of a curve of steps; null before its first point.
json ValueAt(const std::vector<CurvePoint>& curve, double x) {
  json value;
  for (const auto& [at, y] : curve) {
    if (at <= x) value = JsonNumber(y);
  }
  return value;
}

// Adds the best values after parts of the smallest budget of all searches. The
// budgets are counted in `unit`: the one of all columns, or epochs.
void AddBestSoFar(Unit unit, Effort effort,
                  std::vector<TargetColumn>& columns) {
  double budget = HUGE_VAL;
  std::vector<std::pair<TargetColumn*, std::vector<CurvePoint>>> searches;
  for (TargetColumn& column : columns) {
    auto curve = BestSoFar(column.validations, effort, Timestamp(0),
                           column.experiment.smaller_is_better);
    if (curve.empty()) continue;
    budget = std::min(budget, curve.back().first);
    searches.emplace_back(&column, std::move(curve));
  }
  if (searches.size() < 2) return;
  for (const int percent : {10, 25, 50, 100}) {
    // A count of batches is whole, so the part is rounded down to one.
    const bool whole = effort == Effort::kBatches;
    const double part = budget * percent / 100;
    const double length = whole ? std::floor(part) : part;
    const std::string name =
        std::to_string(percent) + " % (" + LengthText(length, unit) + ")";
    for (auto& [column, curve] : searches) {
      column->sections["best so far"][name] = ValueAt(curve, length);
    }
  }
}

// The epochs that the trials of a column trained together.
double SumEpochs(const Store& store, const TargetColumn& column) {
  double sum = 0;
  for (const TrialRow& trial : column.trials) {
    double epochs = 0;
    store.ForEachMetric(
        {.experiment = trial.id.experiment,
         .trial = trial.id.number,
         .superseded = true},
        [&](const MetricRow& row) { epochs = std::max(epochs, row.epoch); });
    sum += epochs;
  }
  return sum;
}

// Adds what compares training lengths. Different units are compared in epochs
// if all experiments know them, else not at all; returns a warning on that.
std::string AddLengths(const Store& store, std::vector<TargetColumn>& columns) {
  std::vector<std::int64_t> ids;
  std::vector<Unit> units;
  for (const TargetColumn& column : columns) {
    ids.push_back(column.experiment.id);
    units.push_back(column.unit);
  }
  const std::string different = DifferentUnitsText(ids, units);
  if (different.empty()) {
    AddBestSoFar(units.front(), Effort::kBatches, columns);
    return "";
  }
  std::vector<std::string> without;
  for (const std::int64_t id : ids) {
    const std::string text = std::to_string(id);
    if (!KnowsEpochs(store, id) && std::ranges::count(without, text) == 0) {
      without.push_back(text);
    }
  }
  if (!without.empty()) {
    return different + ": their lengths are not compared, because " +
           Join(without, ", ") +
           (without.size() == 1 ? " reports" : " report") +
           " no epochs; 'dtrain plot --x time' compares by time";
  }
  for (TargetColumn& column : columns) {
    column.sections["effort"]["epochs"] = SumEpochs(store, column);
  }
  AddBestSoFar(Unit::kEpochs, Effort::kEpochs, columns);
  return different + ": their lengths are compared in epochs";
}

// The better direction of a row, if it is known.
std::optional<bool> SmallerIsBetter(const std::string& section,
                                    const std::string& name,
                                    const ExperimentRow& experiment) {
  const bool searched = section == "best so far" ||
                        (section == "metrics" && name == experiment.metric);
  if (!searched) return std::nullopt;
  return experiment.smaller_is_better;
}

void AddDifferences(std::optional<bool> smaller_is_better, std::size_t baseline,
                    ComparedRow& row) {
  const json& base = row.values[baseline].value;
  if (!base.is_number()) return;
  const auto from = base.get<double>();
  for (std::size_t i = 0; i < row.values.size(); ++i) {
    ComparedValue& one = row.values[i];
    if (i == baseline || !one.value.is_number()) continue;
    one.difference = one.value.get<double>() - from;
    if (from != 0) one.percent = 100 * *one.difference / std::abs(from);
    if (*one.difference == 0 || !smaller_is_better) continue;
    one.better = IsBetter(one.value.get<double>(), from, *smaller_is_better);
  }
}

// True for sections in which a difference of numbers means something.
bool HasDifferences(const std::string& section) {
  return section == "metrics" || section == "best so far" ||
         section == "effort";
}

// Orders names that begin with a number by it: 100 % after 25 %.
struct NumbersFirst {
  bool operator()(const std::string& a, const std::string& b) const {
    const auto key = [](const std::string& name) {
      return std::pair(std::strtod(name.c_str(), nullptr), name);
    };
    return key(a) < key(b);
  }
};

std::vector<ComparedRow> CompareRows(const std::vector<TargetColumn>& columns,
                                     std::size_t baseline) {
  std::vector<ComparedRow> rows;
  for (const char* section : kSections) {
    std::set<std::string, NumbersFirst> names;
    for (const TargetColumn& column : columns) {
      const auto found = column.sections.find(section);
      if (found == column.sections.end()) continue;
      for (const auto& [name, value] : found->second) names.insert(name);
    }
    for (const std::string& name : names) {
      ComparedRow row{.section = section, .name = name};
      for (const TargetColumn& column : columns) {
        const auto found = column.sections.find(section);
        const bool has =
            found != column.sections.end() && found->second.contains(name);
        row.values.push_back({has ? found->second.at(name) : json(nullptr)});
      }
      if (HasDifferences(section)) {
        AddDifferences(
            SmallerIsBetter(section, name, columns[baseline].experiment),
            baseline, row);
      }
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

// Keeps the named metrics, in all columns.
void KeepMetrics(const std::vector<std::string>& metrics,
                 std::vector<TargetColumn>& columns) {
  if (metrics.empty()) return;
  std::set<std::string> names;
  for (TargetColumn& column : columns) {
    auto& rows = column.sections["metrics"];
    for (const auto& [name, value] : rows) names.insert(name);
    std::erase_if(rows, [&](const auto& row) {
      return std::ranges::find(metrics, row.first) == metrics.end();
    });
  }
  for (const std::string& name : metrics) {
    if (names.contains(name)) continue;
    const std::vector<std::string> all(names.begin(), names.end());
    throw Error(ErrorKind::kNotFound,
                "--metric: none of them has '" + name +
                    "' at its best validation; reported there: " +
                    (all.empty() ? "nothing" : Join(all, ", ")));
  }
}

std::vector<std::string> CollectWarnings(
    const std::vector<TargetColumn>& columns, std::size_t baseline) {
  const ExperimentRow& base = columns[baseline].experiment;
  std::vector<std::string> warnings;
  for (const TargetColumn& column : columns) {
    const ExperimentRow& other = column.experiment;
    if (other.metric == base.metric &&
        other.smaller_is_better == base.smaller_is_better) {
      continue;
    }
    const auto goal = [](const ExperimentRow& row) {
      return row.metric + " (" +
             (row.smaller_is_better ? "smallest" : "largest") + ")";
    };
    warnings.push_back(column.target.id + " was searched for " + goal(other) +
                       ", the baseline for " + goal(base) +
                       ": their best trials are best at different things");
  }
  return warnings;
}

}  // namespace

bool ComparedRow::equal() const {
  return std::ranges::all_of(values, [&](const ComparedValue& one) {
    return one.value == values.front().value;
  });
}

TargetComparison CompareTargets(const Store& store,
                                const std::vector<Target>& targets,
                                std::size_t baseline,
                                const std::vector<std::string>& metrics,
                                const TrialSelection& selection) {
  std::vector<TargetColumn> columns;
  for (const Target& target : targets) {
    columns.push_back(ReadColumn(store, target, selection));
  }
  KeepMetrics(metrics, columns);
  const std::string lengths = AddLengths(store, columns);
  TargetComparison comparison{.baseline = baseline,
                              .rows = CompareRows(columns, baseline),
                              .warnings = CollectWarnings(columns, baseline)};
  if (!lengths.empty()) comparison.warnings.push_back(lengths);
  for (const TargetColumn& column : columns) {
    comparison.targets.push_back(column.target);
  }
  return comparison;
}

namespace {

TrialGroup SummarizeGroup(const json& value, std::vector<double> values,
                          bool smaller_is_better) {
  std::ranges::sort(values);
  TrialGroup group{.value = value, .trials = values.size()};
  const auto count = static_cast<double>(values.size());
  for (const double one : values) group.mean += one / count;
  double squares = 0;
  for (const double one : values) {
    squares += (one - group.mean) * (one - group.mean);
  }
  if (values.size() > 1) group.deviation = std::sqrt(squares / (count - 1));
  const std::size_t middle = values.size() / 2;
  group.median = values.size() % 2 == 1
                     ? values[middle]
                     : (values[middle - 1] + values[middle]) / 2;
  group.best = smaller_is_better ? values.front() : values.back();
  return group;
}

}  // namespace

TrialGroups GroupTrials(const Store& store, const std::vector<Target>& targets,
                        const std::string& hparam, const MetricGoal& goal,
                        std::optional<ValuePlace> place,
                        const TrialSelection& selection) {
  std::vector<ExperimentDetail> details;
  for (const Target& target : targets) {
    (void)FindTarget(store, target);
    details.push_back(FindExperimentDetail(store, target.experiment));
  }
  if (!place && targets.size() > 1) {
    const auto largest = std::ranges::max_element(
        details, {}, [](const auto& one) { return one.row.trials; });
    place = ReadTrialValues(store, *largest, goal.metric, place).place;
  }
  TrialGroups result;
  std::map<json, std::vector<double>> values;
  bool has_hparam = false;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const std::vector<std::int64_t> named = {targets[i].trial.value_or(0)};
    const TrialValues own = ReadTrialValues(
        store, details[i], goal.metric, place,
        targets[i].trial ? &named : selection.Numbers(details[i].row.id));
    if (i == 0) result.values = own;
    for (const TrialRow& trial : store.Trials(details[i].row.id)) {
      const bool is_named =
          !targets[i].trial || trial.id.number == *targets[i].trial;
      if (!is_named || !selection.Has(trial.id)) continue;
      const auto found = GroupValue(trial, hparam);
      if (found) has_hparam = true;
      if (hparam == kPointGroup && !CountsForPoint(trial.state)) {
        ++result.left_out;
        continue;
      }
      const auto value = own.values.find(trial.id.number);
      const bool finite =
          value != own.values.end() && std::isfinite(value->second);
      ++(finite ? result.trials : result.left_out);
      if (!finite) continue;
      values[found.value_or(json(nullptr))].push_back(value->second);
    }
  }
  if (!has_hparam) {
    throw Error(ErrorKind::kNotFound, NoGroupText(hparam));
  }
  for (auto& [value, of] : values) {
    result.groups.push_back(
        SummarizeGroup(value, std::move(of), goal.smaller_is_better));
  }
  return result;
}

}  // namespace dtrain
