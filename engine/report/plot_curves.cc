// Kinds of plots over training: curves of trials, and the history of a search.
//
// CurvesDrawing visits the trials in the order of their ranks and metrics, so
// that colours go to the best ones and the others are gray. With groups, a
// mean of several trials is drawn in the colour of the group, with a band of
// one standard deviation on either side, and its trials in gray. HistoryDrawing
// adds one search after the other. Failures come last, because one without a
// value is drawn at the lower edge, which only the other marks determine.

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "engine/base/rounding.h"
#include "engine/base/text.h"
#include "engine/report/format.h"
#include "engine/report/plot.h"
#include "engine/report/plot_subjects.h"

namespace dtrain {
namespace {

// Metrics that both training and validation report.
std::set<std::string> NamesOfBothKinds(const std::vector<TrialCurve>& curves) {
  std::map<std::string, std::set<MetricKind>> kinds;
  for (const TrialCurve& curve : curves) {
    kinds[curve.metric].insert(curve.kind);
  }
  std::set<std::string> names;
  for (const auto& [name, found] : kinds) {
    if (found.size() > 1) names.insert(name);
  }
  return names;
}

std::size_t CountNotFinite(const std::vector<TrialCurve>& curves) {
  std::size_t count = 0;
  for (const TrialCurve& curve : curves) {
    count += static_cast<std::size_t>(std::ranges::count_if(
        curve.points,
        [](const CurvePoint& point) { return !std::isfinite(point.second); }));
  }
  return count;
}

std::vector<std::string> ShortNames(const std::vector<std::string>& names) {
  constexpr std::size_t kNamed = 4;
  std::vector<std::string> shown;
  for (const std::string& name : names) {
    if (shown.size() == kNamed) {
      shown.push_back(std::to_string(names.size() - kNamed) + " more");
      break;
    }
    shown.push_back(ShortName(name));
  }
  return shown;
}

// Draws the curves of trials in the order of their ranks.
class CurvesDrawing {
 public:
  CurvesDrawing(const PlotData& data, const std::vector<TrialCurve>& curves,
                const CurvesRequest& request, const PlotLook& look)
      : data_(data),
        request_(request),
        look_(look),
        subjects_(ChooseSubjects(data, look.top, LegendEntry::Sample::kCurve)),
        both_kinds_(NamesOfBothKinds(curves)) {
    for (const TrialCurve& curve : curves) {
      curves_[{curve.trial, curve.metric, curve.kind}] = &curve;
    }
  }

  Figure Draw() {
    Chart chart;
    std::string shown, grouped;
    if (data_.group.empty()) {
      shown = DrawTrials(chart);
    } else {
      grouped = DrawGroups(chart);
      shown = subjects_.shown;
    }
    const std::string metrics = Join(ShortNames(request_.metrics), ", ");
    figure_.title = PlotTitle(
        data_, JoinParts(std::vector<std::string>{metrics, grouped, shown}));
    chart.x.label = request_.x_label;
    chart.y =
        ChartAxis{.label = metrics, .log = look_.log_y, .range = look_.y_range};
    std::vector<double> lows, highs;
    for (const auto& [trial, extremes] : extremes_) {
      lows.push_back(extremes.first);
      highs.push_back(extremes.second);
    }
    LimitOutliers(look_, std::move(lows), std::move(highs), chart.y, figure_);
    figure_.panels = {std::move(chart)};
    return std::move(figure_);
  }

 private:
  // Calls `draw` with each curve, its trial and the index of its metric, by the
  // ranks of the trials.
  template <typename Draw>
  void ForEachCurve(Draw&& draw) {
    for (const PlotTrial* trial : RankedTrials(data_)) {
      for (std::size_t i = 0; i < request_.metrics.size(); ++i) {
        for (const MetricKind kind :
             {MetricKind::kTraining, MetricKind::kValidation}) {
          const auto found =
              curves_.find({trial->id, request_.metrics[i], kind});
          if (found != curves_.end()) draw(*found->second, *trial, i);
        }
      }
    }
  }

