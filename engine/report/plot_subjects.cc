// What the kinds of plots have in common: which trials get a colour and a place
// in the legend, the choice of hyperparameters, titles and notes.
//
// Trials are coloured by rank (the best N) or by group (--group); all others
// are faint, so that the spread stays visible. Whatever is left out is said:
// `shown` for the title, notes for trials without a value and for panels that
// are not drawn.

#include "engine/report/plot_subjects.h"

#include <algorithm>
#include <cmath>

#include "engine/base/metric_order.h"
#include "engine/base/text.h"
#include "engine/report/format.h"

namespace dtrain {
namespace {

constexpr std::size_t kMaxName = 30;
constexpr double kBestQuantile = 0.1;

std::size_t CountTrials(const PlotData& data) {
  std::size_t count = 0;
  for (const PlotSearch& search : data.searches) count += search.trials.size();
  return count;
}

PlotSubjects BestTrials(const PlotData& data, std::size_t top,
                        LegendEntry::Sample sample) {
  PlotSubjects subjects;
  const auto ranked = RankedTrials(data);
  const std::size_t limit = std::min(top, kMaxLegend);
  for (std::size_t i = 0; i < ranked.size(); ++i) {
    const PlotTrial& trial = *ranked[i];
    const bool shown = i < limit && !std::isnan(trial.values.at(0));
    const MarkStyle style = {.color = shown ? i : 0, .faint = !shown};
    subjects.styles[trial.id] = style;
    if (!shown) continue;
    subjects.legend.push_back({style, sample,
                               ToString(trial.id) + " " +
                                   ShortName(data.metrics.at(0).name) + " " +
                                   FormatMetric(trial.values[0])});
  }
  if (subjects.legend.size() < ranked.size()) {
    subjects.shown = "best " + std::to_string(subjects.legend.size()) + " of " +
                     CountText(ranked.size(), "trial");
  }
  return subjects;
}

PlotSubjects LargestGroups(const PlotData& data, LegendEntry::Sample sample,
                           std::size_t max_groups) {
  std::map<nlohmann::json, std::size_t> counts;
  for (const PlotSearch& search : data.searches) {
    for (const PlotTrial& trial : search.trials) ++counts[trial.group];
  }
  // The largest groups, but in the order of their values.
  std::vector<std::pair<std::size_t, nlohmann::json>> largest;
  for (const auto& [value, count] : counts) largest.emplace_back(count, value);
  std::ranges::stable_sort(largest, std::greater<>(),
                           &std::pair<std::size_t, nlohmann::json>::first);
  if (largest.size() > max_groups) largest.resize(max_groups);
  std::ranges::sort(largest, {},
                    &std::pair<std::size_t, nlohmann::json>::second);
  PlotSubjects subjects;
  std::map<nlohmann::json, MarkStyle> styles;
  for (const auto& [count, value] : largest) {
    const MarkStyle style = {.color = subjects.legend.size()};
    styles[value] = style;
    const std::string name = ShortName(data.group);
    subjects.legend.push_back(
        {style, sample,
         (value.is_null() ? "without " + name
                          : name + "=" + ShortName(FormatValue(value))) +
             " (" + CountText(count, "trial") + ")"});
  }
  for (const PlotSearch& search : data.searches) {
    for (const PlotTrial& trial : search.trials) {
      const auto found = styles.find(trial.group);
      subjects.styles[trial.id] =
          found == styles.end() ? MarkStyle{.faint = true} : found->second;
    }
  }
  if (largest.size() < counts.size()) {
    subjects.shown = std::to_string(largest.size()) + " of " +
                     std::to_string(counts.size()) + " values of " +
                     ShortName(data.group);
  }
  return subjects;
}

// Indices of the axes without parts of categories, the most important first; in
// their own order if there are too few trials to tell.
std::vector<std::size_t> AxesByImportance(const PlotSearch& search,
                                          const PlotMetric& metric) {
  const auto outcomes = FiniteOutcomes(search);
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < search.axes.size(); ++i) {
    if (!search.axes[i].is_part) order.push_back(i);
  }
  if (outcomes.size() < kMinImportanceTrials) return order;
  std::map<std::string, double> shares;
  for (const HparamImportance& one : HparamImportances(
           search.axes, outcomes, metric.smaller_is_better, kBestQuantile,
           /*intervals=*/false)) {
    shares[one.name] = one.share;
  }
  std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t i) {
    return shares[search.axes[i].name];
  });
  return order;
}

}  // namespace

std::vector<TrialOutcome> FiniteOutcomes(const PlotSearch& search) {
  std::vector<TrialOutcome> outcomes;
  for (const PlotTrial& trial : search.trials) {
    if (!std::isfinite(trial.values.at(0))) continue;
    outcomes.push_back({.places = trial.places, .value = trial.values[0]});
  }
  return outcomes;
}

std::vector<const PlotTrial*> RankedTrials(const PlotData& data) {
  std::vector<const PlotTrial*> ranked;
  for (const PlotSearch& search : data.searches) {
    for (const PlotTrial& trial : search.trials) ranked.push_back(&trial);
  }
  const bool smaller = data.metrics.at(0).smaller_is_better;
  std::ranges::stable_sort(ranked, [&](const PlotTrial* a, const PlotTrial* b) {
    const double x = a->values.at(0), y = b->values.at(0);
    if (std::isnan(x) || std::isnan(y)) return !std::isnan(x) && std::isnan(y);
    return IsBetter(x, y, smaller);
  });
  return ranked;
}

