// The kinds of plots as figures: which marks are where, and what the titles and
// notes say. Drawing them is tested with the renderers.

#include "engine/report/plot.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dtrain {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::MatchesRegex;
using testing::Not;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

PlotTrial Trial(std::int64_t number, double value, std::vector<double> places) {
  return {.id = {3, number},
          .state = State::kCompleted,
          .values = {value},
          .places = std::move(places)};
}

// A search that minimizes `loss` over lr (log) and opt, of four trials; the
// second one is the best and the last one has no value.
PlotData Search() {
  PlotSearch search{.id = 3, .name = "asha"};
  search.axes = {
      {.name = "lr", .log = true, .low = 0.01, .high = 1},
      {.name = "opt", .low = 0, .high = 1, .choices = {"sgd", "adam"}}};
  search.trials = {Trial(1, 0.5, {0.01, 0}), Trial(2, 0.25, {0.1, 1}),
                   Trial(3, 1, {1, 0}), Trial(4, kNan, {0.1, 0})};
  return {.metrics = {{"loss", true}},
          .place = "at the best validation",
          .searches = {search}};
}

// A curve of each trial: 10 to 20 batches, from its number down to half of it.
std::vector<TrialCurve> Curves() {
  std::vector<TrialCurve> curves;
  for (std::int64_t i = 1; i <= 4; ++i) {
    const auto value = static_cast<double>(i);
    curves.push_back({{3, i},
                      "loss",
                      MetricKind::kValidation,
                      {{20, value / 2}, {10, value}}});
  }
  return curves;
}

CurvesRequest Loss() { return {.metrics = {"loss"}, .x_label = "batches"}; }

std::vector<std::string> LegendTexts(const Figure& figure) {
  std::vector<std::string> names;
  for (const LegendEntry& entry : figure.legend) names.push_back(entry.name);
  return names;
}

TEST(CurvesFigureTest, DrawsTrialsInTheOrderOfTheirRanks) {
  const Figure figure = CurvesFigure(Search(), Curves(), Loss(), {});
  EXPECT_THAT(LegendTexts(figure),
              ElementsAre("3.2 loss", "3.1 loss", "3.3 loss", "3.4 loss"));
  const Chart& chart = figure.panels.at(0);
  EXPECT_EQ(chart.x.label, "batches");
  EXPECT_EQ(chart.curves[0].tag, "3.2");
  EXPECT_THAT(chart.curves[0].points,
              ElementsAre(CurvePoint(10, 2), CurvePoint(20, 1)));
  EXPECT_EQ(figure.title, "experiment 3, asha: loss");
}

TEST(CurvesFigureTest, SaysHowManyTrialsAreInColors) {
  const Figure figure = CurvesFigure(Search(), Curves(), Loss(), {.top = 1});
  EXPECT_EQ(figure.title, "experiment 3, asha: loss, best 1 of 4 trials");
  EXPECT_FALSE(figure.panels[0].curves[0].style.faint);
  EXPECT_TRUE(figure.panels[0].curves[1].style.faint);
  EXPECT_EQ(figure.legend.size(), 1);
}

TEST(CurvesFigureTest, ColorsTrialsByGroup) {
  PlotData data = Search();
  data.group = "opt";
  data.searches[0].trials[0].group = "sgd";
  data.searches[0].trials[1].group = "adam";
  data.searches[0].trials[2].group = "sgd";
  const Figure figure = CurvesFigure(data, Curves(), Loss(), {});
  EXPECT_THAT(LegendTexts(figure),
              ElementsAre("without opt (1 trial)", "opt=adam (1 trial)",
                          "opt=sgd (2 trials)"));
  EXPECT_EQ(figure.title,
            "experiment 3, asha: loss, by opt "
            "(mean and standard deviation)");
  const auto& curves = figure.panels[0].curves;
  EXPECT_EQ(curves[0].style.color, 0);  // 3.4
  EXPECT_EQ(curves[1].style.color, 1);  // 3.2
  EXPECT_EQ(curves[2].style.color, 2);  // of 3.1 and 3.3
}

