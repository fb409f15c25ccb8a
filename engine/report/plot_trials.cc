// Kinds of plots over the trials of a search: distribution, Pareto front,
// timeline and rungs.
//
// What a figure leaves out (values that are missing or not finite, rows and
// panels beyond a limit, trials without a colour) is counted and said in its
// title or notes, so that a figure never looks complete when it is not. The
// timeline packs runs into as few rows as possible, so that their number is
// that of the trials that ran at the same time.

#include <algorithm>
#include <cmath>
#include <map>

#include "engine/base/rounding.h"
#include "engine/base/text.h"
#include "engine/report/format.h"
#include "engine/report/plot.h"
#include "engine/report/plot_subjects.h"

namespace dtrain {
namespace {

constexpr std::size_t kMaxRows = 40;

// Values by the name of their curve: of each search or group.
std::vector<std::pair<LegendEntry, std::vector<double>>> CollectSamples(
    const PlotData& data, PlotSubjects& subjects) {
  std::vector<std::pair<LegendEntry, std::vector<double>>> samples;
  if (data.group.empty()) {
    for (const PlotSearch& search : data.searches) {
      if (samples.size() == kMaxLegend) break;
      std::vector<double> values;
      for (const PlotTrial& trial : search.trials) {
        values.push_back(trial.values.at(0));
      }
      samples.emplace_back(LegendEntry{{.color = samples.size()},
                                       LegendEntry::Sample::kCurve,
                                       SearchName(search)},
                           std::move(values));
    }
    return samples;
  }
  subjects = ChooseSubjects(data, 0, LegendEntry::Sample::kCurve);
  for (const LegendEntry& entry : subjects.legend) {
    samples.emplace_back(entry, std::vector<double>());
  }
  for (const PlotSearch& search : data.searches) {
    for (const PlotTrial& trial : search.trials) {
      const MarkStyle& style = subjects.styles.at(trial.id);
      if (!style.faint) {
        samples[style.color].second.push_back(trial.values.at(0));
      }
    }
  }
  return samples;
}

// Steps up from 0 at each value.
std::vector<CurvePoint> DistributionSteps(std::vector<double> values) {
  std::vector<CurvePoint> steps;
  for (const CurvePoint& point : EmpiricalDistribution(std::move(values))) {
    steps.emplace_back(point.first, steps.empty() ? 0 : steps.back().second);
    steps.push_back(point);
  }
  return steps;
}

std::string DistributionTitle(const PlotData& data, std::size_t drawn,
                              std::string shown) {
  if (data.group.empty() && drawn < data.searches.size()) {
    shown = "first " + std::to_string(drawn) + " of " +
            CountText(data.searches.size(), "experiment");
  }
  return PlotTitle(
      data, JoinParts(std::vector<std::string>{
                "distribution of " + ShortName(data.metrics.at(0).name) + " " +
                    data.place,
                GroupedText(data), shown}));
}

}  // namespace

Figure DistributionFigure(const PlotData& data, const PlotLook& look) {
  Figure figure;
  figure.panels.emplace_back();
  Chart& chart = figure.panels.front();
  chart.x = ChartAxis{.label = MetricLabel(data), .log = look.log_x};
  chart.y = ChartAxis{.label = "share of trials with at most this value",
                      .range = std::pair(0.0, 1.0)};
  PlotSubjects subjects;
  std::size_t infinite = 0;
  auto samples = CollectSamples(data, subjects);
  std::vector<double> all;
  for (const auto& [entry, values] : samples) {
    all.insert(all.end(), values.begin(), values.end());
  }
  LimitOutliers(look, all, all, chart.x, figure);
  for (auto& [entry, values] : samples) {
    infinite += static_cast<std::size_t>(std::ranges::count_if(
        values, [](double value) { return std::isinf(value); }));
    chart.curves.push_back(
        {entry.style, DistributionSteps(std::move(values)),
         data.group.empty() ? Split(entry.name, ' ')[0] : ""});
    figure.legend.push_back(entry);
  }
  figure.title = DistributionTitle(data, chart.curves.size(), subjects.shown);
  AddMissingValuesNote(data, figure);
  if (infinite > 0) {
    figure.notes.push_back(
        "infinite values count in the shares: a curve may begin above 0 or end "
        "below 1");
  }
  return figure;
}

namespace {

// Trials with a finite value of both metrics.
std::vector<const PlotTrial*> CompleteTrials(const PlotData& data) {
  std::vector<const PlotTrial*> trials;
  for (const PlotSearch& search : data.searches) {
    for (const PlotTrial& trial : search.trials) {
      if (std::ranges::all_of(trial.values,
                              [](double v) { return std::isfinite(v); })) {
        trials.push_back(&trial);
      }
    }
  }
  return trials;
}

// The trials that no other one dominates, by their first value.
std::vector<const PlotTrial*> SelectFront(
    const PlotData& data, std::vector<const PlotTrial*> trials) {
  std::vector<std::vector<double>> points;
  for (const PlotTrial* trial : trials) points.push_back(trial->values);
  std::vector<const PlotTrial*> front;
  for (const std::size_t i :
       ParetoFront(points, {data.metrics[0].smaller_is_better,
                            data.metrics[1].smaller_is_better})) {
    front.push_back(trials[i]);
  }
  std::ranges::stable_sort(front, {}, &PlotTrial::values);
  return front;
}

// The front as a gray line, its trials in colours.
void AddFront(const PlotData& data, const std::vector<const PlotTrial*>& front,
              Figure& figure) {
  Chart& chart = figure.panels.front();
  CurveMark line = {.style = MarkStyle{.faint = true}, .points = {}};
  for (std::size_t i = 0; i < front.size(); ++i) {
    const double x = front[i]->values[0], y = front[i]->values[1];
    line.points.emplace_back(x, y);
    if (i >= kMaxLegend) continue;
    const MarkStyle style = {.color = i};
    chart.dots.push_back({style, {{x, y}}});
    figure.legend.push_back(
        {style, LegendEntry::Sample::kDot,
         ToString(front[i]->id) + " " + ShortName(data.metrics[0].name) + " " +
             FormatMetric(x) + ", " + ShortName(data.metrics[1].name) + " " +
             FormatMetric(y)});
  }
  chart.curves.push_back(std::move(line));
}

}  // namespace

Figure ParetoFigure(const PlotData& data, const PlotLook& look) {
  const auto trials = CompleteTrials(data);
  const auto front = SelectFront(data, trials);
  Figure figure;
  figure.panels.emplace_back();
  Chart& chart = figure.panels.front();
  chart.x = ChartAxis{.label = MetricLabel(data, 0), .log = look.log_x};
  chart.y = ChartAxis{
      .label = MetricLabel(data, 1), .log = look.log_y, .range = look.y_range};
  DotMark all = {.style = MarkStyle{.faint = true}, .points = {}};
  std::vector<double> xs, ys;
  for (const PlotTrial* trial : trials) {
    all.points.emplace_back(trial->values[0], trial->values[1]);
    xs.push_back(trial->values[0]);
    ys.push_back(trial->values[1]);
  }
  LimitOutliers(look, xs, xs, chart.x, figure);
  LimitOutliers(look, ys, ys, chart.y, figure);
  chart.dots.push_back(std::move(all));
  AddFront(data, front, figure);
  if (trials.empty()) chart.empty = "no trial has a finite value of both";
  std::string shown =
      std::to_string(front.size()) + " of " + CountText(trials.size(), "trial");
  if (front.size() > kMaxLegend) {
    shown += ", " + std::to_string(kMaxLegend) + " of them in colors";
  }
  figure.title = PlotTitle(
      data, "Pareto front of " + ShortName(data.metrics[0].name) + " and " +
                ShortName(data.metrics[1].name) + ", " + shown);
  AddMissingValuesNote(data, figure);
  return figure;
}

namespace {

// Styles of the states of trials, in the order of the legend; the page has the
// same (STATE_COLORS).
constexpr std::pair<State, MarkStyle> kStates[] = {
    {State::kCompleted, {.color = 2}},   {State::kError, {.color = 1}},
    {State::kStopped, {.color = 5}},     {State::kCanceled, {.color = 7}},
    {State::kPaused, {.color = 3}},      {State::kRunning, {.color = 4}},
    {State::kInterrupted, {.color = 6}}, {State::kPending, {.faint = true}},
    {State::kInvalid, {.color = 0}}};

MarkStyle StateStyle(State state) {
  return std::ranges::find(kStates, state, &std::pair<State, MarkStyle>::first)
      ->second;
}

// A run of a trial's process.
struct TimedRun {
  State state;  // of its trial
  Span span;
};

// Counts of what the panels of a timeline show together.
struct TimelineCounts {
  std::map<State, std::size_t> states;  // trials with runs
  std::size_t without_run = 0;
  std::size_t hidden_lanes = 0;
};

Chart TimelineChart(const PlotSearch& search, TimelineCounts& counts) {
  std::vector<TimedRun> runs;
  std::vector<Span> spans;
  for (const PlotTrial& trial : search.trials) {
    ++(trial.runs.empty() ? counts.without_run : counts.states[trial.state]);
    for (const Span& span : trial.runs) {
      runs.push_back({trial.state, span});
      spans.push_back(span);
    }
  }
  Chart chart;
  chart.x.label = "seconds since the start of the experiment";
  if (runs.empty()) {
    chart.empty = "no trial has run";
    return chart;
  }
  const auto lanes = PackLanes(spans);
  const std::size_t all = *std::ranges::max_element(lanes) + 1;
  const std::size_t shown = std::min(all, kMaxRows);
  counts.hidden_lanes += all - shown;
  for (std::size_t lane = 0; lane < shown; ++lane) {
    chart.y.names.push_back(std::to_string(lane + 1));
  }
  double end = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    end = std::max(end, runs[i].span.end);
    if (lanes[i] >= shown) continue;
    chart.bars.push_back({.style = StateStyle(runs[i].state),
                          .row = lanes[i],
                          .from = runs[i].span.begin,
                          .to = runs[i].span.end});
  }
  chart.x.range = std::pair(0.0, end > 0 ? end : 1);
  return chart;
}

void AddStates(const TimelineCounts& counts, Figure& figure) {
  for (const auto& [state, style] : kStates) {
    const auto found = counts.states.find(state);
    if (found == counts.states.end()) continue;
    figure.legend.push_back(
        {style, LegendEntry::Sample::kBar,
         "of " +
             CountText(found->second, "trial that is ", "trials that are ") +
             std::string(StateName(state))});
  }
}

void AddTimelineNotes(const TimelineCounts& counts, Figure& figure) {
  if (counts.without_run > 0) {
    figure.notes.push_back(
        CountText(counts.without_run, "trial has", "trials have") + " not run");
  }
  if (counts.hidden_lanes > 0) {
    figure.notes.push_back("the first " + std::to_string(kMaxRows) + " of " +
                           std::to_string(kMaxRows + counts.hidden_lanes) +
                           " rows are shown");
  }
  figure.notes.push_back(
      "a bar lasts from the start of a trial to its last report; after a "
      "restart or a pause, from the first report of the run to its last one");
}

}  // namespace