PlotSubjects ChooseSubjects(const PlotData& data, std::size_t top,
                            LegendEntry::Sample sample,
                            std::size_t max_groups) {
  return data.group.empty() ? BestTrials(data, top, sample)
                            : LargestGroups(data, sample, max_groups);
}

std::string ShortName(const std::string& name) {
  return Truncate(EscapeForTerminal(name), kMaxName);
}

std::string SearchName(const PlotSearch& search) {
  return std::to_string(search.id) + " " + ShortName(search.name);
}

std::string GroupedText(const PlotData& data) {
  return data.group.empty() ? "" : "by " + ShortName(data.group);
}

std::string PlotTitle(const PlotData& data, const std::string& text) {
  if (data.searches.size() == 1) {
    const PlotSearch& search = data.searches.front();
    return "experiment " + std::to_string(search.id) + ", " +
           ShortName(search.name) + ": " + text;
  }
  constexpr std::size_t kNamed = 6;
  std::vector<std::string> ids;
  for (const PlotSearch& search : data.searches) {
    if (ids.size() == kNamed) break;
    ids.push_back(std::to_string(search.id));
  }
  const std::size_t others = data.searches.size() - ids.size();
  return "experiments " + Join(ids, ", ") +
         (others > 0 ? " and " + std::to_string(others) + " more" : "") + ": " +
         text;
}

std::string MetricLabel(const PlotData& data, std::size_t metric) {
  const PlotMetric& one = data.metrics.at(metric);
  return ShortName(one.name) + " " + data.place + " (" +
         (one.smaller_is_better ? "smaller" : "larger") + " is better)";
}

void AddMissingValuesNote(const PlotData& data, Figure& figure) {
  std::size_t missing = 0;
  for (const PlotSearch& search : data.searches) {
    missing += static_cast<std::size_t>(
        std::ranges::count_if(search.trials, [](const PlotTrial& trial) {
          return std::ranges::any_of(
              trial.values, [](double value) { return !std::isfinite(value); });
        }));
  }
  if (missing == 0) return;
  std::vector<std::string> names;
  for (const PlotMetric& metric : data.metrics) {
    names.push_back(ShortName(metric.name));
  }
  figure.notes.push_back(
      std::to_string(missing) + " of " + CountText(CountTrials(data), "trial") +
      (missing == 1 ? " has" : " have") + " no finite value of " +
      Join(names, " and ") + " " + data.place + " and " +
      (missing == 1 ? "is" : "are") + " not shown");
}

ChosenAxes ChooseAxes(const PlotSearch& search, const PlotMetric& metric,
                      std::span<const std::string> names, std::size_t most) {
  ChosenAxes chosen;
  if (!names.empty()) {
    for (const std::string& name : names) {
      const auto found =
          std::ranges::find(search.axes, name, &SearchAxis::name);
      if (found == search.axes.end()) continue;
      chosen.axes.push_back(
          static_cast<std::size_t>(found - search.axes.begin()));
    }
  } else {
    chosen.axes = AxesByImportance(search, metric);
    if (chosen.axes.size() <= most) std::ranges::sort(chosen.axes);
  }
  if (chosen.axes.size() > most) chosen.axes.resize(most);
  const auto all = static_cast<std::size_t>(
      std::ranges::count(search.axes, /*value=*/false, &SearchAxis::is_part));
  if (!chosen.axes.empty() && chosen.axes.size() < all) {
    chosen.shown = std::to_string(chosen.axes.size()) + " of " +
                   CountText(all, "hyperparameter");
  }
  return chosen;
}

std::string PanelTitle(const PlotData& data, const PlotSearch& search) {
  if (data.searches.size() == 1) return "";
  return "experiment " + std::to_string(search.id) + ", " +
         ShortName(search.name);
}

void LimitPanels(Figure& figure) {
  if (figure.panels.size() <= kMaxPanels) return;
  figure.notes.push_back(std::to_string(kMaxPanels) + " of " +
                         std::to_string(figure.panels.size()) +
                         " panels are drawn");
  figure.panels.resize(kMaxPanels);
}

void AddOutliersNote(std::size_t count, const std::string& axis,
                     Figure& figure) {
  if (count == 0) return;
  figure.notes.push_back(CountText(count, "trial has", "trials have") +
                         " values beyond the axis" +
                         (axis.empty() ? "" : " of " + axis) +
                         ", where arrows are; --outliers shows them");
}

void LimitOutliers(const PlotLook& look, std::vector<double> lows,
                   std::vector<double> highs, ChartAxis& axis, Figure& figure) {
  if (look.all_values || axis.log || axis.range) return;
  const auto limits = FindRobustLimits(std::move(lows), std::move(highs));
  if (!limits) return;
  axis.range = std::pair(limits->low, limits->high);
  axis.arrows = true;
  AddOutliersNote(limits->below + limits->above, axis.label, figure);
}

std::vector<double> FiniteValues(const PlotSearch& search) {
  std::vector<double> values;
  for (const TrialOutcome& one : FiniteOutcomes(search)) {
    values.push_back(one.value);
  }
  return values;
}

std::string JoinParts(std::span<const std::string> parts) {
  std::string joined;
  for (const std::string& part : parts) {
    if (part.empty()) continue;
    joined += (joined.empty() ? "" : ", ") + part;
  }
  return joined;
}

}  // namespace dtrain