TEST(CurvesFigureTest, DrawsTheMeanOfAGroupAndItsSpread) {
  PlotData data = Search();
  data.group = "opt";
  for (PlotTrial& trial : data.searches[0].trials) trial.group = "sgd";
  auto curves = Curves();
  curves[3].points.erase(curves[3].points.begin());  // 3.4 ends at 10 batches
  const Figure figure = CurvesFigure(data, curves, Loss(), {});
  EXPECT_EQ(figure.title,
            "experiment 3, asha: loss, by opt "
            "(mean and standard deviation)");
  const auto& drawn = figure.panels[0].curves;
  ASSERT_EQ(drawn.size(), 5);
  EXPECT_FALSE(drawn[0].style.faint);
  EXPECT_EQ(drawn[0].tag, "sgd");
  EXPECT_THAT(drawn[0].points,
              ElementsAre(CurvePoint(10, 2.5), CurvePoint(20, 1)));
  EXPECT_TRUE(drawn[1].style.faint);
  const auto& bands = figure.panels[0].bands;
  ASSERT_EQ(bands.size(), 1);
  const double first = std::sqrt(5.0 / 3);  // of 1, 2, 3 and 4
  EXPECT_THAT(bands[0].low,
              ElementsAre(CurvePoint(10, 2.5 - first), CurvePoint(20, 0.5)));
  EXPECT_THAT(bands[0].high,
              ElementsAre(CurvePoint(10, 2.5 + first), CurvePoint(20, 1.5)));
  EXPECT_THAT(figure.notes,
              ElementsAre("a mean counts the trials of a group that got that "
                          "far; it may jump where one ends"));
}

TEST(CurvesFigureTest, TellsTheMetricsOfAGroupApart) {
  PlotData data = Search();
  data.group = "opt";
  for (PlotTrial& trial : data.searches[0].trials) trial.group = "sgd";
  auto curves = Curves();
  for (const TrialCurve& curve : Curves()) {
    curves.push_back(curve);
    curves.back().metric = "speed";
  }
  CurvesRequest request = Loss();
  request.metrics.push_back("speed");
  const Figure figure = CurvesFigure(data, curves, request, {});
  EXPECT_THAT(LegendTexts(figure), ElementsAre("opt=sgd (4 trials) loss",
                                               "opt=sgd (4 trials) speed"));
  EXPECT_EQ(figure.panels[0].curves[0].style.color, 0);
  EXPECT_EQ(figure.panels[0].curves[1].style.color, 1);
}

TEST(CurvesFigureTest, DashesTrainingWhereBothReportTheMetric) {
  auto curves = Curves();
  curves.resize(1);
  curves.push_back(curves[0]);
  curves[1].kind = MetricKind::kTraining;
  const Figure figure = CurvesFigure(Search(), curves, Loss(), {});
  EXPECT_THAT(LegendTexts(figure),
              ElementsAre("3.1 loss (training)", "3.1 loss (validation)"));
  EXPECT_TRUE(figure.panels[0].curves[0].style.dashed);
  EXPECT_FALSE(figure.panels[0].curves[1].style.dashed);
}

TEST(CurvesFigureTest, SmoothsWithTheWeightOfThePast) {
  CurvesRequest request = Loss();
  request.smooth = 0.5;
  const Figure figure = CurvesFigure(Search(), Curves(), request, {});
  // 2 and 1 become 2 and (0.5 * 0.5 * 2 + 0.5 * 1) / 0.75.
  EXPECT_DOUBLE_EQ(figure.panels[0].curves[0].points[1].second, 4.0 / 3);
}

TEST(CurvesFigureTest, CountsValuesThatAreNotFinite) {
  auto curves = Curves();
  curves[0].points[0].second = INFINITY;
  EXPECT_THAT(CurvesFigure(Search(), curves, Loss(), {}).notes,
              ElementsAre("1 value is not finite: the curves have gaps there"));
}

