#include "engine/report/plot.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dtrain {
namespace {

using testing::DoubleEq;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST(AxisTicksTest, AreRoundNumbersWithinTheRange) {
  EXPECT_THAT(AxisTicks(0, 10, 5), ElementsAre(0, 2, 4, 6, 8, 10));
  EXPECT_THAT(AxisTicks(0.13, 0.27, 3),
              ElementsAre(DoubleEq(0.15), DoubleEq(0.2), DoubleEq(0.25)));
  EXPECT_THAT(AxisTicks(-1, 1, 2), ElementsAre(-1, 0, 1));
  EXPECT_THAT(AxisTicks(7, 7, 5), ElementsAre(7));
}

TEST(DrawSvgTest, DrawsEachCurveFromLeftToRight) {
  const std::string svg =
      DrawSvg({{"loss", {{0, 2}, {10, 1}}}, {"other", {{0, 1}, {10, 2}}}},
              {.title = "T", .x = "batches"});
  EXPECT_THAT(svg, testing::StartsWith("<svg xmlns="));
  EXPECT_THAT(svg, HasSubstr("d=\"M80.0 40.0L880.0 485.0\""));
  EXPECT_THAT(svg, HasSubstr("d=\"M80.0 485.0L880.0 40.0\""));
  EXPECT_THAT(svg, HasSubstr(">loss</text>"));
  EXPECT_THAT(svg, testing::EndsWith("</svg>\n"));
}

TEST(DrawSvgTest, BreaksTheLineAtNan) {
  const std::string svg = DrawSvg(
      {{"loss", {{0, 0}, {1, 1}, {2, std::nan("")}, {3, 1}, {4, 0}}}}, {});
  EXPECT_THAT(svg, HasSubstr("M80.0 485.0L280.0 40.0M680.0 40.0L880.0 485.0"));
}

TEST(DrawSvgTest, EscapesNames) {
  const std::string svg =
      DrawSvg({{"<script>&\x1b[31m", {{0, 0}}}}, {.title = "\"<b>"});
  EXPECT_THAT(svg, Not(HasSubstr("<script>")));
  EXPECT_THAT(svg, Not(HasSubstr("<b>")));
  EXPECT_THAT(svg, Not(HasSubstr("\x1b")));
}

TEST(DrawSvgTest, StaysSmallForManyPoints) {
  PlotSeries series{.name = "loss"};
  for (int i = 0; i < 1'000'000; ++i) {
    series.points.emplace_back(i, std::sin(i * 0.37));
  }
  EXPECT_LT(DrawSvg({series}, {}).size(), 100'000);
}

TEST(DrawSvgTest, DrawsAnEmptyPlot) {
  EXPECT_THAT(DrawSvg({}, {}), HasSubstr("</svg>"));
  EXPECT_THAT(DrawSvg({{"x", {{INFINITY, 1}}}}, {}), HasSubstr("</svg>"));
}

TEST(DrawSvgTest, DrawsExtremeNumbers) {
  const std::string svg = DrawSvg(
      {{"x", {{0, -1e308}, {1, 1e308}, {2, 5e-324}, {3, 0}, {4, 1e-300}}}}, {});
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("inf")));
  EXPECT_THAT(AxisTicks(0, 5e-324, 6), ElementsAre(0));
}

TEST(DrawTextTest, MarksCurvesByLetters) {
  EXPECT_EQ(DrawText({{"loss", {{0, 2}, {4, 1}}}},
                     {.title = "T", .x = "batches"}, /*width=*/5, /*height=*/3),
            "T\n"
            "2 |A\n"
            "  |\n"
            "1 |    A\n"
            "  +-----\n"
            "   0 4 batches\n"
            "   A  loss\n");
}

TEST(DrawTextTest, EscapesNames) {
  EXPECT_THAT(DrawText({{"\x1b[31m", {}}}, {.title = "\x07"}, 10, 3),
              Not(testing::ContainsRegex("[\x1b\x07]")));
}

}  // namespace
}  // namespace dtrain