  // Returns how many of the trials are in colours; empty if all are.
  std::string DrawTrials(Chart& chart) {
    std::set<TrialId> colored;
    ForEachCurve([&](const TrialCurve& curve, const PlotTrial& trial,
                     std::size_t metric) {
      chart.curves.push_back(Mark(curve, trial, metric));
      if (!chart.curves.back().style.faint) colored.insert(trial.id);
    });
    const std::size_t trials = RankedTrials(data_).size();
    if (colored.size() == trials) return "";
    return "best " + std::to_string(colored.size()) + " of " +
           CountText(trials, "trial");
  }

  // Draws the mean of each group that has several trials, and the trials in
  // gray behind it. Returns how the trials are grouped.
  std::string DrawGroups(Chart& chart) {
    using Group = std::tuple<nlohmann::json, std::size_t, MetricKind>;
    std::map<Group, std::vector<CurveMark>> groups;
    ForEachCurve([&](const TrialCurve& curve, const PlotTrial& trial,
                     std::size_t metric) {
      groups[{trial.group, metric, curve.kind}].push_back(
          Mark(curve, trial, metric));
    });
    figure_.legend = GroupLegend();
    std::vector<CurveMark> behind;
    bool ends_differ = false;
    for (auto& [group, marks] : groups) {
      if (marks.size() == 1) {
        chart.curves.push_back(std::move(marks.front()));
        continue;
      }
      AddMean(marks, chart);
      for (CurveMark& mark : marks) {
        ends_differ |= mark.points.back().first != marks[0].points.back().first;
        mark.style.faint = true;
        mark.tag.clear();
      }
      std::ranges::move(marks, std::back_inserter(behind));
    }
    if (ends_differ) {
      figure_.notes.push_back(
          "a mean counts the trials of a group that got that far; it may "
          "jump where one ends");
    }
    const bool has_means = !behind.empty();
    std::ranges::move(behind, std::back_inserter(chart.curves));
    return GroupedText(data_) +
           (has_means ? " (mean and standard deviation)" : "");
  }

  static void AddMean(const std::vector<CurveMark>& marks, Chart& chart) {
    std::vector<std::vector<CurvePoint>> curves;
    for (const CurveMark& mark : marks) curves.push_back(mark.points);
    CurveMark line{
        .style = marks.front().style, .points = {}, .tag = marks.front().tag};
    BandMark band{.style = line.style, .low = {}, .high = {}};
    for (const MeanPoint& point : MeanCurve(curves)) {
      line.points.emplace_back(point.x, point.mean);
      band.low.emplace_back(point.x, point.mean - point.deviation);
      band.high.emplace_back(point.x, point.mean + point.deviation);
    }
    const bool has_band = !band.low.empty() && !band.style.faint;
    if (has_band) chart.bands.push_back(std::move(band));
    chart.curves.push_back(std::move(line));
  }

  // Groups of several metrics have a line for each of them.
  std::vector<LegendEntry> GroupLegend() const {
    const std::size_t metrics = request_.metrics.size();
    if (metrics == 1) return subjects_.legend;
    std::vector<LegendEntry> legend;
    for (const LegendEntry& group : subjects_.legend) {
      for (std::size_t i = 0; i < metrics && legend.size() < kMaxLegend; ++i) {
        LegendEntry entry = group;
        entry.style.color = group.style.color * metrics + i;
        entry.name += " " + ShortName(request_.metrics[i]);
        legend.push_back(std::move(entry));
      }
    }
    return legend;
  }

  CurveMark Mark(const TrialCurve& curve, const PlotTrial& trial,
                 std::size_t metric) {
    const bool both = both_kinds_.contains(curve.metric);
    CurveMark mark = {
        .style = subjects_.styles.at(curve.trial),
        .points = curve.points,
        .tag = request_.one_trial ? curve.metric : ToString(curve.trial)};
    mark.style.dashed = both && curve.kind == MetricKind::kTraining;
    if (data_.group.empty()) {
      const auto rank = ranks_.try_emplace(trial.id, ranks_.size()).first;
      mark.style.color = rank->second * request_.metrics.size() + metric;
      mark.style.faint =
          rank->second >= look_.top || figure_.legend.size() == kMaxLegend;
      if (!mark.style.faint) AddLegend(curve, mark.style, both);
    } else {
      mark.style.color = mark.style.color * request_.metrics.size() + metric;
      mark.style.faint |= mark.style.color >= kMaxLegend;
      mark.tag = FormatValue(trial.group);
    }
    std::ranges::stable_sort(mark.points, {}, &CurvePoint::first);
    if (request_.smooth > 0) Smooth(request_.smooth, mark.points);
    auto& [low, high] =
        extremes_.try_emplace(trial.id, HUGE_VAL, -HUGE_VAL).first->second;
    for (const auto& [x, y] : mark.points) {
      if (!std::isfinite(y)) continue;
      low = std::min(low, y);
      high = std::max(high, y);
    }
    return mark;
  }

