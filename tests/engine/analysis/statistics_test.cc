#include "engine/analysis/statistics.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dtrain {
namespace {

using testing::AllOf;
using testing::DoubleEq;
using testing::ElementsAre;
using testing::Field;
using testing::IsEmpty;
using testing::Pair;

std::vector<double> Values(std::initializer_list<double> values) {
  return values;
}

TEST(RanksTest, EqualValuesShareTheMeanRank) {
  EXPECT_THAT(Ranks(Values({3, 1, 3, 2})), ElementsAre(3.5, 1, 3.5, 2));
  EXPECT_THAT(Ranks(Values({5, 5, 5})), ElementsAre(2, 2, 2));
  EXPECT_THAT(Ranks({}), IsEmpty());
}

TEST(RanksTest, OrdersNumbersOfAnySignAndSize) {
  EXPECT_THAT(Ranks(Values({0.0, -1e300, HUGE_VAL, -0.0, 5e-324, -HUGE_VAL,
                            -5e-324, 1e300, 257, 256})),
              ElementsAre(4.5, 2, 10, 4.5, 6, 1, 3, 9, 8, 7));
}

TEST(RankCorrelationTest, IsOneForAnyIncreasingRelation) {
  EXPECT_EQ(RankCorrelation(Values({1, 2, 3}), Values({1, 10, 1e9})), 1);
  EXPECT_EQ(RankCorrelation(Values({1, 2, 3}), Values({5, 4, -7})), -1);
}

TEST(RankCorrelationTest, EqualsAKnownValueWithTies) {
  // Pearson's correlation of the ranks 1, 2.5, 2.5, 4 and 2, 1, 3.5, 3.5.
  const auto found =
      RankCorrelation(Values({1, 2, 2, 3}), Values({20, 10, 30, 30}));
  ASSERT_TRUE(found.has_value());
  EXPECT_NEAR(*found, 0.5, 1e-12);
}

TEST(RankCorrelationTest, LeavesOutPairsThatAreNotFinite) {
  EXPECT_EQ(RankCorrelation(Values({1, std::nan(""), 2, 3}),
                            Values({1, 9, 2, HUGE_VAL})),
            1);
}

TEST(RankCorrelationTest, IsEmptyForConstantsAndSinglePairs) {
  EXPECT_EQ(RankCorrelation(Values({1, 1}), Values({1, 2})), std::nullopt);
  EXPECT_EQ(RankCorrelation(Values({1}), Values({1})), std::nullopt);
}

Observation Seen(std::int64_t seconds, std::int64_t trial, std::int64_t batches,
                 double value) {
  return {.time = Timestamp(seconds * 1'000'000),
          .trial = trial,
          .batches = batches,
          .value = value};
}

const std::vector<Observation> kSearch = {
    Seen(10, 1, 100, 0.5),  Seen(20, 2, 100, 0.4),
    Seen(30, 1, 200, 0.45), Seen(40, 3, 50, std::nan("")),
    Seen(50, 2, 300, 0.3),  Seen(60, 1, 400, 0.35)};

TEST(EffortsOfTest, AddsTheEffortOfAllTrials) {
  const std::vector<Observation> seen = {
      {.time = Timestamp(1'000'000), .trial = 1, .batches = 10, .epochs = 0.5},
      {.time = Timestamp(2'000'000), .trial = 2, .batches = 10, .epochs = 0.5},
      {.time = Timestamp(4'000'000), .trial = 1, .batches = 30, .epochs = 1.5}};
  EXPECT_THAT(ComputeEfforts(seen, Effort::kTrials, Timestamp(0)),
              ElementsAre(1, 2, 2));
  EXPECT_THAT(ComputeEfforts(seen, Effort::kBatches, Timestamp(0)),
              ElementsAre(10, 20, 40));
  EXPECT_THAT(ComputeEfforts(seen, Effort::kEpochs, Timestamp(0)),
              ElementsAre(0.5, 1, 2));
  EXPECT_THAT(ComputeEfforts(seen, Effort::kSeconds, Timestamp(1'000'000)),
              ElementsAre(0, 1, 3));
}

TEST(MedianCurveTest, IsTheMedianAtEachPlace) {
  const std::vector<std::vector<CurvePoint>> curves = {
      {{1, 10}, {3, 30}}, {{1, 0}, {2, 5}, {3, 50}}, {{1, 2}, {4, 8}}};
  EXPECT_THAT(
      MedianCurve(curves),
      ElementsAre(CurvePoint(1, 2), CurvePoint(2, 5), CurvePoint(3, 30)));
  EXPECT_THAT(
      MedianCurve(std::span(curves).first(2)),
      ElementsAre(CurvePoint(1, 5), CurvePoint(2, 12.5), CurvePoint(3, 40)));
}

TEST(MeanCurveTest, IsTheMeanAndDeviationAtEachPlace) {
  const std::vector<std::vector<CurvePoint>> curves = {
      {{1, 10}, {3, 30}}, {{1, 0}, {2, 5}, {3, NAN}}, {{1, 2}, {4, 8}}};
  const auto means = MeanCurve(curves);
  ASSERT_EQ(means.size(), 3);
  EXPECT_EQ(means[0].mean, 4);
  EXPECT_DOUBLE_EQ(means[0].deviation, std::sqrt(28.0));
  EXPECT_EQ(means[0].count, 3);
  EXPECT_EQ(means[1].mean, (20 + 5 + 4) / 3.0);  // between points
  EXPECT_EQ(
      means[2],
      (MeanPoint{
          .x = 3, .mean = 18, .deviation = std::sqrt(288.0), .count = 2}));
  EXPECT_THAT(MeanCurve({}), IsEmpty());
}

TEST(MedianCurveTest, LeavesOutWhatIsNotFinite) {
  const std::vector<std::vector<CurvePoint>> curves = {
      {{1, 1}, {2, NAN}, {3, 3}}, {{1, 3}, {2, 4}, {3, 5}}, {}};
  EXPECT_THAT(MedianCurve(curves),
              ElementsAre(CurvePoint(1, 2), CurvePoint(3, 4)));
  EXPECT_THAT(MedianCurve({}), IsEmpty());
}

TEST(MedianCurveTest, HasAtMostTwoHundredPlaces) {
  std::vector<std::vector<CurvePoint>> curves(2);
  for (int i = 0; i <= 1990; ++i) {
    curves[0].emplace_back(i, 1);
    curves[1].emplace_back(i, 3);
  }
  const auto median = MedianCurve(curves);
  EXPECT_EQ(median.size(), 200);
  EXPECT_EQ(median.front(), CurvePoint(0, 2));
  EXPECT_EQ(median[1], CurvePoint(10, 2));
  EXPECT_EQ(median.back(), CurvePoint(1990, 2));
}

TEST(SplitAtGapsTest, SplitsAtTheLongestGaps) {
  const auto spans = SplitAtGaps({11, 1, 2, 3, 10, 20}, 3);
  ASSERT_EQ(spans.size(), 3);
  EXPECT_EQ(spans[0].begin, 1);
  EXPECT_EQ(spans[0].end, 3);
  EXPECT_EQ(spans[1].begin, 10);
  EXPECT_EQ(spans[1].end, 11);
  EXPECT_EQ(spans[2].begin, 20);
  EXPECT_EQ(spans[2].end, 20);
}

TEST(RunTimesTest, AreThoseOfTheReportsOfEachRun) {
  RunTimes times;  // the longest gap is within the first run
  times.Add(1, 1);
  times.Add(50, 1);
  times.Add(52, 2);
  times.Add(51, 2);
  EXPECT_THAT(
      times.Spans(2),
      ElementsAre(AllOf(Field(&Span::begin, 1), Field(&Span::end, 50)),
                  AllOf(Field(&Span::begin, 51), Field(&Span::end, 52))));
}

TEST(RunTimesTest, SplitUnknownRunsAtTheLongestGaps) {
  RunTimes times;
  times.Add(1, 0);
  times.Add(2, 0);
  times.Add(9, 0);
  times.Add(20, 3);
  EXPECT_THAT(
      times.Spans(3),
      ElementsAre(AllOf(Field(&Span::begin, 1), Field(&Span::end, 2)),
                  AllOf(Field(&Span::begin, 9), Field(&Span::end, 9)),
                  AllOf(Field(&Span::begin, 20), Field(&Span::end, 20))));
}

TEST(SplitAtGapsTest, HasNoMorePartsThanTimes) {
  EXPECT_EQ(SplitAtGaps({1, 5}, 1).size(), 1);
  EXPECT_EQ(SplitAtGaps({1, 5}, 9).size(), 2);
  EXPECT_EQ(SplitAtGaps({5, 5, 5}, 9).size(), 1);
  EXPECT_EQ(SplitAtGaps({}, 2).size(), 0);
}

TEST(PackLanesTest, PutsSpansThatOverlapIntoDifferentLanes) {
  const std::vector<Span> spans = {{0, 10}, {2, 4}, {3, 12}, {4, 9}, {10, 11}};
  EXPECT_THAT(PackLanes(spans), ElementsAre(0, 1, 2, 1, 0));
  EXPECT_THAT(PackLanes({}), IsEmpty());
}

TEST(PackLanesTest, TakesSpansInAnyOrder) {
  const std::vector<Span> spans = {{5, 6}, {0, 5}, {5, 5}};
  EXPECT_THAT(PackLanes(spans), ElementsAre(0, 0, 1));
}

TEST(CountRungsTest, CountsWhatBecameOfTrials) {
  constexpr auto kOpen = RungProgress::End::kOpen;
  constexpr auto kEnded = RungProgress::End::kEnded;
  constexpr auto kCompleted = RungProgress::End::kCompleted;
  const std::vector<RungProgress> trials = {{0, kOpen},      {0, kEnded},
                                            {1, kEnded},     {1, kEnded},
                                            {2, kCompleted}, {1, kOpen}};
  const auto counts = CountRungs(trials);
  ASSERT_EQ(counts.size(), 3);
  EXPECT_EQ(counts[0].reached(), 6);
  EXPECT_EQ(counts[0].went_on, 4);
  EXPECT_EQ(counts[0].ended, 1);
  EXPECT_EQ(counts[0].open, 1);
  EXPECT_EQ(counts[1].reached(), 4);
  EXPECT_EQ(counts[1].went_on, 1);
  EXPECT_EQ(counts[1].ended, 2);
  EXPECT_EQ(counts[1].open, 1);
  EXPECT_EQ(counts[2].reached(), 1);
  EXPECT_EQ(counts[2].completed, 1);
}

TEST(FindRobustLimitsTest, LeavesOutOnlyWhatFlattensTheOthers) {
  std::vector<double> values = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  EXPECT_FALSE(FindRobustLimits(values, values));
  values.push_back(20);  // far, but the others fill half of the axis
  EXPECT_FALSE(FindRobustLimits(values, values));
  values.insert(values.end(), {1e10, HUGE_VAL, std::nan("")});
  auto limits = FindRobustLimits(values, values);
  ASSERT_TRUE(limits);
  EXPECT_NEAR(limits->low, 1 - 0.03 * 19, 1e-9);
  EXPECT_NEAR(limits->high, 20 + 0.03 * 19, 1e-9);
  EXPECT_EQ(limits->above, 1u);
  EXPECT_EQ(limits->below, 0u);
  values = {-1e9, 1, 2, 3, 4, 5, 6, 7, 8};
  limits = FindRobustLimits(values, values);
  ASSERT_TRUE(limits);
  EXPECT_EQ(limits->below, 1u);
  // Half of the values are equal: no spread to measure by.
  EXPECT_FALSE(
      FindRobustLimits({1, 1, 1, 1, 1, 1, 1, 9}, {1, 1, 1, 1, 1, 1, 1, 9}));
  EXPECT_FALSE(FindRobustLimits({1, 2, 3, 1e9}, {1, 2, 3, 1e9}));
}

TEST(EstimateFieldTest, IsNearTheValuesOfNearSamples) {
  const std::vector<FieldSample> samples = {{0.25, 0.25, 1}, {0.75, 0.25, 5}};
  const auto field = EstimateField(samples, {.cells = 2}, {.cells = 2});
  ASSERT_EQ(field.size(), 4);
  // Distances 0, which counts as 0.05, and 0.5: weights 100 to 1.
  EXPECT_NEAR(field[0], (100 * 1 + 5) / 101.0, 1e-9);
  EXPECT_NEAR(field[1], (100 * 5 + 1) / 101.0, 1e-9);
  // No sample is near.
  EXPECT_TRUE(std::isnan(field[2]));
  EXPECT_TRUE(std::isnan(field[3]));
}

TEST(EstimateFieldTest, WeighsByTheInverseSquareOfTheDistance) {
  const std::vector<FieldSample> samples = {{0.45, 0.5, 0}, {0.6, 0.5, 5}};
  // Distances 0.05 and 0.1: weights 4 to 1.
  EXPECT_NEAR(EstimateField(samples, {}, {})[0], 1, 1e-9);
}

TEST(EstimateFieldTest, KeepsCategoriesApart) {
  const std::vector<FieldSample> samples = {{0.2, 0.5, 1}, {0.4, 0.5, 3}};
  const auto field =
      EstimateField(samples, {.cells = 2, .categories = true}, {});
  EXPECT_NEAR(field[0], 2, 1e-9);
  EXPECT_TRUE(std::isnan(field[1]));
}

TEST(BestSoFarTest, CountsTrials) {
  EXPECT_THAT(BestSoFar(kSearch, Effort::kTrials, Timestamp(0), true),
              ElementsAre(Pair(1, 0.5), Pair(2, 0.4), Pair(3, 0.3)));
}

TEST(BestSoFarTest, AddsUpTheBatchesOfAllTrials) {
  EXPECT_THAT(BestSoFar(kSearch, Effort::kBatches, Timestamp(0), true),
              ElementsAre(Pair(100, 0.5), Pair(200, 0.4), Pair(550, 0.3),
                          Pair(750, 0.3)));
}

TEST(BestSoFarTest, CountsSecondsFromTheStart) {
  EXPECT_THAT(BestSoFar(kSearch, Effort::kSeconds, Timestamp(5'000'000), false),
              ElementsAre(Pair(5, 0.5), Pair(55, 0.5)));
}

TEST(BestSoFarTest, CountsABatchTrainedTwiceOnce) {
  // Trial 1 was restarted from an earlier checkpoint.
  EXPECT_THAT(BestSoFar(std::vector{Seen(1, 1, 100, 3), Seen(2, 1, 50, 2),
                                    Seen(3, 1, 150, 1)},
                        Effort::kBatches, Timestamp(0), true),
              ElementsAre(Pair(100, 2), Pair(150, 1)));
}

TEST(BestSoFarTest, NeverTakesAnInfinity) {
  const std::vector seen = {Seen(1, 1, 1, 0.5), Seen(2, 2, 1, HUGE_VAL),
                            Seen(3, 3, 1, 0.75), Seen(4, 4, 1, -HUGE_VAL)};
  EXPECT_THAT(BestSoFar(seen, Effort::kTrials, Timestamp(0), false),
              ElementsAre(Pair(1, 0.5), Pair(3, 0.75), Pair(4, 0.75)));
  EXPECT_THAT(BestSoFar(seen, Effort::kTrials, Timestamp(0), true),
              ElementsAre(Pair(1, 0.5), Pair(4, 0.5)));
}

TEST(BestSoFarTest, IsEmptyWithoutANumber) {
  EXPECT_THAT(BestSoFar(std::vector{Seen(1, 1, 1, std::nan(""))},
                        Effort::kTrials, Timestamp(0), true),
              IsEmpty());
}

TEST(SmoothTest, IsTheMeanOfThePastWithoutABiasToZero) {
  std::vector<CurvePoint> points = {{0, 4}, {1, HUGE_VAL}, {2, 8}};

  Smooth(0.5, points);

  EXPECT_THAT(points, ElementsAre(Pair(0, 4), Pair(1, HUGE_VAL),
                                  Pair(2, DoubleEq(20.0 / 3))));
}

TEST(EmpiricalDistributionTest, GivesTheShareUpToEachValue) {
  EXPECT_THAT(EmpiricalDistribution({3, 1, std::nan(""), 3, 2}),
              ElementsAre(Pair(1, 0.25), Pair(2, 0.5), Pair(3, 1)));
  EXPECT_THAT(EmpiricalDistribution({}), IsEmpty());
}

TEST(ParetoFrontTest, KeepsPointsThatNoOtherDominates) {
  const std::vector<std::vector<double>> points = {
      {0.9, 10}, {0.8, 5}, {0.7, 7}, {0.95, 20}, {0.9, 12}};
  EXPECT_THAT(ParetoFront(points, {false, true}), ElementsAre(0, 1, 3));
}

TEST(ParetoFrontTest, KeepsEqualPointsAndDropsNan) {
  const std::vector<std::vector<double>> points = {
      {1, 1}, {1, 1}, {std::nan(""), 0}, {2, 1}};
  EXPECT_THAT(ParetoFront(points, {true, true}), ElementsAre(0, 1));
}

TEST(ParetoFrontTest, TakesFourMetrics) {
  const std::vector<std::vector<double>> points = {
      {1, 2, 3, 4}, {2, 1, 3, 4}, {2, 2, 3, 4}, {1, 2, 3, 5}};
  EXPECT_THAT(ParetoFront(points, {true, true, true, false}),
              ElementsAre(1, 3));
}

TEST(DecimateTest, KeepsShortCurvesAsTheyAre) {
  const std::vector<CurvePoint> curve = {{0, 1}, {1, std::nan("")}, {2, 3}};
  const auto same = Decimate(curve, 1);
  ASSERT_EQ(same.size(), 3u);
  EXPECT_TRUE(std::isnan(same[1].second));
}

TEST(DecimateTest, KeepsTheExtremesOfEachColumn) {
  std::vector<CurvePoint> curve;
  for (int x = 0; x < 1000; ++x) curve.emplace_back(x, x % 10);
  curve[437].second = 99;
  curve[612].second = -99;
  const auto reduced = Decimate(curve, 10);
  EXPECT_LE(reduced.size(), 40u);
  EXPECT_EQ(reduced.front(), curve.front());
  EXPECT_EQ(reduced.back(), curve.back());
  EXPECT_THAT(reduced, testing::Contains(Pair(437, 99)));
  EXPECT_THAT(reduced, testing::Contains(Pair(612, -99)));
  EXPECT_TRUE(std::ranges::is_sorted(reduced, {}, &CurvePoint::first));
}

TEST(DecimateTest, TakesCurvesAtOnePlace) {
  const std::vector<CurvePoint> curve(100, {5, 1});
  EXPECT_THAT(Decimate(curve, 3), ElementsAre(Pair(5, 1), Pair(5, 1)));
}

}  // namespace
}  // namespace dtrain
