// Kinds of plots over the search space: importance, parallel coordinates,
// slices and contours. Experiments may have different spaces, so that each has
// a panel of its own.
//
// A place on an axis is a share of it from 0 to 1, also on a logarithmic one;
// categories are numbered in the order of the configuration. Without --hparams
// the most important hyperparameters are shown.

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "engine/analysis/importance.h"
#include "engine/base/rounding.h"
#include "engine/base/text.h"
#include "engine/report/format.h"
#include "engine/report/plot.h"
#include "engine/report/plot_subjects.h"

namespace dtrain {
namespace {

constexpr std::size_t kMaxBars = 30;
constexpr std::size_t kMaxParallel = 10;
constexpr std::size_t kMaxChoices = 24;  // of a category, with names
constexpr std::size_t kFieldCells = 24;

bool HasValue(const PlotTrial& trial) {
  return std::isfinite(trial.values.at(0));
}

std::size_t CountValues(const PlotSearch& search) {
  return static_cast<std::size_t>(
      std::ranges::count_if(search.trials, HasValue));
}

// Share of an axis, 0 to 1, at which a value lies; NaN for none.
double AxisShare(const SearchAxis& axis, double place) {
  if (axis.constant()) return std::isnan(place) ? place : 0.5;
  if (!axis.log) return (place - axis.low) / (axis.high - axis.low);
  return std::log(place / axis.low) / std::log(axis.high / axis.low);
}

double ValueAtShare(const SearchAxis& axis, double share) {
  if (!axis.log) return axis.low + share * (axis.high - axis.low);
  return axis.low * std::pow(axis.high / axis.low, share);
}

// True for categories that each have a name on the axis.
bool HasNames(const SearchAxis& axis) {
  return !axis.choices.empty() && axis.choices.size() <= kMaxChoices;
}

std::string ChoiceName(const nlohmann::json& choice) {
  return ShortName(FormatValue(choice));
}

ChartAxis MakeChartAxis(const SearchAxis& axis) {
  ChartAxis chart = {.label = ShortName(axis.name), .log = axis.log};
  if (HasNames(axis)) {
    for (const auto& choice : axis.choices) {
      chart.names.push_back(ChoiceName(choice));
    }
    return chart;
  }
  if (!axis.choices.empty()) chart.label += " (index of the choice)";
  if (!axis.constant()) chart.range = std::pair(axis.low, axis.high);
  return chart;
}

// Returns why a search has nothing to show over its space; empty if it has.
std::string EmptySpaceReason(const PlotSearch& search, const ChosenAxes& chosen,
                             const PlotMetric& metric) {
  if (search.axes.empty()) return "its search space has no hyperparameter";
  if (chosen.axes.empty())
    return "its search space lacks these hyperparameters";
  if (CountValues(search) == 0) {
    return "no trial has a finite value of " + ShortName(metric.name);
  }
  return "";
}

// Adds what is shown of one search: to the title if it is the only one.
void AddCaption(const PlotData& data, const PlotSearch& search,
                const std::string& shown, std::vector<std::string>& title,
                Figure& figure) {
  if (shown.empty()) return;
  if (data.searches.size() == 1) {
    title.push_back(shown);
  } else {
    figure.notes.push_back("experiment " + std::to_string(search.id) + ": " +
                           shown);
  }
}

void AddImportance(const HparamImportance& one, bool few, Chart& chart) {
  std::string text = FormatFixed(100 * one.share, 0) + " % (" +
                     FormatFixed(100 * one.low, 0) + "-" +
                     FormatFixed(100 * one.high, 0) + ")";
  if (one.correlation) {
    text += ", correlation " + FormatFixed(*one.correlation, 2);
  }
  chart.bars.push_back({.style = {},
                        .row = chart.y.names.size(),
                        .from = 0,
                        .to = 100 * one.share,
                        .text = std::move(text),
                        .interval = std::pair(100 * one.low, 100 * one.high),
                        .hatched = few});
  chart.y.names.push_back(ShortName(one.name));
}

// Adds what it shows, such as "40 trials", to `shown`.
Chart ImportanceChart(const PlotSearch& search, const PlotData& data,
                      double quantile, std::string& shown) {
  const PlotMetric& metric = data.metrics.at(0);
  const auto outcomes = FiniteOutcomes(search);
  Chart chart;
  chart.x.label = "share of importance, per cent";
  if (search.axes.empty()) {
    chart.empty = "its search space has no hyperparameter";
    return chart;
  }
  if (outcomes.size() < kMinImportanceTrials) {
    chart.empty = CountText(outcomes.size(), "trial has", "trials have") +
                  " a finite value of " + ShortName(metric.name) + " " +
                  data.place + ", and importance needs " +
                  std::to_string(kMinImportanceTrials);
    return chart;
  }
  auto importances = HparamImportances(search.axes, outcomes,
                                       metric.smaller_is_better, quantile);
  // All that equal the last of the best count: there may be many more than the
  // quantile says.
  const std::size_t best =
      CountBest(outcomes, metric.smaller_is_better, quantile);
  shown = "best " + std::to_string(best) + " of " +
          CountText(outcomes.size(), "trial") +
          (best < kFewBest ? " (few: a matter of chance, hatched)" : "");
  if (importances.size() > kMaxBars) {
    shown += ", " + std::to_string(kMaxBars) + " of " +
             CountText(importances.size(), "hyperparameter");
    importances.resize(kMaxBars);
  }
  double highest = 1;
  for (const HparamImportance& one : importances) {
    AddImportance(one, best < kFewBest, chart);
    highest = std::max(highest, 100 * std::max(one.share, one.high));
  }
  chart.x.range = std::pair(0.0, highest);
  return chart;
}

}  // namespace

Figure ImportanceFigure(const PlotData& data, double quantile) {
  Figure figure;
  std::vector<std::string> title = {"importance for being among the best in " +
                                    ShortName(data.metrics.at(0).name) + " " +
                                    data.place};
  for (const PlotSearch& search : data.searches) {
    std::string shown;
    Chart chart = ImportanceChart(search, data, quantile, shown);
    AddCaption(data, search, shown, title, figure);
    chart.title = PanelTitle(data, search);
    figure.panels.push_back(std::move(chart));
  }
  figure.title = PlotTitle(data, JoinParts(title));
  const bool any = std::ranges::any_of(
      figure.panels, [](const Chart& chart) { return !chart.bars.empty(); });
  if (any) {
    figure.notes.push_back(
        "in brackets, and as lines: where 90 % of samples from these trials "
        "lie "
        "(bootstrap)");
  }
  AddMissingValuesNote(data, figure);
  LimitPanels(figure);
  return figure;
}

namespace {

ParallelAxis MakeParallelAxis(const SearchAxis& axis) {
  ParallelAxis parallel = {
      .name = ShortName(axis.name) + (axis.log ? " (log)" : ""), .ticks = {}};
  if (!axis.choices.empty()) {
    // The ends and some between.
    const std::size_t step = (axis.choices.size() + 9) / 10;
    for (std::size_t i = 0; i < axis.choices.size(); i += step) {
      parallel.ticks.emplace_back(AxisShare(axis, static_cast<double>(i)),
                                  ChoiceName(axis.choices[i]));
    }
    return parallel;
  }
  parallel.ticks.emplace_back(AxisShare(axis, axis.low),
                              FormatMetric(axis.low));
  if (!axis.constant()) {
    parallel.ticks.emplace_back(1, FormatMetric(axis.high));
  }
  return parallel;
}

// The last axis: the metric of the trials, from its least value to its
// greatest, or to those that are no outliers.
SearchAxis MetricAxis(const PlotMetric& metric,
                      const std::vector<double>& values,
                      const std::optional<RobustLimits>& limits) {
  const auto [low, high] = std::ranges::minmax(values);
  return {.name = metric.name,
          .low = limits ? limits->low : low,
          .high = limits ? limits->high : high};
}

// Height of the lane of trials that lack a hyperparameter, as a share of the
// axis.
constexpr double kAbsentLane = 0.1;

// True if a trial lacks the hyperparameter, by its condition or as a part of
// another category.
bool IsAbsentSomewhere(const PlotSearch& search, std::size_t axis) {
  const SearchAxis& one = search.axes[axis];
  if (one.when.is_null() && !one.is_part) return false;
  return std::ranges::any_of(search.trials, [&](const PlotTrial& trial) {
    return HasValue(trial) && std::isnan(trial.places[axis]);
  });
}

Chart ParallelChart(const PlotSearch& search, const ChosenAxes& chosen,
                    const PlotData& data, const PlotSubjects& subjects,
                    bool all_values) {
  const PlotMetric& metric = data.metrics.at(0);
  const auto values = FiniteValues(search);
  std::optional<RobustLimits> limits;
  if (!all_values) limits = FindRobustLimits(values, values);
  const SearchAxis value_axis = MetricAxis(metric, values, limits);
  Chart chart;
  std::vector<bool> has_lane;
  const auto above_lane = [](double share) {
    return kAbsentLane + (1 - kAbsentLane) * share;
  };
  for (const std::size_t i : chosen.axes) {
    chart.parallel.push_back(MakeParallelAxis(search.axes[i]));
    has_lane.push_back(IsAbsentSomewhere(search, i));
    if (!has_lane.back()) continue;
    auto& ticks = chart.parallel.back().ticks;
    for (auto& [share, text] : ticks) share = above_lane(share);
    ticks.emplace(ticks.begin(), 0, "absent");
  }
  chart.parallel.push_back(MakeParallelAxis(value_axis));
  auto& ticks = chart.parallel.back().ticks;
  if (limits && limits->below > 0) {
    ticks.front().second += " (" + std::to_string(limits->below) + " below)";
  }
  if (limits && limits->above > 0) {
    ticks.back().second += " (" + std::to_string(limits->above) + " above)";
  }
  for (const PlotTrial* trial : RankedTrials(data)) {
    const PlotTrial& one = *trial;
    if (one.id.experiment != search.id || !HasValue(one)) continue;
    CurveMark curve = {.style = subjects.styles.at(one.id), .points = {}};
    for (std::size_t k = 0; k < chosen.axes.size(); ++k) {
      const std::size_t i = chosen.axes[k];
      const double share = AxisShare(search.axes[i], one.places[i]);
      curve.points.emplace_back(k, !has_lane[k]        ? share
                                   : std::isnan(share) ? 0
                                                       : above_lane(share));
    }
    curve.points.emplace_back(
        curve.points.size(),
        std::clamp(AxisShare(value_axis, one.values[0]), 0.0, 1.0));
    chart.curves.push_back(std::move(curve));
  }
  return chart;
}

// Differences of the plots over hyperparameters.
struct SpacePlot {
  std::string text;  // of the title
  LegendEntry::Sample sample = LegendEntry::Sample::kDot;
  std::size_t max_axes = 0;
};

std::vector<Chart> EmptyPanel(std::string why) {
  Chart chart;
  chart.empty = std::move(why);
  return {std::move(chart)};
}

// Draws the panels of each search that `draw` returns for the search, its
// chosen axes and the subjects.
template <typename Draw>
Figure SpaceFigure(const PlotData& data, const PlotLook& look,
                   const SpacePlot& plot, const Draw& draw) {
  const PlotSubjects subjects = ChooseSubjects(data, look.top, plot.sample);
  Figure figure{.title = "", .panels = {}, .legend = subjects.legend};
  std::vector<std::string> title = {plot.text, GroupedText(data),
                                    subjects.shown};
  for (const PlotSearch& search : data.searches) {
    const ChosenAxes chosen =
        ChooseAxes(search, data.metrics.at(0), look.hparams, plot.max_axes);
    for (Chart& panel : draw(search, chosen, subjects)) {
      panel.title = JoinParts(
          std::vector<std::string>{PanelTitle(data, search), panel.title});
      figure.panels.push_back(std::move(panel));
    }
    AddCaption(data, search, chosen.shown, title, figure);
  }
  figure.title = PlotTitle(data, JoinParts(title));
  AddMissingValuesNote(data, figure);
  LimitPanels(figure);
  return figure;
}

}  // namespace

Figure ParallelFigure(const PlotData& data, const PlotLook& look) {
  return SpaceFigure(data, look,
                     {.text = "hyperparameters and " + MetricLabel(data),
                      .sample = LegendEntry::Sample::kCurve,
                      .max_axes = kMaxParallel},
                     [&](const PlotSearch& search, const ChosenAxes& chosen,
                         const PlotSubjects& subjects) {
                       std::string empty =
                           EmptySpaceReason(search, chosen, data.metrics.at(0));
                       if (!empty.empty()) return EmptyPanel(std::move(empty));
                       return std::vector<Chart>{ParallelChart(
                           search, chosen, data, subjects, look.all_values)};
                     });
}

namespace {

// Dots of the trials by their style, at places that `point` gives.
template <typename PointOf>
std::vector<DotMark> DotsByStyle(const PlotSearch& search,
                                 const PlotSubjects& subjects,
                                 const PointOf& point) {
  std::map<MarkStyle, DotMark> dots;
  for (const PlotTrial& trial : search.trials) {
    if (!HasValue(trial)) continue;
    const MarkStyle& style = subjects.styles.at(trial.id);
    DotMark& mark = dots[style];
    mark.style = style;
    mark.points.push_back(point(trial));
  }
  std::vector<DotMark> marks;
  for (auto& [style, mark] : dots) marks.push_back(std::move(mark));
  return marks;
}

}  // namespace

Figure SliceFigure(const PlotData& data, const PlotLook& look) {
  const PlotMetric& metric = data.metrics.at(0);
  Figure beyond;  // has the notes on outliers
  const auto draw = [&](const PlotSearch& search, const ChosenAxes& chosen,
                        const PlotSubjects& subjects) {
    std::string empty = EmptySpaceReason(search, chosen, metric);
    if (!empty.empty()) return EmptyPanel(std::move(empty));
    std::vector<Chart> panels;
    for (const std::size_t i : chosen.axes) {
      Chart chart;
      chart.title = ShortName(search.axes[i].name);
      chart.x = MakeChartAxis(search.axes[i]);
      if (chart.x.label == chart.title) chart.x.label.clear();
      chart.y = ChartAxis{.label = ShortName(metric.name),
                          .log = look.log_y,
                          .range = look.y_range};
      const auto values = FiniteValues(search);
      const std::size_t notes = beyond.notes.size();
      LimitOutliers(look, values, values, chart.y, beyond);
      if (i != chosen.axes.front()) beyond.notes.resize(notes);  // once
      chart.dots = DotsByStyle(search, subjects, [&](const PlotTrial& trial) {
        return CurvePoint(trial.places[i], trial.values[0]);
      });
      panels.push_back(std::move(chart));
    }
    return panels;
  };
  Figure figure = SpaceFigure(
      data, look,
      {.text = ShortName(metric.name) + " " + data.place + " by hyperparameter",
       .max_axes = kMaxPanels},
      draw);
  std::ranges::move(beyond.notes, std::back_inserter(figure.notes));
  return figure;
}

namespace {

FieldAxis MakeFieldAxis(const SearchAxis& axis) {
  if (!HasNames(axis)) return {.cells = kFieldCells};
  return {.cells = axis.choices.size(), .categories = true};
}

// The place in a field, 0 to 1.
double FieldPlace(const SearchAxis& axis, double place) {
  if (!HasNames(axis)) return AxisShare(axis, place);
  return (place + 0.5) / static_cast<double>(axis.choices.size());
}

// Ends of a cell as values of the axis.
std::pair<double, double> CellEnds(const SearchAxis& axis, std::size_t cell,
                                   std::size_t cells) {
  const auto at = static_cast<double>(cell);
  if (HasNames(axis)) return {at - 0.5, at + 0.5};
  const auto all = static_cast<double>(cells);
  return {ValueAtShare(axis, at / all), ValueAtShare(axis, (at + 1) / all)};
}

// Trials with both hyperparameters, their shares of ranks from 0, the worst, to
// 1, the best.
std::vector<FieldSample> RankSamples(const PlotSearch& search,
                                     const SearchAxis& x, const SearchAxis& y,
                                     std::size_t x_index, std::size_t y_index,
                                     bool smaller_is_better) {
  std::vector<FieldSample> samples;
  std::vector<double> values;
  for (const PlotTrial& trial : search.trials) {
    const double at_x = FieldPlace(x, trial.places[x_index]);
    const double at_y = FieldPlace(y, trial.places[y_index]);
    if (!HasValue(trial) || !std::isfinite(at_x) || !std::isfinite(at_y)) {
      continue;
    }
    samples.push_back({.x = at_x, .y = at_y});
    values.push_back(smaller_is_better ? -trial.values[0] : trial.values[0]);
  }
  const auto ranks = Ranks(values);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const auto count = static_cast<double>(samples.size());
    samples[i].value = count < 2 ? 0.5 : (ranks[i] - 1) / (count - 1);
  }
  return samples;
}

Chart ContourChart(const PlotSearch& search, std::size_t x_index,
                   std::size_t y_index, const PlotMetric& metric,
                   const PlotSubjects& subjects) {
  const SearchAxis& x = search.axes[x_index];
  const SearchAxis& y = search.axes[y_index];
  Chart chart;
  chart.x = MakeChartAxis(x);
  chart.y = MakeChartAxis(y);
  const auto samples =
      RankSamples(search, x, y, x_index, y_index, metric.smaller_is_better);
  const FieldAxis columns = MakeFieldAxis(x), rows = MakeFieldAxis(y);
  const auto field = EstimateField(samples, columns, rows);
  for (std::size_t i = 0; i < field.size(); ++i) {
    if (std::isnan(field[i])) continue;
    const auto [left, right] = CellEnds(x, i % columns.cells, columns.cells);
    const auto [bottom, top] = CellEnds(y, i / columns.cells, rows.cells);
    chart.cells.push_back({left, right, bottom, top, field[i]});
  }
  chart.dots = DotsByStyle(search, subjects, [&](const PlotTrial& trial) {
    return CurvePoint(trial.places[x_index], trial.places[y_index]);
  });
  return chart;
}

// Returns why a search has no contour; empty if it has one.
std::string NoContourReason(const PlotSearch& search, const ChosenAxes& chosen,
                            const PlotMetric& metric) {
  const std::string empty = EmptySpaceReason(search, chosen, metric);
  if (!empty.empty()) return empty;
  if (chosen.axes.size() < 2) {
    return "a contour needs two hyperparameters, its search space has " +
           std::to_string(chosen.axes.size()) + " of these";
  }
  for (const std::size_t i : chosen.axes) {
    if (search.axes[i].constant()) {
      return ShortName(search.axes[i].name) + " has a single value";
    }
  }
  return "";
}

}  // namespace

Figure ContourFigure(const PlotData& data, const PlotLook& look) {
  const PlotMetric& metric = data.metrics.at(0);
  const auto draw = [&](const PlotSearch& search, const ChosenAxes& chosen,
                        const PlotSubjects& subjects) {
    std::string empty = NoContourReason(search, chosen, metric);
    if (!empty.empty()) return EmptyPanel(std::move(empty));
    return std::vector<Chart>{
        ContourChart(search, chosen.axes[0], chosen.axes[1], metric, subjects)};
  };
  Figure figure = SpaceFigure(
      data, look,
      {.text = "estimated rank in " + ShortName(metric.name) + " " + data.place,
       .max_axes = 2},
      draw);
  figure.light = "worst";
  figure.dark = "best";
  figure.notes.push_back(
      "shades are a mean of the ranks of near trials; blank where no trial is "
      "near");
  return figure;
}

}  // namespace dtrain