  void AddLegend(const TrialCurve& curve, const MarkStyle& style, bool both) {
    std::string name = ToString(curve.trial) + " " + ShortName(curve.metric);
    if (both) {
      name +=
          curve.kind == MetricKind::kTraining ? " (training)" : " (validation)";
    }
    figure_.legend.push_back({style, LegendEntry::Sample::kCurve, name});
  }

  const PlotData& data_;
  const CurvesRequest& request_;
  const PlotLook& look_;
  const PlotSubjects subjects_;
  const std::set<std::string> both_kinds_;
  std::map<std::tuple<TrialId, std::string, MetricKind>, const TrialCurve*>
      curves_;
  std::map<TrialId, std::size_t> ranks_;  // of trials with curves
  std::map<TrialId, std::pair<double, double>> extremes_;
  Figure figure_;
};

}  // namespace

Figure CurvesFigure(const PlotData& data, std::vector<TrialCurve> curves,
                    const CurvesRequest& request, const PlotLook& look) {
  Figure figure = CurvesDrawing(data, curves, request, look).Draw();
  Chart& chart = figure.panels.front();
  chart.x.log = look.log_x;
  const std::size_t not_finite = CountNotFinite(curves);
  if (not_finite > 0) {
    figure.notes.push_back(CountText(not_finite, "value is", "values are") +
                           " not finite: the curves have gaps there");
  }
  return figure;
}

namespace {

// The curve as steps: each value holds until the next point.
std::vector<CurvePoint> ToSteps(const std::vector<CurvePoint>& curve) {
  std::vector<CurvePoint> steps;
  for (const CurvePoint& point : curve) {
    if (!steps.empty()) steps.emplace_back(point.first, steps.back().second);
    steps.push_back(point);
  }
  return steps;
}

// Trials that failed: the effort at which each ended, and its value or NaN.
// Counted in seconds, a failure has its own place; otherwise it lies at the
// effort of the last validation before it.
std::vector<CurvePoint> FailurePoints(const PlotSearch& search, Effort effort,
                                      const std::vector<double>& efforts) {
  std::vector<CurvePoint> places;
  for (const PlotTrial& trial : search.trials) {
    if (trial.state != State::kError) continue;
    const double value = trial.values.at(0);
    const Timestamp ended = trial.ended.value_or(search.start);
    if (effort == Effort::kSeconds) {
      places.emplace_back(
          static_cast<double>((ended - search.start).count()) / 1e6, value);
      continue;
    }
    const auto later = std::ranges::upper_bound(search.validations, ended, {},
                                                &Observation::time);
    const auto seen = later - search.validations.begin();
    places.emplace_back(seen == 0 ? 0 : efforts[static_cast<size_t>(seen - 1)],
                        value);
  }
  return places;
}

// The lowest finite value of all marks, at which failures without a value are
// drawn.
double LowestY(const Chart& chart) {
  double lowest = HUGE_VAL;
  const auto include = [&](const std::vector<CurvePoint>& points) {
    for (const auto& [x, y] : points) {
      const bool shown = std::isfinite(y) && (!chart.y.log || y > 0);
      if (shown) lowest = std::min(lowest, y);
    }
  };
  for (const CurveMark& curve : chart.curves) include(curve.points);
  for (const DotMark& dots : chart.dots) include(dots.points);
  if (chart.y.range) return chart.y.range->first;
  return std::isfinite(lowest) ? lowest : 1;
}

void AddFailures(std::vector<CurvePoint> places, Figure& figure) {
  if (places.empty()) return;
  Chart& chart = figure.panels.front();
  const double bottom = LowestY(chart);
  std::size_t without = 0;
  for (auto& [x, y] : places) {
    if (std::isfinite(y) && (!chart.y.log || y > 0)) continue;
    y = bottom;
    ++without;
  }
  std::string name = CountText(places.size(), "trial") + " failed";
  if (without == places.size()) {
    name += " (at the bottom: without a value)";
  } else {
    name += ", at the best value";
    if (without > 0) {
      name +=
          " (at the bottom: " + std::to_string(without) + " without a value)";
    }
  }
  chart.dots.push_back({.style = MarkStyle{.color = 5},
                        .points = std::move(places),
                        .cross = true});
  figure.legend.push_back(
      {{.color = 5}, LegendEntry::Sample::kCross, std::move(name)});
}

// Collects the marks of a history, search by search.
class HistoryDrawing {
 public:
  // Two lines of the legend are left for validations and failures.
  HistoryDrawing(const PlotData& data, Effort effort)
      : data_(data),
        effort_(effort),
        groups_(ChooseSubjects(data, 0, LegendEntry::Sample::kCurve,
                               kMaxLegend - 2)) {}

