#include "engine/report/plot.h"

#include <cmath>
#include <set>
#include <sstream>

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

TEST(DrawSvgTest, StaysSmallForManyCurves) {
  std::vector<PlotSeries> series;
  for (int i = 0; i < 10'000; ++i) {
    PlotSeries one{.name = std::string(1'000, '&')};
    for (int x = 0; x < 200; ++x) {
      one.points.emplace_back(x, std::sin(x * 0.37 + i));
    }
    one.color = static_cast<std::size_t>(i);
    one.faint = series.size() >= kMaxPlotCurves;
    series.push_back(std::move(one));
  }
  const std::string svg =
      DrawSvg(series, {.title = std::string(1'000, '<'), .x = "batches"});
  EXPECT_LT(svg.size(), 200'000);
  EXPECT_THAT(svg, HasSubstr("height=\"900.0\""));  // 20 lines of legend
}

TEST(DrawSvgTest, GivesEachCurveItsOwnStroke) {
  std::vector<PlotSeries> series;
  for (std::size_t i = 0; i < kMaxPlotCurves; ++i) {
    series.push_back({.name = "c", .points = {{0, 0}, {1, 1}}, .color = i / 2});
    series.back().dashed = i % 2 == 1;
  }
  std::istringstream lines(DrawSvg(series, {}));
  std::set<std::string> strokes;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("<path stroke") &&
        line.find("stroke-width") != std::string::npos) {
      strokes.insert(line.substr(0, line.find(" d=")));
    }
  }
  EXPECT_EQ(strokes.size(), kMaxPlotCurves);
}

TEST(DrawSvgTest, DrawsFaintCurvesFirst) {
  const std::string svg =
      DrawSvg({{"strong", {{0, 0}, {1, 1}}},
               {.name = "weak", .points = {{0, 1}, {1, 0}}, .faint = true}},
              {});
  EXPECT_LT(svg.find("#bbbbbb"), svg.find("#0072b2"));
  EXPECT_THAT(svg, Not(HasSubstr("weak")));
}

TEST(DrawSvgTest, MarksPowersOfTenOnALogarithmicAxis) {
  const std::string svg = DrawSvg(
      {{"loss", {{0, 0.001}, {1, 100}, {2, 0}, {3, -1}}}}, {.log_y = true});
  EXPECT_THAT(svg, HasSubstr(">0.01</text>"));
  EXPECT_THAT(svg, HasSubstr(">10</text>"));
  EXPECT_THAT(svg, HasSubstr("d=\"M80.0 485.0L880.0 40.0\""));
}

TEST(DrawSvgTest, MarksTwosAndFivesOnAShortLogarithmicAxis) {
  const std::string svg =
      DrawSvg({{"loss", {{0, 0.3}, {1, 6}}}}, {.log_y = true});
  EXPECT_THAT(svg, HasSubstr(">0.5</text>"));
  EXPECT_THAT(svg, HasSubstr(">1</text>"));
  EXPECT_THAT(svg, HasSubstr(">2</text>"));
  EXPECT_THAT(svg, HasSubstr(">5</text>"));
}

TEST(DrawSvgTest, LimitsTheVerticalAxis) {
  const std::string svg = DrawSvg({{"loss", {{0, 0}, {1, 1000}}}},
                                  {.y_range = std::pair(0.0, 10.0)});
  EXPECT_THAT(svg, HasSubstr(">10</text>"));
  EXPECT_THAT(svg, Not(HasSubstr(">1000</text>")));
}

TEST(DrawTextTest, MarksCurvesByLettersWithoutUtf8) {
  EXPECT_EQ(
      DrawText({{"loss", {{0, 2}, {4, 1}}, "1.1"}},
               {.title = "T", .x = "batches"}, {.width = 25, .height = 3}),
      "T\n"
      "  2 +A\n"
      "1.5 +\n"
      "  1 +                        A 1.1\n"
      "    ++-----------+-----------+\n"
      "     0           2           4  batches\n"
      "     A  loss\n");
}

TEST(DrawTextTest, DrawsLinesOfDots) {
  EXPECT_EQ(DrawText({{"loss", {{0, 0}, {1, 1}}}}, {.title = "T", .x = "x"},
                     {.width = 4, .height = 2, .utf8 = true}),
            "T\n"
            "  1 +  ⡠⠊\n"
            "  0 +⡠⠊⠁\n"
            "    ++--+\n"
            "     0  1  x\n"
            "     ⠤⠤⠤  loss\n");
}

TEST(DrawTextTest, WritesTheTagsOfCurvesThatEndTogetherBelowEachOther) {
  const std::string text = DrawText({{"a", {{0, 1}, {1, 1}}, "1.1"},
                                     {"b", {{0, 0}, {1, 1}}, "1.2"},
                                     {"c", {{0, 0}, {1, 1}}, "1.3"}},
                                    {}, {.width = 10, .height = 5});
  std::istringstream lines(text);
  std::vector<std::string> ends;
  for (std::string line; std::getline(lines, line);) {
    if (line.size() > 3) ends.push_back(line.substr(line.size() - 3));
  }
  EXPECT_EQ(ends.at(0), "1.1");
  EXPECT_EQ(ends.at(1), "1.2");
  EXPECT_EQ(ends.at(2), "1.3");
}

TEST(DrawTextTest, TellsTrainingFromValidation) {
  const std::string text =
      DrawText({{"loss (training)", {{0, 1}, {1, 1}}, "", 3, true},
                {"loss (validation)", {{0, 0}, {1, 0}}, "", 3, false}},
               {}, {.width = 10, .height = 3});
  EXPECT_THAT(text, HasSubstr("d  loss (training)"));
  EXPECT_THAT(text, HasSubstr("D  loss (validation)"));
}

TEST(DrawTextTest, ColorsCurvesAndTheirTags) {
  const std::string text =
      DrawText({{"loss", {{0, 1}, {1, 2}}, "1.7"}}, {},
               {.width = 10, .height = 3, .utf8 = true, .color = true});
  EXPECT_THAT(text, HasSubstr("\x1b[34m1.7\x1b[0m"));
  EXPECT_THAT(text, HasSubstr("\x1b[34m⠤⠤⠤\x1b[0m  loss"));
}

TEST(DrawTextTest, EscapesNames) {
  EXPECT_THAT(DrawText({{"\x1b[31m", {{0, 0}}, "\x1b[2J"}}, {.title = "\x07"},
                       {.width = 10, .height = 3}),
              Not(testing::ContainsRegex("[\x1b\x07]")));
}

TEST(DrawTextTest, DrawsAnEmptyPlot) {
  EXPECT_THAT(DrawText({}, {.title = "T", .x = "x"}, {}), HasSubstr(" ++---"));
  EXPECT_THAT(DrawText({{"a", {{NAN, NAN}}, "t"}}, {}, {.utf8 = true}),
              HasSubstr(" ++---"));
}

}  // namespace
}  // namespace dtrain