Figure TimelineFigure(const PlotData& data) {
  Figure figure;
  TimelineCounts counts;
  std::size_t trials = 0;
  for (const PlotSearch& search : data.searches) {
    trials += search.trials.size();
    Chart chart = TimelineChart(search, counts);
    chart.title = PanelTitle(data, search);
    figure.panels.push_back(std::move(chart));
  }
  const std::size_t run = trials - counts.without_run;
  figure.title =
      PlotTitle(data, "runs of trials at the same time, " +
                          (run == trials ? "" : std::to_string(run) + " of ") +
                          CountText(trials, "trial"));
  AddStates(counts, figure);
  AddTimelineNotes(counts, figure);
  LimitPanels(figure);
  return figure;
}

namespace {

// Colours of what trials did after a rung; the page has the same (AFTER_RUNG).
constexpr std::size_t kWentOn = 0, kCompleted = 2, kEnded = 5, kOpen = 4;

// "created", "rung 1 (16 batches)".
std::string RungName(std::size_t rung, const PlotSearch& search) {
  if (rung == 0) return "created";
  std::string name = "rung " + std::to_string(rung);
  if (rung <= search.rung_lengths.size()) {
    name += " (" + search.rung_lengths[rung - 1] + ")";
  }
  return name;
}

void AddRung(std::size_t rung, const RungCount& count, Chart& chart) {
  double from = 0;
  const std::pair<std::size_t, std::size_t> parts[] = {
      {kWentOn, count.went_on},
      {kCompleted, count.completed},
      {kEnded, count.ended},
      {kOpen, count.open}};
  for (const auto& [color, trials] : parts) {
    if (trials == 0) continue;
    const double to = from + static_cast<double>(trials);
    chart.bars.push_back({.style = MarkStyle{.color = color},
                          .row = rung,
                          .from = from,
                          .to = to});
    from = to;
  }
  if (!chart.bars.empty() && chart.bars.back().row == rung) {
    chart.bars.back().text = std::to_string(count.reached());
  }
}

Chart RungsChart(const PlotSearch& search, Figure& figure) {
  std::vector<RungProgress> progress;
  for (const PlotTrial& trial : search.trials) {
    progress.push_back(
        {static_cast<std::size_t>(std::max<std::int64_t>(trial.rung, 0)),
         RungEnd(trial.state)});
  }
  Chart chart;
  chart.x =
      ChartAxis{.label = "trials",
                .range = std::pair(
                    0.0, std::max(1.0, static_cast<double>(progress.size())))};
  if (progress.empty()) chart.empty = "there is no trial yet";
  const auto counts = CountRungs(progress);
  const std::size_t shown = std::min(counts.size(), kMaxRows);
  for (std::size_t rung = 0; rung < shown; ++rung) {
    chart.y.names.push_back(RungName(rung, search));
    AddRung(rung, counts[rung], chart);
  }
  if (shown < counts.size()) {
    figure.notes.push_back("experiment " + std::to_string(search.id) + ": " +
                           std::to_string(shown) + " of " +
                           CountText(counts.size(), "rung") + " are shown");
  }
  return chart;
}

bool HasBars(const Figure& figure, std::size_t color) {
  return std::ranges::any_of(figure.panels, [&](const Chart& chart) {
    return std::ranges::any_of(chart.bars, [&](const BarMark& bar) {
      return bar.style.color == color;
    });
  });
}

}  // namespace

