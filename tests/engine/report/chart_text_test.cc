#include <algorithm>
#include <cmath>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/text.h"
#include "engine/report/chart.h"

namespace dtrain {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

Figure TextFigure(std::vector<CurveMark> curves) {
  Figure figure{.title = "T", .panels = {Chart{}}};
  figure.panels[0].x.label = "batches";
  figure.panels[0].curves = std::move(curves);
  return figure;
}

TEST(DrawTextTest, MarksCurvesByLettersWithoutUtf8) {
  Figure figure = TextFigure({{{}, {{0, 2}, {4, 1}}, "1.1"}});
  figure.legend = {{{}, LegendEntry::Sample::kCurve, "loss"}};
  EXPECT_EQ(DrawText(figure, {.width = 40, .height = 3}),
            "T\n"
            "  2 +A\n"
            "1.5 +\n"
            "  1 +                              A 1.1\n"
            "    ++--------------+--------------+\n"
            "     0              2              4\n"
            "                             batches\n"
            "    A  loss\n");
}

TEST(DrawTextTest, DrawsLinesOfDots) {
  EXPECT_EQ(DrawText(TextFigure({{{}, {{0, 0}, {1, 1}}}}),
                     {.width = 20, .height = 2, .utf8 = true}),
            "T\n"
            "  1 +       ⢀⣀⡠⠤⠔⠒⠊⠉\n"
            "  0 +⣀⡠⠤⠔⠒⠊⠉⠉\n"
            "    ++------+------+\n"
            "     0     0.5     1\n"
            "             batches\n");
}

TEST(DrawTextTest, WritesTheTagsOfCurvesThatEndTogetherBelowEachOther) {
  std::istringstream lines(DrawText(TextFigure({{{}, {{0, 1}, {1, 1}}, "1.1"},
                                                {{}, {{0, 0}, {1, 1}}, "1.2"},
                                                {{}, {{0, 0}, {1, 1}}, "1.3"}}),
                                    {.width = 20, .height = 5}));
  std::vector<std::string> ends;
  for (std::string line; std::getline(lines, line);) {
    if (line.size() > 3) ends.push_back(line.substr(line.size() - 3));
  }
  EXPECT_EQ(ends.at(0), "1.1");
  EXPECT_EQ(ends.at(1), "1.2");
  EXPECT_EQ(ends.at(2), "1.3");
}

TEST(DrawTextTest, ColorsCurvesAndTheirTags) {
  Figure figure = TextFigure({{{}, {{0, 1}, {1, 2}}, "1.7"}});
  figure.legend = {{{}, LegendEntry::Sample::kCurve, "loss"}};
  const std::string text =
      DrawText(figure, {.width = 20, .height = 3, .utf8 = true, .color = true});
  EXPECT_THAT(text, HasSubstr("\x1b[34m1.7\x1b[0m"));
  EXPECT_THAT(text, HasSubstr("\x1b[34m⠤⠤⠤\x1b[0m  loss"));
}

TEST(DrawTextTest, EscapesTexts) {
  Figure figure = TextFigure({{{}, {{0, 0}}, "\x1b[2J"}});
  figure.title = "\x07";
  figure.legend = {{{}, LegendEntry::Sample::kCurve, "\x1b[31m"}};
  figure.panels[0].x.label = "\x1b]";
  EXPECT_THAT(DrawText(figure, {.width = 30, .height = 3}),
              Not(testing::ContainsRegex("[\x1b\x07]")));
}

TEST(DrawTextTest, DrawsAnEmptyPlot) {
  EXPECT_THAT(DrawText(TextFigure({}), {}), HasSubstr(" ++---"));
  EXPECT_THAT(DrawText(TextFigure({{{}, {{NAN, NAN}}, "t"}}), {.utf8 = true}),
              HasSubstr(" ++---"));
}

TEST(DrawTextTest, MarksDotsByTheirLetters) {
  Figure figure = TextFigure({});
  figure.panels[0].dots = {{{.color = 1}, {{1, 1}}},
                           {{.faint = true}, {{0, 0}}}};
  figure.panels[0].x.range = figure.panels[0].y.range = std::pair(0.0, 1.0);
  EXPECT_THAT(DrawText(figure, {.width = 20, .height = 3}),
              HasSubstr("  1 +              B\n"
                        "0.5 +\n"
                        "  0 +.\n"));
}

TEST(DrawTextTest, DrawsBarsWithTheirTexts) {
  Figure figure = TextFigure({});
  Chart& chart = figure.panels[0];
  chart.y.names = {"lr", "x"};
  chart.x.range = std::pair(0.0, 4.0);
  chart.bars = {{.row = 0, .from = 0, .to = 4, .text = "80 %"},
                {.style = {.color = 1}, .row = 1, .from = 1, .to = 2},
                {.row = 1, .from = 2, .to = 2.001, .text = "20 %"}};
  EXPECT_THAT(DrawText(figure, {.width = 21, .height = 3}),
              HasSubstr("lr +############ 80 %\n"
                        " x +   ===#      20 %\n"));
  EXPECT_THAT(DrawText(figure, {.width = 21, .height = 3, .utf8 = true}),
              HasSubstr("lr +████████████ 80 %\n"
                        " x +   ▒▒▒█      20 %\n"));
}

TEST(DrawTextTest, ShadesCellsAndLeavesOthersBlank) {
  Figure figure = TextFigure({});
  figure.panels[0].cells = {{0, 1, 0, 1, 0}, {1, 2, 1, 2, 1}};
  figure.light = "worst";
  figure.dark = "best";
  const std::string text = DrawText(figure, {.width = 20, .height = 2});
  EXPECT_THAT(text, HasSubstr("2 +        @@@@@@@@@\n"
                              "0 +........\n"));
  EXPECT_THAT(text, HasSubstr("    worst .:-=+*%@ best\n"));
}

TEST(DrawTextTest, ListsParallelAxes) {
  Figure figure = TextFigure({{{}, {{0, 0}, {1, 1}}}});
  figure.panels[0].parallel = {{"lr", {{0, "0.1"}, {1, "1"}}},
                               {"opt", {{0.5, "sgd"}}}};
  EXPECT_EQ(DrawText(figure, {.width = 40, .height = 3}),
            "T\n"
            "           |                  A\n"
            "           |                  |\n"
            "           A                  |\n"
            "           1                  2\n"
            "  1  lr: 0.1, 1 (from the bottom)\n"
            "  2  opt: sgd\n");
}

TEST(DrawTextTest, WritesTheLegendInColumns) {
  Figure figure = TextFigure({});
  for (const char* name : {"first", "2", "third", "4", "5"}) {
    figure.legend.push_back({{}, LegendEntry::Sample::kCross, name});
  }
  EXPECT_THAT(DrawText(figure, {.width = 40, .max_lines = 50}),
              EndsWith("    x  first    x  third    x  5\n"
                       "    x  2        x  4\n"));
  EXPECT_THAT(DrawText(figure, {.width = 20}),
              EndsWith("    x  4\n    x  5\n"));
}

TEST(DrawTextTest, LowersThePanelToFitTheLines) {
  const Figure figure = TextFigure({{{}, {{0, 0}, {1, 1}}}});
  const auto lines = [&](std::size_t max) {
    return std::ranges::count(DrawText(figure, {.max_lines = max}), '\n');
  };
  const auto all = lines(0);
  EXPECT_EQ(lines(100), all);
  EXPECT_EQ(lines(15), 15);
  EXPECT_EQ(lines(3), all - 10);
}

TEST(DrawTextTest, KeepsTheLastNumberOfAnAxisWithinTheWidth) {
  Figure figure = TextFigure({{{}, {{0, 0}, {100'000, 1}}}});
  figure.panels[0].x.range = {0, 100'000};
  std::istringstream lines(DrawText(figure, {.width = 40}));
  bool found = false;
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(DisplayWidth(line), 40) << line;
    if (line.find("100000") != std::string::npos) found = true;
  }
  EXPECT_TRUE(found);
}

TEST(DrawTextTest, KeepsToTheWidth) {
  Figure figure =
      TextFigure({{{}, {{0, 123456}, {1, 1}}, "a long name of a tag"}});
  figure.title = "a title that is much longer than the terminal is wide";
  figure.panels[0].x.label = "an axis with a very long name that has no end";
  figure.legend = {{{}, LegendEntry::Sample::kCurve, std::string(100, 'n')}};
  std::istringstream lines(DrawText(figure, {.width = 40}));
  std::size_t longest = 0;
  for (std::string line; std::getline(lines, line);) {
    longest = std::max(longest, line.size());
  }
  EXPECT_LE(longest, 40);
}

TEST(DrawTextTest, IsAsciiWithoutUtf8) {
  Figure figure = TextFigure({{{}, {{0, 1}}, std::string(100, 't')}});
  figure.panels[0].title = "shortened…";
  figure.legend = {{{}, LegendEntry::Sample::kCurve, std::string(100, 'n')}};
  EXPECT_THAT(DrawText(figure, {.width = 40}),
              Not(testing::ContainsRegex("[\x80-\xff]")));
}

}  // namespace
}  // namespace dtrain