TEST(CurvesFigureTest, HasAtMostTwentyLinesOfLegend) {
  PlotData data = Search();
  data.searches[0].trials.clear();
  std::vector<TrialCurve> curves;
  for (std::int64_t i = 1; i <= 500; ++i) {
    data.searches[0].trials.push_back(Trial(i, 1, {1, 0}));
    curves.push_back({{3, i}, "loss", MetricKind::kTraining, {{1, 1}}});
  }
  const Figure figure = CurvesFigure(data, curves, Loss(), {.top = 100});
  EXPECT_EQ(figure.legend.size(), 20);
  EXPECT_THAT(figure.title, HasSubstr("best 20 of 500 trials"));
}

PlotData SearchWithValidations() {
  PlotData data = Search();
  data.searches[0].validations = {
      {.time = Timestamp(1'000'000), .trial = 1, .batches = 10, .value = 0.5},
      {.time = Timestamp(2'000'000), .trial = 3, .batches = 10, .value = 1},
      {.time = Timestamp(3'000'000), .trial = 2, .batches = 10, .value = 0.25},
      {.time = Timestamp(4'000'000), .trial = 1, .batches = 30, .value = kNan}};
  for (PlotTrial& trial : data.searches[0].trials) {
    if (trial.id.number < 4) trial.best_batches = 10;
  }
  return data;
}

TEST(HistoryFigureTest, DrawsTheBestOfEachTrialAndTheBestSoFar) {
  const Figure figure =
      HistoryFigure(SearchWithValidations(), Effort::kBatches, "batches", {});
  const Chart& chart = figure.panels.at(0);
  ASSERT_EQ(chart.dots.size(), 1);
  EXPECT_THAT(chart.dots[0].points,
              ElementsAre(CurvePoint(10, 0.5), CurvePoint(30, 0.25),
                          CurvePoint(20, 1)));
  // Steps: each value holds until the next one.
  EXPECT_THAT(chart.curves.at(0).points,
              ElementsAre(CurvePoint(10, 0.5), CurvePoint(30, 0.5),
                          CurvePoint(30, 0.25), CurvePoint(50, 0.25),
                          CurvePoint(50, 0.25)));
  EXPECT_THAT(LegendTexts(figure),
              ElementsAre("best so far of 3 asha",
                          "3 trials at their best validation"));
  EXPECT_THAT(figure.notes, ElementsAre("1 of 4 trials was never validated"));
  EXPECT_EQ(chart.y.label, "loss (smaller is better)");
}

TEST(HistoryFigureTest, DrawsFailuresAtTheirValues) {
  PlotData data = SearchWithValidations();
  auto& trials = data.searches[0].trials;
  trials[0].state = trials[3].state = State::kError;
  trials[0].values = {0.5};
  trials[3].values = {kNan};
  const Figure figure = HistoryFigure(data, Effort::kBatches, "batches", {});
  const DotMark& failures = figure.panels.at(0).dots.back();
  EXPECT_TRUE(failures.cross);
  ASSERT_EQ(failures.points.size(), 2);
  EXPECT_EQ(failures.points[0].second, 0.5);
  EXPECT_EQ(failures.points[1].second, 0.25);  // the lowest of all
  EXPECT_EQ(LegendTexts(figure).back(),
            "2 trials failed, at the best value (at the bottom: 1 without a "
            "value)");
}

TEST(HistoryFigureTest, DrawsTheBestOfEachGroup) {
  PlotData data = SearchWithValidations();
  data.group = "opt";
  for (PlotTrial& trial : data.searches[0].trials) trial.group = "sgd";
  data.searches[0].trials[1].group = "adam";
  const Figure figure = HistoryFigure(data, Effort::kBatches, "batches", {});
  EXPECT_EQ(figure.title, "experiment 3, asha: best loss so far, by opt");
  EXPECT_THAT(LegendTexts(figure),
              ElementsAre("opt=adam (1 trial)", "opt=sgd (3 trials)",
                          "3 trials at their best validation"));
  const auto& curves = figure.panels[0].curves;
  ASSERT_EQ(curves.size(), 2);
  // Over the effort of all trials.
  EXPECT_EQ(curves[0].points.front(), CurvePoint(30, 0.25));
  EXPECT_EQ(curves[1].points.front(), CurvePoint(10, 0.5));
  EXPECT_EQ(curves[1].points.back(), CurvePoint(50, 0.5));
}