RungProgress::End RungEnd(State state) {
  if (state == State::kCompleted) return RungProgress::End::kCompleted;
  return IsFinal(state) ? RungProgress::End::kEnded : RungProgress::End::kOpen;
}

Figure RungsFigure(const PlotData& data) {
  Figure figure;
  std::size_t trials = 0, early = 0;
  for (const PlotSearch& search : data.searches) {
    trials += search.trials.size();
    early += static_cast<std::size_t>(
        std::ranges::count_if(search.trials, &PlotTrial::ended_early));
    Chart chart = RungsChart(search, figure);
    chart.title = PanelTitle(data, search);
    figure.panels.push_back(std::move(chart));
  }
  figure.title = PlotTitle(
      data, "trials by completed rung, " + CountText(trials, "trial"));
  if (early > 0) {
    figure.notes.push_back(CountText(early, "trial") +
                           " ended early, before the length of the next rung");
  }
  const std::pair<std::size_t, const char*> meanings[] = {
      {kWentOn, "completed the next rung"},
      {kCompleted, "completed: trained as long as it was to"},
      {kEnded, "ended after this rung"},
      {kOpen, "has not ended: running or waiting"}};
  for (const auto& [color, meaning] : meanings) {
    if (!HasBars(figure, color)) continue;
    figure.legend.push_back(
        {{.color = color}, LegendEntry::Sample::kBar, meaning});
  }
  LimitPanels(figure);
  return figure;
}

}  // namespace dtrain
