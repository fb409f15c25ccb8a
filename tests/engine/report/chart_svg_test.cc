#include <cmath>
#include <set>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/report/chart.h"
#include "tests/support/patience.h"

namespace dtrain {
namespace {

using testing::HasSubstr;
using testing::Not;

Figure MakeFigure(std::vector<CurveMark> curves) {
  Figure figure{.title = "", .panels = {Chart{}}};
  figure.panels[0].curves = std::move(curves);
  return figure;
}

Figure MakeDotsFigure(std::vector<DotMark> dots) {
  Figure figure{.title = "", .panels = {Chart{}}};
  figure.panels[0].dots = std::move(dots);
  figure.panels[0].x.range = figure.panels[0].y.range = std::pair(0.0, 10.0);
  return figure;
}

std::string RenderSvg(const Figure& figure) { return DrawSvg(figure).text; }

TEST(DrawSvgTest, DrawsEachCurveFromLeftToRight) {
  const std::string svg = RenderSvg(
      MakeFigure({{{}, {{0, 2}, {10, 1}}}, {{.color = 1}, {{0, 1}, {10, 2}}}}));
  EXPECT_THAT(svg, testing::StartsWith("<svg xmlns="));
  EXPECT_THAT(svg, HasSubstr("#0072b2\" stroke-width=\"1.5\" "
                             "d=\"M80.0 40.0L880.0 485.0\""));
  EXPECT_THAT(svg, HasSubstr("#d55e00\" stroke-width=\"1.5\" "
                             "d=\"M80.0 485.0L880.0 40.0\""));
  EXPECT_THAT(svg, testing::EndsWith("</svg>\n"));
}

TEST(DrawSvgTest, BreaksTheLineAtNan) {
  EXPECT_THAT(RenderSvg(MakeFigure(
                  {{{}, {{0, 0}, {1, 1}, {2, std::nan("")}, {3, 1}, {4, 0}}}})),
              HasSubstr("M80.0 485.0L280.0 40.0M680.0 40.0L880.0 485.0"));
}

TEST(DrawSvgTest, EscapesTexts) {
  Figure figure = MakeFigure({{{}, {{0, 0}}}});
  figure.title = "\"<b>";
  figure.panels[0].x.label = "</script><img onerror=x>";
  figure.legend = {
      {{}, LegendEntry::Sample::kCurve, "<i>&\x1b[31m\xe2\x80\xae"}};
  const std::string svg = RenderSvg(figure);
  EXPECT_THAT(svg, Not(HasSubstr("<b>")));
  EXPECT_THAT(svg, Not(HasSubstr("</script>")));
  EXPECT_THAT(svg, Not(HasSubstr("<i>")));
  EXPECT_THAT(svg, Not(HasSubstr("\x1b")));
  EXPECT_THAT(svg, Not(HasSubstr("\xe2\x80\xae")));
}

TEST(DrawSvgTest, WritesALongTitleInLines) {
  Figure figure = MakeFigure({});
  figure.title = std::string(109, 'x') + " best 10 of 500 trials";
  const std::string svg = RenderSvg(figure);
  EXPECT_THAT(svg, HasSubstr(">best 10 of 500 trials</text>"));
}

TEST(DrawSvgTest, StaysSmallForManyPoints) {
  CurveMark curve;
  for (int i = 0; i < (kSanitized ? 100'000 : 1'000'000); ++i) {
    curve.points.emplace_back(i, std::sin(i * 0.37));
  }
  EXPECT_LT(RenderSvg(MakeFigure({curve})).size(), 100'000);
}

TEST(DrawSvgTest, StaysSmallForACurveOfVeryManyGaps) {
  CurveMark curve;
  for (int i = 0; i < 100'000; ++i) {
    curve.points.emplace_back(i, i % 2 == 0 ? i % 7 : NAN);
  }
  EXPECT_LT(RenderSvg(MakeFigure({curve})).size(), 100'000);
}

TEST(DrawSvgTest, DrawsAnEmptyPlot) {
  EXPECT_THAT(RenderSvg({.title = "", .panels = {}}), HasSubstr("</svg>"));
  EXPECT_THAT(RenderSvg(MakeFigure({})), HasSubstr("</svg>"));
  EXPECT_THAT(RenderSvg(MakeFigure({{{}, {{INFINITY, 1}}}})),
              HasSubstr("</svg>"));
}

TEST(DrawSvgTest, SaysWhyAPanelIsEmpty) {
  Figure figure = MakeFigure({});
  figure.panels[0].empty = "too few trials";
  EXPECT_THAT(RenderSvg(figure), HasSubstr(">too few trials</text>"));
}

TEST(DrawSvgTest, DrawsExtremeNumbers) {
  const std::string svg = RenderSvg(MakeFigure(
      {{{}, {{0, -1e308}, {1, 1e308}, {2, 5e-324}, {3, 0}, {4, 1e-300}}}}));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("inf")));
}

TEST(DrawSvgTest, StaysSmallForManyCurves) {
  Figure figure = MakeFigure({});
  figure.title = std::string(1'000, '<');
  for (std::size_t i = 0; i < 10'000; ++i) {
    CurveMark curve = {.style = {.color = i, .faint = i >= kMaxLegend},
                       .points = {}};
    for (int x = 0; x < 200; ++x) {
      curve.points.emplace_back(x, std::sin(x * 0.37 + static_cast<double>(i)));
    }
    figure.panels[0].curves.push_back(std::move(curve));
    if (i < kMaxLegend) {
      figure.legend.push_back(
          {{.color = i}, LegendEntry::Sample::kCurve, std::string(1'000, '&')});
    }
  }
  const Drawing drawing = DrawSvg(figure);
  EXPECT_LE(drawing.text.size(), kMaxSvgBytes);
  ASSERT_EQ(drawing.notes.size(), 1);
  EXPECT_THAT(drawing.notes[0],
              HasSubstr("of the 9980 gray curves every n-th"));
  EXPECT_THAT(drawing.text, HasSubstr(drawing.notes[0]));
}

TEST(DrawSvgTest, StaysSmallForManyDots) {
  DotMark dots = {.style = {.faint = true}, .points = {}};
  for (int i = 0; i < 200'000; ++i) {
    dots.points.emplace_back(5 + 5 * std::sin(i * 0.7), i % 1'009 * 0.01);
  }
  const Drawing drawing = DrawSvg(MakeDotsFigure({dots}));
  EXPECT_LE(drawing.text.size(), kMaxSvgBytes);
  ASSERT_EQ(drawing.notes.size(), 1);
  EXPECT_THAT(drawing.notes[0], HasSubstr("pixels apart are drawn as one"));
}

TEST(DrawSvgTest, StaysSmallForManyBars) {
  Figure figure = MakeFigure({});
  for (std::size_t row = 0; row < 40; ++row) {
    figure.panels[0].y.names.push_back(std::string(1'000, '&'));
    for (int i = 0; i < 5'000; ++i) {
      figure.panels[0].bars.push_back({.style = {.color = i % 5u},
                                       .row = row,
                                       .from = i * 1.0,
                                       .to = i + 0.5});
    }
  }
  EXPECT_LE(RenderSvg(figure).size(), kMaxSvgBytes);
}

TEST(DrawSvgTest, GivesEachCurveItsOwnStroke) {
  Figure figure = MakeFigure({});
  for (std::size_t i = 0; i < kMaxLegend; ++i) {
    figure.panels[0].curves.push_back(
        {{.color = i / 2, .dashed = i % 2 == 1}, {{0, 0}, {1, 1}}});
  }
  std::istringstream lines(RenderSvg(figure));
  std::set<std::string> strokes;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("<path stroke") &&
        line.find("stroke-width") != std::string::npos) {
      strokes.insert(line.substr(0, line.find(" d=")));
    }
  }
  EXPECT_EQ(strokes.size(), kMaxLegend);
}

TEST(DrawSvgTest, DrawsFaintCurvesFirstAndTheFirstOneLast) {
  const std::string svg =
      RenderSvg(MakeFigure({{{}, {{0, 0}, {1, 1}}},
                            {{.color = 1}, {{0, 1}, {1, 0}}},
                            {{.faint = true}, {{0, 1}, {1, 0}}}}));
  EXPECT_LT(svg.find("#bbbbbb"), svg.find("#d55e00"));
  EXPECT_LT(svg.find("#d55e00"), svg.find("#0072b2"));
}

TEST(DrawSvgTest, MarksPowersOfTenOnALogarithmicAxis) {
  Figure figure = MakeFigure({{{}, {{0, 0.001}, {1, 100}, {2, 0}, {3, -1}}}});
  figure.panels[0].y.log = true;
  const std::string svg = RenderSvg(figure);
  EXPECT_THAT(svg, HasSubstr(">0.01</text>"));
  EXPECT_THAT(svg, HasSubstr(">10</text>"));
  EXPECT_THAT(svg, HasSubstr("d=\"M80.0 485.0L880.0 40.0\""));
}

TEST(DrawSvgTest, MarksTwosAndFivesOnAShortLogarithmicAxis) {
  Figure figure = MakeFigure({{{}, {{0, 0.3}, {1, 6}}}});
  figure.panels[0].y.log = true;
  const std::string svg = RenderSvg(figure);
  EXPECT_THAT(svg, HasSubstr(">0.5</text>"));
  EXPECT_THAT(svg, HasSubstr(">1</text>"));
  EXPECT_THAT(svg, HasSubstr(">2</text>"));
  EXPECT_THAT(svg, HasSubstr(">5</text>"));
}

TEST(DrawSvgTest, LimitsTheVerticalAxis) {
  Figure figure = MakeFigure({{{}, {{0, 0}, {1, 1000}}}});
  figure.panels[0].y.range = std::pair(0.0, 10.0);
  const std::string svg = RenderSvg(figure);
  EXPECT_THAT(svg, HasSubstr(">10</text>"));
  EXPECT_THAT(svg, Not(HasSubstr(">1000</text>")));
}

TEST(DrawSvgTest, ShowsEveryDigitOfTheNumbersOfAnAxis) {
  EXPECT_THAT(
      RenderSvg(MakeFigure({{{}, {{0, -1.2345e-100}, {1, -1.2346e-100}}}})),
      HasSubstr(">-1.23452e-100</text>"));
}

TEST(DrawSvgTest, DrawsDotsAtTheirPlaces) {
  const std::string svg = RenderSvg(MakeDotsFigure({{{}, {{0, 0}, {5, 10}}}}));
  EXPECT_THAT(svg, HasSubstr("d=\"M80.0 485.0h.1M480.0 40.0h.1\""));
}

TEST(DrawSvgTest, LeavesOutDotsThatAreNotFiniteOrOutside) {
  const std::string svg =
      RenderSvg(MakeDotsFigure({{{}, {{5, NAN}, {INFINITY, 5}, {5, 11}}}}));
  EXPECT_THAT(svg, Not(HasSubstr("h.1")));
}

TEST(DrawSvgTest, DrawsBarsInTheirRows) {
  Figure figure = MakeFigure({});
  Chart& chart = figure.panels[0];
  chart.y.names = {"top", "bottom", "c", "d"};
  chart.x.range = std::pair(0.0, 10.0);
  chart.bars = {{.row = 0, .from = 0, .to = 5},
                {.row = 1, .from = 5, .to = 10}};
  // A panel of four rows: 105 high from 40 on, 80 from each row to the next 4.
  EXPECT_THAT(RenderSvg(figure),
              HasSubstr("d=\"M80.0 53.1h400.0M480.0 79.4h400.0\""));
}

TEST(DrawSvgTest, DrawsABandUnderItsCurve) {
  Figure figure = MakeFigure({{{.color = 1}, {{0, 1}, {10, 1}}}});
  figure.panels[0].bands = {
      {{.color = 1}, {{0, 0}, {10, 0}}, {{0, 2}, {10, 2}}}};
  const std::string svg = RenderSvg(figure);
  const std::string band =
      "<path fill=\"#d55e00\" fill-opacity=\"0.2\" "
      "d=\"M80.0 40.0L880.0 40.0L880.0 485.0L80.0 485.0z\"/>";
  EXPECT_THAT(svg, HasSubstr(band));
  EXPECT_LT(svg.find(band), svg.find("stroke=\"#d55e00\""));
}

TEST(DrawSvgTest, IsAsLargeAsAskedAndScalesWithTheFont) {
  const Figure figure = MakeFigure({{{}, {{0, 2}, {10, 1}}}});
  const std::string svg =
      DrawSvg(figure, {.width = 450, .height = 300, .font_size = 6.5}).text;
  EXPECT_THAT(svg, HasSubstr("viewBox=\"0 0 900.0 600.0\" width=\"450.0\" "
                             "height=\"300.0\""));
  // Too low for an axis: a panel of the least height.
  EXPECT_THAT(DrawSvg(figure, {.height = 10}).text,
              HasSubstr("height=\"192.0\""));
}

TEST(DrawSvgTest, DrawsCellsInShades) {
  Figure figure = MakeFigure({});
  figure.panels[0].cells = {{0, 1, 0, 1, 0.0}, {1, 2, 1, 2, 1.0}};
  const std::string svg = RenderSvg(figure);
  EXPECT_THAT(svg, HasSubstr("fill=\"#839123\" stroke=\"#839123\" "
                             "stroke-width=\"0.5\" "
                             "d=\"M80.0 262.5h400.0v222.5h-400.0z\""));
  EXPECT_THAT(svg, HasSubstr("d=\"M480.0 40.0h400.0v222.5h-400.0z\""));
}

TEST(DrawSvgTest, DrawsParallelAxes) {
  Figure figure = MakeFigure({{{}, {{0, 0}, {1, 1}}}});
  figure.panels[0].parallel = {{"lr", {{0, "0.1"}, {1, "1"}}}, {"x", {}}};
  const std::string svg = RenderSvg(figure);
  EXPECT_THAT(svg, HasSubstr(">lr</text>"));
  EXPECT_THAT(svg, HasSubstr("d=\"M265.0 485.0L675.0 55.0\""));
}

TEST(DrawSvgTest, PutsPanelsBesideEachOther) {
  Figure figure{.title = "", .panels = {Chart{}, Chart{}}};
  figure.panels[0].title = "left";
  figure.panels[1].title = "right";
  const std::string svg = RenderSvg(figure);
  EXPECT_THAT(svg, HasSubstr("<text x=\"225.0\" y=\"44.0\" "
                             "text-anchor=\"middle\">left</text>"));
  EXPECT_THAT(svg, HasSubstr("<text x=\"675.0\" y=\"44.0\" "
                             "text-anchor=\"middle\">right</text>"));
}

TEST(DrawSvgTest, WritesManyEntriesOfTheLegendInColumns) {
  const auto in_first_column = [](const Figure& figure) {
    const std::string svg = DrawSvg(figure).text;
    std::size_t count = 0;
    for (std::size_t at = svg.find("x=\"128.0\""); at != std::string::npos;
         at = svg.find("x=\"128.0\"", at + 1)) {
      ++count;
    }
    return count;
  };
  Figure figure{.title = "T", .panels = {Chart{}}};
  for (int i = 0; i < 5; ++i) {
    figure.legend.push_back(
        {{}, LegendEntry::Sample::kDot, "3." + std::to_string(i)});
  }
  EXPECT_EQ(in_first_column(figure), 5);
  figure.legend.push_back({{}, LegendEntry::Sample::kDot, "3.5"});
  EXPECT_EQ(in_first_column(figure), 2);
  figure.legend.back().name = std::string(200, 'n');
  EXPECT_EQ(in_first_column(figure), 6);
}

}  // namespace
}  // namespace dtrain