TEST(HistoryFigureTest, DrawsTheMedianOfAGroupInSeveralSearches) {
  PlotData data = SearchWithValidations();
  data.group = "opt";
  for (PlotTrial& trial : data.searches[0].trials) trial.group = "sgd";
  data.searches.push_back(data.searches[0]);
  data.searches[1].id = 4;
  for (PlotTrial& trial : data.searches[1].trials) trial.id.experiment = 4;
  for (Observation& one : data.searches[1].validations) one.value += 1;
  const Figure figure = HistoryFigure(data, Effort::kBatches, "batches", {});
  EXPECT_EQ(figure.title,
            "experiments 3, 4: best loss so far, by opt (median of the "
            "experiments)");
  EXPECT_THAT(figure.notes, Not(testing::Contains(HasSubstr("its own"))));
  const auto& curves = figure.panels[0].curves;
  ASSERT_EQ(curves.size(), 1);
  EXPECT_EQ(curves[0].points.front(), CurvePoint(10, 1));
  EXPECT_EQ(curves[0].points.back(), CurvePoint(50, 0.75));
}

TEST(HistoryFigureTest, SaysThatAGroupIsOfOneSearchOnly) {
  PlotData data = SearchWithValidations();
  data.group = "opt";
  data.searches.push_back(data.searches[0]);
  data.searches[1].id = 4;
  for (PlotTrial& trial : data.searches[1].trials) {
    trial.id.experiment = 4;
    trial.group = "sgd";
  }
  EXPECT_THAT(
      HistoryFigure(data, Effort::kBatches, "batches", {}).notes,
      testing::Contains(
          "a group that only one experiment has is drawn with its own curve"));
}

TEST(HistoryFigureTest, HasAtMostTwentyLinesOfLegend) {
  PlotData data = SearchWithValidations();
  data.group = "opt";
  data.searches[0].trials.clear();
  for (std::int64_t i = 1; i <= 30; ++i) {
    data.searches[0].trials.push_back(Trial(i, 1, {1, 0}));
    data.searches[0].trials.back().group = i;
    data.searches[0].trials.back().state = State::kError;
  }
  const Figure figure = HistoryFigure(data, Effort::kBatches, "batches", {});
  EXPECT_EQ(figure.legend.size(), 20);
  EXPECT_THAT(figure.title, HasSubstr("18 of 30 values of opt"));
}

TEST(HistoryFigureTest, MarksFailuresAtTheirEffort) {
  PlotData data = SearchWithValidations();
  data.searches[0].trials[3].state = State::kError;
  data.searches[0].trials[3].ended = Timestamp(2'500'000);
  const Figure figure = HistoryFigure(data, Effort::kBatches, "batches", {});
  const DotMark& failures = figure.panels[0].dots.at(1);
  EXPECT_TRUE(failures.cross);
  EXPECT_THAT(failures.points, ElementsAre(CurvePoint(20, 0.25)));
  EXPECT_THAT(figure.legend.back().name, HasSubstr("1 trial failed"));
}

TEST(DistributionFigureTest, StepsUpAtEachValue) {
  const Figure figure = DistributionFigure(Search(), {});
  EXPECT_THAT(
      figure.panels.at(0).curves.at(0).points,
      ElementsAre(CurvePoint(0.25, 0), testing::Pair(0.25, 1.0 / 3),
                  testing::Pair(0.5, 1.0 / 3), testing::Pair(0.5, 2.0 / 3),
                  testing::Pair(1, 2.0 / 3), CurvePoint(1, 1)));
  EXPECT_THAT(figure.notes,
              ElementsAre("1 of 4 trials has no finite value of loss at the "
                          "best validation and is not shown"));
}

TEST(ParetoFigureTest, ColorsTheTrialsThatNoOtherDominates) {
  PlotData data = Search();
  data.metrics.push_back({"speed", false});
  const double speeds[] = {5, 1, 4, 9};
  for (std::size_t i = 0; i < 4; ++i) {
    data.searches[0].trials[i].values.push_back(speeds[i]);
  }
  const Figure figure = ParetoFigure(data, {});
  // 3.2 has the least loss and 3.1 the most speed; 3.1 dominates 3.3.
  EXPECT_THAT(LegendTexts(figure),
              ElementsAre("3.2 loss 0.25, speed 1", "3.1 loss 0.5, speed 5"));
  EXPECT_THAT(figure.panels.at(0).dots.at(1).points,
              ElementsAre(CurvePoint(0.25, 1)));
  EXPECT_EQ(
      figure.title,
      "experiment 3, asha: Pareto front of loss and speed, 2 of 3 trials");
}