  void Add(const PlotSearch& search) {
    const auto efforts =
        ComputeEfforts(search.validations, effort_, search.start);
    std::map<std::int64_t, const PlotTrial*> trials;
    for (const PlotTrial& trial : search.trials) {
      trials[trial.id.number] = &trial;
      if (std::isinf(trial.values.at(0))) ++not_finite_;
    }
    std::set<std::int64_t> validated;
    std::map<std::int64_t, double> places;  // efforts, by trial
    for (std::size_t i = 0; i < efforts.size(); ++i) {
      const Observation& seen = search.validations[i];
      validated.insert(seen.trial);
      const auto trial = trials.find(seen.trial);
      const bool to_best =
          trial != trials.end() && seen.batches <= trial->second->best_batches;
      if (to_best) places[seen.trial] = efforts[i];
    }
    for (const auto& [trial, effort] : places) {
      dots_.points.emplace_back(effort, trials[trial]->values[0]);
    }
    trials_ += search.trials.size();
    for (const PlotTrial& trial : search.trials) {
      if (!validated.contains(trial.id.number)) ++missing_;
    }
    const auto own = FailurePoints(search, effort_, efforts);
    failures_.insert(failures_.end(), own.begin(), own.end());
    if (!data_.group.empty()) {
      AddGroups(search);
      return;
    }
    // One line of the legend is left for failures.
    if (curves_.size() == kMaxLegend - 1) return;
    const MarkStyle style = {.color = curves_.size()};
    curves_.push_back({style, BestSteps(search, search.validations),
                       std::to_string(search.id)});
    legend_.push_back({style, LegendEntry::Sample::kCurve,
                       "best so far of " + SearchName(search)});
  }

  // REQUIRES: the last call.
  void Finish(Figure& figure) {
    Chart& chart = figure.panels.front();
    DrawGroups(figure);
    chart.curves = std::move(curves_);
    figure.legend = std::move(legend_);
    if (data_.searches.size() == 1) {
      figure.legend.push_back(
          {dots_.style, LegendEntry::Sample::kDot,
           CountText(dots_.points.size(), "trial at its", "trials at their") +
               " best validation"});
      chart.dots.push_back(std::move(dots_));
    }
    AddFailures(std::move(failures_), figure);
    if (missing_ > 0) {
      figure.notes.push_back(
          std::to_string(missing_) + " of " + CountText(trials_, "trial") +
          (missing_ == 1 ? " was" : " were") + " never validated");
    }
    if (not_finite_ > 0) {
      figure.notes.push_back(CountText(not_finite_, "value is", "values are") +
                             " not finite and not shown");
    }
  }

 private:
  std::vector<CurvePoint> BestSteps(
      const PlotSearch& search, const std::vector<Observation>& seen) const {
    return ToSteps(BestSoFar(seen, effort_, search.start,
                             data_.metrics.at(0).smaller_is_better));
  }

