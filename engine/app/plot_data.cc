// Data of plots, read from the store: trials with their places in the search
// space and their values, validations by time, curves, rungs and runs.
//
// What a figure shows is chosen here, and how it looks in engine/report. All
// functions take a TrialSelection and leave out trials that it does not have.
// An experiment without a metric that others have is noted and drawn without
// values; it is an error only if none has it.
//
// A trial's value is taken where the query says (best, last, a length). Without
// a place every experiment has its own default length, and `data.place` says so
// if these differ.

#include "engine/app/plot_data.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "engine/app/stores.h"
#include "engine/app/trial_values.h"
#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/base/length.h"
#include "engine/base/text.h"
#include "engine/config/read_config.h"
#include "engine/run/reporter.h"
#include "engine/store/store.h"
#include "searchers/repeats.h"
#include "searchers/search_plan.h"

namespace dtrain {
namespace {

constexpr double kNoValue = std::numeric_limits<double>::quiet_NaN();

PlotTrial MakePlotTrial(const TrialRow& row, const PlotSearch& search,
                        const std::string& group) {
  PlotTrial trial{.id = row.id,
                  .state = row.state,
                  .rung = row.rung,
                  .best_batches = row.best ? row.best->batches : 0,
                  .ended_early = row.reason.starts_with(kEndedEarly),
                  .ended = row.ended};
  for (const SearchAxis& axis : search.axes) {
    trial.places.push_back(PlaceOn(axis, row.hparams));
  }
  if (!group.empty()) {
    if (const auto value = GroupValue(row, group)) trial.group = *value;
  }
  return trial;
}

std::string GroupLabel(const std::string& group) {
  return group == kPointGroup ? "point" : group;
}

PlotSearch MakePlotSearch(const ExperimentDetail& detail) {
  const ExperimentRow& row = detail.row;
  PlotSearch search{.id = row.id, .name = row.name};
  search.start = row.started.value_or(row.created);
  search.axes = SearchAxes(
      detail.config.value("hyperparameters", nlohmann::json::object()),
      row.searcher == "grid");
  return search;
}

void RequireGroup(const std::vector<std::vector<TrialRow>>& trials,
                  const std::string& group) {
  if (group.empty()) return;
  std::set<std::string> names;
  for (const auto& rows : trials) {
    for (const TrialRow& row : rows) {
      if (GroupValue(row, group)) return;
      for (const auto& [name, value] : FlattenNames(row.hparams)) {
        names.insert(name);
      }
    }
  }
  const std::vector<std::string> all(names.begin(), names.end());
  throw Error(ErrorKind::kNotFound,
              NoGroupText(group) + (all.empty() || group == kPointGroup
                                        ? std::string()
                                        : "; they have " + ListNames(all)));
}

bool HasValidations(const Store& store, std::int64_t experiment,
                    const std::string& metric) {
  bool found = false;
  store.ForEachMetric({.experiment = experiment,
                       .kind = MetricKind::kValidation,
                       .name = metric},
                      [&](const MetricRow&) { found = true; });
  return found;
}

void ReadValidations(const Store& store, const std::string& metric,
                     const TrialSelection& selection, PlotSearch& search) {
  store.ForEachMetric({.experiment = search.id,
                       .kind = MetricKind::kValidation,
                       .name = metric},
                      [&](const MetricRow& row) {
                        if (!selection.Has(row.trial)) return;
                        search.validations.push_back({.time = row.time,
                                                      .trial = row.trial.number,
                                                      .batches = row.batches,
                                                      .value = row.value,
                                                      .epochs = row.epoch});
                      });
  std::ranges::stable_sort(search.validations, {}, &Observation::time);
}

// Notes the experiments that searched for something else than the first one.
void AddGoalNotes(const std::vector<ExperimentDetail>& details,
                  std::vector<std::string>& notes) {
  const ExperimentRow& first = details.front().row;
  for (const ExperimentDetail& detail : details) {
    if (detail.row.metric == first.metric &&
        detail.row.smaller_is_better == first.smaller_is_better) {
      continue;
    }
    notes.push_back("experiment " + std::to_string(detail.row.id) +
                    " was searched for the " +
                    (detail.row.smaller_is_better ? "smallest " : "largest ") +
                    detail.row.metric + ", experiment " +
                    std::to_string(first.id) + " for the " +
                    (first.smaller_is_better ? "smallest " : "largest ") +
                    first.metric);
  }
}

void AddValues(const Store& store, const ExperimentDetail& detail,
               const PlotQuery& query, const std::string& metric,
               PlotData& data, PlotSearch& search) {
  const TrialValues values =
      ReadTrialValues(store, detail, metric, query.place,
                      query.selection.Numbers(detail.row.id));
  const std::string text = values.PlaceText();
  if (data.place.empty()) data.place = text;
  if (data.place != text) data.place = "at the default length of each";
  const Repeats repeats =
      query.group == kPointGroup ? Repeats() : ReadRepeats(detail.config);
  const auto points = CombineByPoint(values.values, search.trials, repeats);
  for (PlotTrial& trial : search.trials) {
    const auto found =
        points.find(FindRepeatPlace(trial.id.number, repeats.count).first);
    trial.values.push_back(found == points.end() ? kNoValue : found->second);
  }
}

// Keeps one trial of each point, the one with the last validation if these were
// read, and those that failed, without a value. The validations before are
// effort without a value.
void MergeRepeats(std::int64_t repeats, PlotSearch& search) {
  std::map<std::int64_t, PlotTrial*> kept;  // by point
  std::map<std::int64_t, Observation*> last;
  const auto find_point = [&](std::int64_t trial) {
    return FindRepeatPlace(trial, repeats).first;
  };
  for (Observation& one : search.validations) {
    one.value = kNoValue;
    last[find_point(one.trial)] = &one;
  }
  for (PlotTrial& trial : search.trials) {
    const std::int64_t point = find_point(trial.id.number);
    PlotTrial*& chosen = kept.try_emplace(point, &trial).first->second;
    const auto seen = last.find(point);
    if (seen == last.end() || seen->second->trial != trial.id.number) continue;
    chosen = &trial;
    trial.best_batches = seen->second->batches;
    seen->second->value = trial.values.at(0);
  }
  std::set<std::int64_t> numbers;
  for (const auto& [point, trial] : kept) numbers.insert(trial->id.number);
  std::erase_if(search.trials, [&](const PlotTrial& trial) {
    return !numbers.contains(trial.id.number) && trial.state != State::kError;
  });
  for (PlotTrial& trial : search.trials) {
    if (numbers.contains(trial.id.number)) continue;
    std::ranges::fill(trial.values, kNoValue);
  }
}

void AddNoValues(const std::string& metric, PlotSearch& search,
                 std::vector<std::string>& notes) {
  notes.push_back("experiment " + std::to_string(search.id) +
                  " has no validation metric '" + metric + "'");
  for (PlotTrial& trial : search.trials) trial.values.push_back(kNoValue);
}

void RequireValues(const PlotData& data) {
  if (!data.place.empty()) return;
  throw Error(ErrorKind::kNotFound,
              "none of these experiments has a validation metric '" +
                  data.metrics.front().name + "'");
}

std::vector<PlotMetric> ParseMetricGoals(const PlotQuery& query,
                                         const ExperimentRow& first) {
  if (query.metrics.empty()) return {{first.metric, first.smaller_is_better}};
  std::vector<PlotMetric> metrics;
  for (const std::string& text : query.metrics) {
    const MetricGoal goal = ParseMetricGoal("--metric", text, first);
    metrics.push_back({goal.metric, goal.smaller_is_better});
  }
  return metrics;
}

}  // namespace

std::string ListNames(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 20, kWidth = 60;
  std::vector<std::string> shown;
  for (const std::string& name : names) {
    if (shown.size() == kShown) break;
    shown.push_back(Truncate(ToValidUtf8(name), kWidth));
  }
  const std::size_t others = names.size() - shown.size();
  return Join(shown, ", ") +
         (others > 0 ? " and " + std::to_string(others) + " more" : "");
}

std::string KnownMetrics(const std::vector<std::string>& names) {
  return names.empty() ? "; it has no metrics yet"
                       : "; it has " + ListNames(names);
}

PlotData ReadPlotData(const Store& store, const PlotQuery& query,
                      std::vector<std::string>& notes) {
  std::vector<ExperimentDetail> details;
  std::vector<std::vector<TrialRow>> trials;
  for (const std::int64_t id : query.experiments) {
    details.push_back(FindExperimentDetail(store, id));
    trials.push_back(
        ListTrials(store, details.back().row, {.checkpoints = false}));
    query.selection.Keep(trials.back());
  }
  RequireGroup(trials, query.group);
  PlotData data{.metrics = ParseMetricGoals(query, details.front().row),
                .group = GroupLabel(query.group)};
  AddGoalNotes(details, notes);
  for (std::size_t i = 0; i < details.size(); ++i) {
    PlotSearch search = MakePlotSearch(details[i]);
    for (const TrialRow& row : trials[i]) {
      search.trials.push_back(MakePlotTrial(row, search, query.group));
    }
    for (const PlotMetric& metric : data.metrics) {
      // One without it is no error as long as another one has it.
      const bool any =
          details.size() == 1 || HasValidations(store, search.id, metric.name);
      if (any) {
        AddValues(store, details[i], query, metric.name, data, search);
      } else {
        AddNoValues(metric.name, search, notes);
      }
    }
    if (query.validations) {
      ReadValidations(store, data.metrics.front().name, query.selection,
                      search);
    }
    const Repeats repeats = ReadRepeats(details[i].config);
    if (repeats.count > 1 && query.group != kPointGroup) {
      MergeRepeats(repeats.count, search);
      notes.push_back("experiment " + std::to_string(search.id) +
                      " trained each point " + std::to_string(repeats.count) +
                      " times: a point has the " + repeats.metric +
                      " of its trials and the number of one of them");
    }
    data.searches.push_back(std::move(search));
  }
  RequireValues(data);
  return data;
}

PlotData ReadRanks(const Store& store,
                   const std::vector<std::int64_t>& experiments,
                   const std::string& group, const TrialSelection& selection) {
  PlotData data{.group = GroupLabel(group)};
  std::vector<std::vector<TrialRow>> trials;
  for (const std::int64_t id : experiments) {
    const ExperimentRow row = FindExperiment(store, id);
    if (data.metrics.empty()) {
      data.metrics = {{row.metric, row.smaller_is_better}};
    }
    PlotSearch search{.id = row.id, .name = row.name};
    trials.push_back(ListTrials(
        store, row, {.hparams = !group.empty(), .checkpoints = false}));
    selection.Keep(trials.back());
    search.start = row.started.value_or(row.created);
    for (const TrialRow& trial : trials.back()) {
      search.trials.push_back(MakePlotTrial(trial, search, group));
      search.trials.back().values = {trial.best ? trial.best->value : kNoValue};
    }
    data.searches.push_back(std::move(search));
  }
  data.place = "at the best validation";
  RequireGroup(trials, group);
  return data;
}

namespace {

// The lengths of each rung, in the unit of the search.
std::vector<std::string> RungLengths(const ExperimentConfig& config) {
  std::vector<std::set<std::int64_t>> lengths;
  for (const Bracket& bracket : PlanBrackets(config.searcher)) {
    if (lengths.size() < bracket.rungs.size()) {
      lengths.resize(bracket.rungs.size());
    }
    for (std::size_t i = 0; i < bracket.rungs.size(); ++i) {
      lengths[i].insert(bracket.rungs[i]);
    }
  }
  std::vector<std::string> texts;
  for (const auto& several : lengths) {
    std::vector<std::string> numbers;
    for (const std::int64_t length : several) {
      numbers.push_back(std::to_string(length));
    }
    texts.push_back(Join(numbers, " or ") + " " +
                    std::string(UnitName(config.length_unit)));
  }
  return texts;
}

}  // namespace

PlotData ReadRungs(const Store& store,
                   const std::vector<std::int64_t>& experiments,
                   const TrialSelection& selection) {
  PlotData data = ReadRanks(store, experiments, "", selection);
  for (PlotSearch& search : data.searches) {
    const ExperimentDetail detail = FindExperimentDetail(store, search.id);
    search.rung_lengths = RungLengths(ConfigFromJson(detail.config));
  }
  return data;
}

std::vector<Span> ComputeRuns(const TrialRow& trial, RunTimes reports,
                              Timestamp start) {
  if (!trial.started) return {};
  const auto seconds = [&](Timestamp time) {
    return static_cast<double>((time - start).count()) / 1e6;
  };
  const std::int64_t runs = std::max<std::int64_t>(trial.runs, 1);
  reports.Add(seconds(*trial.started), reports.has_unknown() ? 0 : 1);
  // A failure ends the last run.
  const bool failed = trial.state == State::kError && trial.ended.has_value();
  if (failed) {
    reports.Add(seconds(*trial.ended), reports.has_known() ? runs : 0);
  }
  return reports.Spans(runs);
}

std::vector<TrialRun> PackRuns(const std::vector<TrialRow>& trials,
                               std::map<std::int64_t, RunTimes> reports,
                               Timestamp start) {
  std::vector<TrialRun> runs;
  std::vector<Span> spans;
  for (const TrialRow& trial : trials) {
    for (const Span& span :
         ComputeRuns(trial, std::move(reports[trial.id.number]), start)) {
      runs.push_back({.trial = trial.id.number, .span = span});
      spans.push_back(span);
    }
  }
  const auto lanes = PackLanes(spans);
  for (std::size_t i = 0; i < runs.size(); ++i) runs[i].lane = lanes[i];
  return runs;
}

PlotData ReadRuns(const Store& store,
                  const std::vector<std::int64_t>& experiments,
                  const TrialSelection& selection) {
  PlotData data = ReadRanks(store, experiments, "", selection);
  for (PlotSearch& search : data.searches) {
    std::map<std::int64_t, RunTimes> times;  // of reports, by trial
    const auto seconds = [&](Timestamp time) {
      return static_cast<double>((time - search.start).count()) / 1e6;
    };
    // Superseded values are the only trace of the runs that measured them.
    store.ForEachMetric({.experiment = search.id, .superseded = true},
                        [&](const MetricRow& row) {
                          times[row.trial.number].Add(seconds(row.time),
                                                      row.run);
                        });
    // A running search may have created more trials since.
    auto rows =
        store.Trials(search.id, {.hparams = false, .checkpoints = false});
    selection.Keep(rows);
    for (std::size_t i = 0; i < search.trials.size(); ++i) {
      search.trials[i].runs = ComputeRuns(
          rows[i], std::move(times[rows[i].id.number]), search.start);
    }
  }
  return data;
}

LengthAxis ChooseLengthAxis(const Store& store,
                            const std::vector<std::int64_t>& experiments,
                            bool convert) {
  std::vector<Unit> units;
  std::set<std::string> names;
  for (const std::int64_t id : experiments) {
    units.push_back(CountedUnit(store, id));
    names.emplace(UnitName(units.back()));
  }
  LengthAxis axis{.label =
                      Join(std::vector(names.begin(), names.end()), " or ")};
  const std::string different = DifferentUnitsText(experiments, units);
  if (different.empty()) return axis;
  const auto knows = [&](std::int64_t id) { return KnowsEpochs(store, id); };
  if (convert && std::ranges::all_of(experiments, knows)) {
    axis.in_epochs = true;
    axis.label = UnitName(Unit::kEpochs);
    axis.note = different + ": the axis shows epochs";
  } else {
    axis.note = different + ": they cannot be compared along this axis";
  }
  return axis;
}

std::vector<TrialCurve> ReadCurves(const Store& store, std::int64_t experiment,
                                   std::optional<std::int64_t> trial,
                                   const std::vector<std::string>& metrics,
                                   CurveAxis axis,
                                   const TrialSelection& selection) {
  const ExperimentRow row = FindTarget(store, {experiment, trial});
  const Timestamp start = row.started.value_or(row.created);
  const auto x_of = [&](const MetricRow& metric) {
    switch (axis) {
      case CurveAxis::kEpochs:
        return metric.epoch;
      case CurveAxis::kSeconds:
        return static_cast<double>((metric.time - start).count()) / 1e6;
      case CurveAxis::kBatches:
        break;
    }
    return static_cast<double>(metric.batches);
  };
  std::vector<TrialCurve> curves;
  for (const std::string& name : metrics) {
    std::map<std::pair<TrialId, MetricKind>, TrialCurve> found;
    store.ForEachMetric(
        {.experiment = experiment, .trial = trial, .name = name},
        [&](const MetricRow& metric) {
          if (!selection.Has(metric.trial)) return;
          TrialCurve& curve = found[{metric.trial, metric.kind}];
          curve.points.emplace_back(x_of(metric), metric.value);
        });
    for (auto& [key, curve] : found) {
      std::tie(curve.trial, curve.kind) = key;
      curve.metric = name;
      curves.push_back(std::move(curve));
    }
  }
  return curves;
}

}  // namespace dtrain