// Twelve trials: loss = x, and y is the same for all.
PlotData SearchOfTwelve() {
  PlotData data = Search();
  data.searches[0].axes = {{.name = "x", .low = 0, .high = 11},
                           {.name = "y", .low = 0, .high = 1}};
  data.searches[0].trials.clear();
  for (std::int64_t i = 0; i < 12; ++i) {
    const auto value = static_cast<double>(i);
    data.searches[0].trials.push_back(Trial(i + 1, value, {value, 0.5}));
  }
  return data;
}

TEST(ImportanceFigureTest, DrawsABarForEachHyperparameter) {
  const Figure figure = ImportanceFigure(SearchOfTwelve(), 0.25);
  const Chart& chart = figure.panels.at(0);
  EXPECT_THAT(chart.y.names, ElementsAre("x", "y"));
  ASSERT_EQ(chart.bars.size(), 2);
  EXPECT_NEAR(chart.bars[0].to, 81.03, 0.01);
  EXPECT_THAT(chart.bars[0].text,
              MatchesRegex("81 % \\([0-9]+-[0-9]+\\), correlation 1.00"));
  ASSERT_TRUE(chart.bars[0].interval.has_value());
  EXPECT_LT(chart.bars[0].interval->first, chart.bars[0].interval->second);
  EXPECT_TRUE(chart.bars[0].hatched);  // 3 best trials
  EXPECT_NEAR(chart.bars[1].to, 18.97, 0.01);
  EXPECT_THAT(chart.bars[1].text, MatchesRegex("19 % \\([0-9]+-[0-9]+\\)"));
  EXPECT_EQ(
      figure.title,
      "experiment 3, asha: importance for being among the best in loss at "
      "the best validation, best 3 of 12 trials (few: a matter of chance, "
      "hatched)");
  const Figure half = ImportanceFigure(SearchOfTwelve(), 0.5);
  EXPECT_FALSE(half.panels.at(0).bars.at(0).hatched);
}

// 40 values near 1, and 2 that are not.
PlotData DivergedSearch() {
  PlotData data = SearchWithValidations();
  auto& search = data.searches[0];
  search.trials.clear();
  search.validations.clear();
  for (std::int64_t i = 1; i <= 42; ++i) {
    const double value = i > 40 ? 1e10 : 1 + 0.01 * static_cast<double>(i % 10);
    search.trials.push_back(Trial(i, value, {0.1, 0}));
    search.trials.back().best_batches = 10;
    search.validations.push_back(
        {.time = Timestamp(i), .trial = i, .batches = 10, .value = value});
  }
  return data;
}

TEST(OutliersTest, AreArrowsAtTheEdgeAndCounted) {
  const PlotData data = DivergedSearch();
  std::vector<TrialCurve> curves;
  for (const PlotTrial& trial : data.searches[0].trials) {
    curves.push_back({trial.id,
                      "loss",
                      MetricKind::kTraining,
                      {{1, 1.2}, {2, trial.values[0]}}});
  }
  PlotData both = data;
  both.metrics.push_back({"speed", false});
  for (PlotTrial& trial : both.searches[0].trials) trial.values.push_back(1);
  const auto draw = [&](const PlotLook& look) {
    return std::vector<Figure>{
        HistoryFigure(data, Effort::kTrials, "", look),
        CurvesFigure(data, curves, Loss(), look), SliceFigure(data, look),
        DistributionFigure(data, look), ParetoFigure(both, look)};
  };
  for (const Figure& figure : draw({})) {
    SCOPED_TRACE(figure.title);
    const Chart& chart = figure.panels.at(0);
    const ChartAxis& axis = chart.x.arrows ? chart.x : chart.y;
    ASSERT_TRUE(axis.range.has_value());
    EXPECT_LT(axis.range->second, 2);
    EXPECT_THAT(figure.notes,
                Contains(HasSubstr("2 trials have values beyond")));
    EXPECT_THAT(DrawSvg(figure).text, HasSubstr("<path fill=\"#"));
    const std::string text = DrawText(figure, {.utf8 = true});
    EXPECT_TRUE(text.find("▲") != text.npos || text.find("▶") != text.npos);
  }
  for (const Figure& figure : draw({.all_values = true})) {
    EXPECT_FALSE(figure.panels.at(0).x.arrows || figure.panels.at(0).y.arrows);
    EXPECT_THAT(figure.notes, Not(Contains(HasSubstr("beyond"))));
  }
  EXPECT_THAT(
      ParallelFigure(data, {}).panels.at(0).parallel.back().ticks.back().second,
      HasSubstr("(2 above)"));
}