  // Adds the best so far of each group of the search's trials, over the effort
  // of all its trials.
  void AddGroups(const PlotSearch& search) {
    std::map<std::int64_t, const PlotTrial*> trials;
    std::map<nlohmann::json, TrialId> members;  // one of each group
    for (const PlotTrial& trial : search.trials) {
      trials[trial.id.number] = &trial;
      members.emplace(trial.group, trial.id);
    }
    for (const auto& [group, member] : members) {
      const MarkStyle style = groups_.styles.at(member);
      std::vector<Observation> seen = search.validations;
      for (Observation& one : seen) {
        const auto trial = trials.find(one.trial);
        const bool counts =
            trial != trials.end() && trial->second->group == group;
        // Without a value it counts as effort only.
        if (!counts) one.value = std::nan("");
      }
      auto best = BestSteps(search, seen);
      if (!style.faint && !best.empty()) {
        group_curves_[group].push_back(
            {style, std::move(best), FormatValue(group)});
      }
    }
  }

  // The curve of a group of several searches is their median.
  void DrawGroups(Figure& figure) {
    if (data_.group.empty()) return;
    legend_ = groups_.legend;
    const bool any_single = std::ranges::any_of(
        group_curves_,
        [](const auto& group) { return group.second.size() == 1; });
    if (any_single && data_.searches.size() > 1) {
      figure.notes.push_back(
          "a group that only one experiment has is drawn with its own curve");
    }
    for (const auto& [group, marks] : group_curves_) {
      std::vector<std::vector<CurvePoint>> curves;
      for (const CurveMark& mark : marks) curves.push_back(mark.points);
      curves_.push_back(marks.front());
      if (marks.size() > 1) {
        curves_.back().points = ToSteps(MedianCurve(curves));
      }
    }
  }

  const PlotData& data_;
  const Effort effort_;
  const PlotSubjects groups_;  // if the trials are grouped
  std::map<nlohmann::json, std::vector<CurveMark>> group_curves_;
  std::vector<CurveMark> curves_;
  std::vector<LegendEntry> legend_;
  DotMark dots_ = {.style = MarkStyle{.faint = true}, .points = {}};
  std::vector<CurvePoint> failures_;
  std::size_t trials_ = 0;
  std::size_t missing_ = 0;     // trials without a validation
  std::size_t not_finite_ = 0;  // validations
};

std::string HistoryText(const PlotData& data) {
  const PlotMetric& metric = data.metrics.at(0);
  const bool has_medians = !data.group.empty() && data.searches.size() > 1;
  const std::size_t most = kMaxLegend - 2;
  return JoinParts(std::vector<std::string>{
      "best " + ShortName(metric.name) + " so far",
      GroupedText(data) + (has_medians ? " (median of the experiments)" : ""),
      data.group.empty()
          ? ""
          : ChooseSubjects(data, 0, LegendEntry::Sample::kCurve, most).shown});
}

}  // namespace

Figure HistoryFigure(const PlotData& data, Effort effort,
                     const std::string& x_label, const PlotLook& look) {
  const PlotMetric& metric = data.metrics.at(0);
  Figure figure{.title = PlotTitle(data, HistoryText(data)),
                .panels = {Chart{}}};
  Chart& chart = figure.panels.front();
  chart.x = ChartAxis{.label = x_label, .log = look.log_x};
  chart.y =
      ChartAxis{.label = ShortName(metric.name) + (metric.smaller_is_better
                                                       ? " (smaller is better)"
                                                       : " (larger is better)"),
                .log = look.log_y,
                .range = look.y_range};
  std::vector<double> values;
  for (const PlotSearch& search : data.searches) {
    std::ranges::move(FiniteValues(search), std::back_inserter(values));
  }
  LimitOutliers(look, values, values, chart.y, figure);
  HistoryDrawing drawing(data, effort);
  for (const PlotSearch& search : data.searches) drawing.Add(search);
  drawing.Finish(figure);
  const bool hides =
      data.group.empty() && chart.curves.size() < data.searches.size();
  if (hides) {
    figure.title += ", first " + std::to_string(chart.curves.size()) + " of " +
                    CountText(data.searches.size(), "experiment");
  }
  return figure;
}

}  // namespace dtrain
