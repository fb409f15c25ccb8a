#include "engine/report/chart_scale.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dtrain {
namespace {

using testing::DoubleEq;
using testing::ElementsAre;

TEST(AxisTicksTest, AreRoundNumbersWithinTheRange) {
  EXPECT_THAT(AxisTicks(0, 10, 5), ElementsAre(0, 2, 4, 6, 8, 10));
  EXPECT_THAT(AxisTicks(0.13, 0.27, 3),
              ElementsAre(DoubleEq(0.15), DoubleEq(0.2), DoubleEq(0.25)));
  EXPECT_THAT(AxisTicks(-1, 1, 2), ElementsAre(-1, 0, 1));
  EXPECT_THAT(AxisTicks(7, 7, 5), ElementsAre(7));
  EXPECT_THAT(AxisTicks(0, 5e-324, 6), ElementsAre(0));
}

// Steps below the precision of the numbers would never reach the end.
TEST(AxisTicksTest, EndForLargeNumbersThatAreClose) {
  EXPECT_LE(AxisTicks(1e17, 1e17 + 16, 6).size(), 13);
}

TEST(TicksOfTest, ArePowersOfTenOnALongLogarithmicScale) {
  std::vector<std::string> texts;
  for (const Tick& tick :
       MakeTicks({.low = 0.1, .high = 2.9, .log = true}, 5)) {
    texts.push_back(tick.text);
  }
  EXPECT_THAT(texts, ElementsAre("10", "100"));
}

TEST(ScalesOfTest, CoverAllMarks) {
  Chart chart;
  chart.curves = {{{}, {{2, 5}, {4, 7}}}};
  const Scales scales = MakeScales(chart);
  EXPECT_EQ(scales.x.Share(2), 0);
  EXPECT_EQ(scales.x.Share(3), 0.5);
  EXPECT_EQ(scales.y.Share(7), 1);
  EXPECT_TRUE(std::isnan(scales.y.Share(INFINITY)));
}

TEST(ScalesOfTest, LeaveAMarginAroundDots) {
  Chart chart;
  chart.dots = {{{}, {{0, 0}, {100, 1}}}};
  EXPECT_DOUBLE_EQ(MakeScales(chart).x.low, -3);
  EXPECT_DOUBLE_EQ(MakeScales(chart).x.high, 103);
}

TEST(ScalesOfTest, PutRowsFromTheTop) {
  Chart chart;
  chart.y.names = {"a", "b"};
  chart.bars = {{.row = 0, .from = 0, .to = 1}};
  EXPECT_EQ(MakeScales(chart).y.Share(0), 0.75);
  EXPECT_EQ(MakeScales(chart).y.Share(1), 0.25);
}

TEST(CurvePiecesTest, BreakAtValuesThatAreNotFinite) {
  const CurveMark curve = {{}, {{0, 0}, {1, NAN}, {2, 1}, {4, 0}}};
  Chart chart;
  chart.curves = {curve};
  EXPECT_THAT(CurvePieces(curve, MakeScales(chart), 100),
              ElementsAre(ElementsAre(CurvePoint(0, 0)),
                          ElementsAre(CurvePoint(0.5, 1), CurvePoint(1, 0))));
}

TEST(CurvePiecesTest, AreFewForACurveOfVeryManyGaps) {
  CurveMark curve;
  for (int i = 0; i < 100'000; ++i) {
    curve.points.emplace_back(i, i % 2 == 0 ? i % 7 : NAN);
  }
  Chart chart;
  chart.curves = {curve};
  std::size_t points = 0;
  for (const auto& piece : CurvePieces(curve, MakeScales(chart), 100)) {
    points += piece.size();
  }
  EXPECT_LE(points, 404);
}

}  // namespace
}  // namespace dtrain