TEST(ImportanceFigureTest, SaysThatThereAreTooFewTrials) {
  const Figure figure = ImportanceFigure(Search(), 0.1);
  EXPECT_THAT(figure.panels.at(0).bars, IsEmpty());
  EXPECT_THAT(figure.panels[0].empty,
              HasSubstr("3 trials have a finite value of loss at the best "
                        "validation, and importance needs 10"));
}

TEST(ImportanceFigureTest, ShowsTheMostImportantOfManyHyperparameters) {
  PlotData data = SearchOfTwelve();
  for (int i = 0; i < 198; ++i) {
    data.searches[0].axes.push_back(
        {.name = std::string(1'000, 'n'), .low = 0, .high = 1});
    for (PlotTrial& trial : data.searches[0].trials)
      trial.places.push_back(0.5);
  }
  const Figure figure = ImportanceFigure(data, 0.1);
  EXPECT_EQ(figure.panels.at(0).bars.size(), 30);
  EXPECT_EQ(figure.panels[0].y.names[0], "x");
  EXPECT_THAT(figure.title, HasSubstr("30 of 200 hyperparameters"));
}

TEST(ParallelFigureTest, DrawsALineThroughTheAxes) {
  const Figure figure = ParallelFigure(Search(), {.top = 1});
  const Chart& chart = figure.panels.at(0);
  ASSERT_EQ(chart.parallel.size(), 3);
  EXPECT_EQ(chart.parallel[0].name, "lr (log)");
  EXPECT_EQ(chart.parallel[2].name, "loss");
  // 3.2: lr in the middle of 0.01 to 1, the second choice, the least loss.
  EXPECT_THAT(
      chart.curves.at(0).points,
      ElementsAre(CurvePoint(0, 0.5), CurvePoint(1, 1), CurvePoint(2, 0)));
  EXPECT_FALSE(chart.curves[0].style.faint);
  EXPECT_TRUE(chart.curves.at(1).style.faint);
  EXPECT_EQ(chart.curves.size(), 3);  // not 3.4
  EXPECT_THAT(figure.title, HasSubstr("best 1 of 4 trials"));
}

TEST(ParallelFigureTest, HasALaneForAbsentValues) {
  PlotData data = Search();
  data.searches[0].axes[1].when = {{"lr", {{"minval", 0.1}}}};
  data.searches[0].trials[1].places[1] =
      std::numeric_limits<double>::quiet_NaN();

  const Chart chart = ParallelFigure(data, {}).panels.at(0);

  ASSERT_GE(chart.parallel[1].ticks.size(), 2u);
  EXPECT_EQ(chart.parallel[1].ticks[0], std::pair(0.0, std::string("absent")));
  EXPECT_DOUBLE_EQ(chart.parallel[1].ticks[1].first, 0.1);
  std::vector<double> shares;
  for (const CurveMark& curve : chart.curves) {
    shares.push_back(curve.points.at(1).second);
  }
  EXPECT_EQ(std::ranges::count(shares, 0.0), 1);
  EXPECT_EQ(std::ranges::count(shares, 0.1), 2);
  // The other axes have none.
  EXPECT_NE(chart.parallel[0].ticks[0].second, "absent");
}

TEST(ParallelFigureTest, ShowsTheNamedHyperparameters) {
  const Figure figure = ParallelFigure(Search(), {.hparams = {"opt"}});
  EXPECT_EQ(figure.panels.at(0).parallel.size(), 2);
  EXPECT_THAT(figure.title, HasSubstr("1 of 2 hyperparameters"));
}

TEST(SliceFigureTest, DrawsThePlaceAndValueOfEachTrial) {
  const Figure figure = SliceFigure(Search(), {.top = 1});
  ASSERT_EQ(figure.panels.size(), 2);
  EXPECT_TRUE(figure.panels[0].x.log);
  EXPECT_EQ(figure.panels[0].x.range, std::pair(0.01, 1.0));
  EXPECT_THAT(figure.panels[0].dots.at(0).points,
              ElementsAre(CurvePoint(0.1, 0.25)));
  EXPECT_THAT(figure.panels[0].dots.at(1).points,
              ElementsAre(CurvePoint(0.01, 0.5), CurvePoint(1, 1)));
  EXPECT_THAT(figure.panels[1].x.names, ElementsAre("sgd", "adam"));
  EXPECT_THAT(figure.panels[1].dots[0].points,
              ElementsAre(CurvePoint(1, 0.25)));
}

TEST(SliceFigureTest, SaysThatThereIsNoHyperparameter) {
  PlotData data = Search();
  data.searches[0].axes.clear();
  EXPECT_EQ(SliceFigure(data, {}).panels.at(0).empty,
            "its search space has no hyperparameter");
}

TEST(ContourFigureTest, ShadesCellsByTheRankOfNearTrials) {
  const Figure figure = ContourFigure(Search(), {.top = 1});
  const Chart& chart = figure.panels.at(0);
  EXPECT_EQ(chart.x.label, "lr");
  EXPECT_THAT(chart.y.names, ElementsAre("sgd", "adam"));
  // The first cell of lr and sgd is at 3.1, the second best of three; that in
  // the middle of lr and adam at 3.2, the best.
  EXPECT_EQ(chart.cells.at(0).left, 0.01);
  EXPECT_EQ(chart.cells[0].bottom, -0.5);
  EXPECT_EQ(chart.cells[0].top, 0.5);
  EXPECT_NEAR(chart.cells[0].shade, 0.5, 0.01);
  const auto adam = std::ranges::find(chart.cells, 0.5, &CellMark::bottom);
  ASSERT_NE(adam, chart.cells.end());
  EXPECT_EQ(adam->shade, 1);
  EXPECT_THAT(chart.dots.at(0).points, ElementsAre(CurvePoint(0.1, 1)));
}

TEST(ContourFigureTest, NeedsTwoHyperparameters) {
  PlotData data = Search();
  data.searches[0].axes.pop_back();
  EXPECT_THAT(ContourFigure(data, {}).panels.at(0).empty,
              HasSubstr("a contour needs two hyperparameters"));
}

TEST(TimelineFigureTest, PutsRunsAtOneTimeIntoDifferentRows) {
  PlotData data = Search();
  auto& trials = data.searches[0].trials;
  trials[0].runs = {{0, 10}, {20, 30}};
  trials[1].runs = {{5, 15}};
  trials[1].state = State::kError;
  trials[2].runs = {{10, 12}};
  const Figure figure = TimelineFigure(data);
  const Chart& chart = figure.panels.at(0);
  EXPECT_THAT(chart.y.names, ElementsAre("1", "2"));
  ASSERT_EQ(chart.bars.size(), 4);
  EXPECT_EQ(chart.bars[0].row, 0);
  EXPECT_EQ(chart.bars[1].row, 0);
  EXPECT_EQ(chart.bars[1].from, 20);
  EXPECT_EQ(chart.bars[1].to, 30);
  EXPECT_EQ(chart.bars[2].row, 1);
  EXPECT_EQ(chart.bars[3].row, 0);
  EXPECT_THAT(LegendTexts(figure), ElementsAre("of 2 trials that are COMPLETED",
                                               "of 1 trial that is ERROR"));
  EXPECT_EQ(figure.title,
            "experiment 3, asha: runs of trials at the same time, 3 of 4 "
            "trials");
}

TEST(TimelineFigureTest, SaysThatNoTrialHasRun) {
  EXPECT_EQ(TimelineFigure(Search()).panels.at(0).empty, "no trial has run");
}

TEST(RungsFigureTest, CountsWhatBecameOfTrials) {
  PlotData data = Search();
  auto& trials = data.searches[0].trials;
  trials[0].rung = 2;
  trials[1].rung = 1;
  trials[1].state = State::kStopped;
  trials[2].rung = 1;
  trials[2].state = State::kPaused;
  trials[3].state = State::kError;
  data.searches[0].rung_lengths = {"16 batches"};
  const Figure figure = RungsFigure(data);
  const Chart& chart = figure.panels.at(0);
  EXPECT_THAT(chart.y.names,
              ElementsAre("created", "rung 1 (16 batches)", "rung 2"));
  // created: 3 went on, 1 ended; rung 1: 1 went on, 1 ended, 1 waits; rung 2: 1
  // completed.
  ASSERT_EQ(chart.bars.size(), 6);
  EXPECT_EQ(chart.bars[0].to, 3);
  EXPECT_EQ(chart.bars[1].text, "4");
  EXPECT_EQ(chart.bars[2].row, 1);
  EXPECT_EQ(chart.bars[3].from, 1);
  EXPECT_EQ(chart.bars[4].to, 3);
  EXPECT_EQ(chart.bars[4].text, "3");
  EXPECT_THAT(LegendTexts(figure),
              ElementsAre("completed the next rung",
                          "completed: trained as long as it was to",
                          "ended after this rung",
                          "has not ended: running or waiting"));
  EXPECT_EQ(chart.bars[5].style.color, figure.legend[1].style.color);
  EXPECT_THAT(figure.notes, IsEmpty());
}

TEST(RungsFigureTest, SaysHowManyTrialsEndedEarly) {
  PlotData data = Search();
  data.searches[0].trials[0].ended_early = true;
  EXPECT_THAT(RungsFigure(data).notes,
              ElementsAre("1 trial ended early, before the length of the next "
                          "rung"));
}

TEST(FiguresTest, GiveEachSearchAPanelOrACurve) {
  PlotData data = SearchOfTwelve();
  data.searches.push_back(data.searches[0]);
  data.searches[1].id = 4;
  data.searches[1].name = "tpe";
  for (PlotTrial& trial : data.searches[1].trials) trial.id.experiment = 4;
  EXPECT_EQ(ImportanceFigure(data, 0.1).panels.at(1).title,
            "experiment 4, tpe");
  EXPECT_EQ(ParallelFigure(data, {}).panels.size(), 2);
  // The title names the axis.
  EXPECT_EQ(SliceFigure(data, {}).panels.at(2).x.label, "");
  EXPECT_EQ(SliceFigure(data, {}).panels.at(2).title, "experiment 4, tpe, x");
  EXPECT_EQ(RungsFigure(data).panels.size(), 2);
  EXPECT_THAT(LegendTexts(DistributionFigure(data, {})),
              ElementsAre("3 asha", "4 tpe"));
  EXPECT_THAT(HistoryFigure(data, Effort::kTrials, "", {}).title,
              HasSubstr("experiments 3, 4: "));
}

TEST(FiguresTest, AreDrawnForASearchWithoutTrials) {
  PlotData data = Search();
  data.searches[0].trials.clear();
  EXPECT_NE(CurvesFigure(data, {}, Loss(), {}).title, "");
  EXPECT_NE(HistoryFigure(data, Effort::kBatches, "", {}).title, "");
  EXPECT_NE(DistributionFigure(data, {}).title, "");
  EXPECT_NE(ImportanceFigure(data, 0.1).panels.at(0).empty, "");
  EXPECT_NE(ParallelFigure(data, {}).panels.at(0).empty, "");
  EXPECT_NE(SliceFigure(data, {}).panels.at(0).empty, "");
  EXPECT_NE(ContourFigure(data, {}).panels.at(0).empty, "");
  EXPECT_NE(TimelineFigure(data).panels.at(0).empty, "");
  EXPECT_NE(RungsFigure(data).panels.at(0).empty, "");
}

}  // namespace
}  // namespace dtrain
