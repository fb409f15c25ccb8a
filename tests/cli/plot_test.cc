// plot on a recorded store. Experiment 4 is that of AddAccuracySearch: accuracy
// at 50 and 100 batches of three trials, 4.2 the best of them.

#include <cmath>
#include <fstream>
#include <iterator>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/store/store.h"
#include "tests/support/cli_runner.h"
#include "tests/support/sample_store.h"

namespace dtrain {
namespace {

using testing::HasSubstr;
using testing::Not;

class PlotTest : public testing::Test {
 protected:
  PlotTest() {
    FillSampleStore(dtrain_.store());
    AddAccuracySearch(dtrain_.store());
  }

  // Draws as SVG.
  std::string Svg(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), "plot");
    arguments.insert(arguments.end(), {"--out", "a.svg"});
    const CliResult result = dtrain_.Run(arguments);
    EXPECT_EQ(result.code, 0) << result.err;
    std::ifstream file(dtrain_.directory() / "a.svg");
    return {std::istreambuf_iterator<char>(file), {}};
  }

  const CliRunner dtrain_;
};

TEST_F(PlotTest, DrawsTheSearchersMetricOfEveryTrial) {
  const CliResult result = dtrain_.Run({"plot", "4"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("experiment 4, delta: accuracy\n"));
  EXPECT_THAT(result.out, HasSubstr("  A  4.2 accuracy\n"));  // the best
  EXPECT_THAT(result.out, HasSubstr("  B  4.3 accuracy\n"));
  EXPECT_THAT(result.out, HasSubstr("  C  4.1 accuracy\n"));
}

// Both have a `loss`: one curve of both would go up and down.
TEST_F(PlotTest, DrawsTrainingAndValidationApart) {
  const CliResult result = dtrain_.Run({"plot", "1.2", "--metric", "loss"});
  EXPECT_THAT(result.out, HasSubstr("  a  1.2 loss (training)\n"));
  EXPECT_THAT(result.out, HasSubstr("  A  1.2 loss (validation)\n"));
  const std::string svg = Svg({"1.2"});
  EXPECT_THAT(svg, HasSubstr(">1.2 loss (training)</text>"));
  EXPECT_THAT(svg, HasSubstr("stroke-dasharray=\"6 4\" d=\"M480.0 40.0h1"));
}

TEST_F(PlotTest, DrawsDotsWhereTheLocaleIsUtf8) {
  const CliResult utf8 =
      dtrain_.Run({"plot", "4"}, {.environment = {{"LC_ALL", "C.UTF-8"}}});
  EXPECT_THAT(utf8.out, HasSubstr("⠤⠤⠤  4.2 accuracy\n"));
  const CliResult ascii =
      dtrain_.Run({"plot", "4"}, {.environment = {{"LC_ALL", "C"}}});
  EXPECT_THAT(ascii.out, Not(testing::ContainsRegex("[\x80-\xff]")));
}

TEST_F(PlotTest, DrawsOnlyTheBestTrialsInColor) {
  const CliResult result = dtrain_.Run({"plot", "4", "--top", "1"});
  EXPECT_THAT(result.out,
              HasSubstr("experiment 4, delta: accuracy, best 1 of 3 trials\n"));
  EXPECT_THAT(result.out, HasSubstr("  A  4.2 accuracy\n"));
  EXPECT_THAT(result.out, Not(HasSubstr("  B  ")));
}

TEST_F(PlotTest, DrawsOverEpochs) {
  EXPECT_THAT(Svg({"4", "--x", "epochs"}), HasSubstr(">epochs</text>"));
}

TEST_F(PlotTest, DrawsOverTheSecondsSinceTheStart) {
  const std::string svg = Svg({"4.1", "--x", "time"});
  EXPECT_THAT(svg, HasSubstr(">seconds since the start of the experiment<"));
  // Recorded 2.00005 and 2.0001 s after it.
  EXPECT_THAT(svg, HasSubstr(">2.00006</text>"));
}

TEST_F(PlotTest, SmoothsTheCurve) {
  // 0.5, then 0.25: averages 0.5 and (0.5 * 0.5 * 0.5 + 0.5 * 0.25) / 0.75.
  const std::string svg = Svg({"4.1", "--smooth", "0.5", "--y", "0:1"});
  EXPECT_THAT(svg, HasSubstr("d=\"M80.0 262.5L880.0 336.7\""));
  EXPECT_THAT(Svg({"4.1", "--y", "0:1"}),
              HasSubstr("d=\"M80.0 262.5L880.0 373.8\""));
}

TEST_F(PlotTest, HasLogarithmicAxes) {
  EXPECT_THAT(Svg({"4", "--metric", "speed", "--log-y"}),
              HasSubstr(">2000</text>"));
  EXPECT_THAT(Svg({"4", "--metric", "speed"}), Not(HasSubstr(">5000</text>")));
  EXPECT_THAT(Svg({"4", "--log-x"}), HasSubstr(">50</text>"));
}

TEST_F(PlotTest, SaysThatThereIsNoFiniteValue) {
  Store::OpenForWriting(StoreLayout(dtrain_.store()))
      .Write([](StoreWriter& writer) {
        writer.AddMetrics({4, 1}, MetricKind::kTraining, 100, 1,
                          {{"broken", std::nan("")}}, Timestamp(1));
      });
  const CliResult result = dtrain_.Run({"plot", "4", "--metric", "broken"});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(
      result.err,
      HasSubstr("note: 4 has no finite value of broken so far: the plot is "
                "empty\n"));
}

TEST_F(PlotTest, ListsTheAvailableMetrics) {
  const CliResult result = dtrain_.Run({"plot", "1", "--metric", "beauty"});
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err, HasSubstr("no metric 'beauty'; it has "));
}

TEST_F(PlotTest, RefusesAFileNameWithoutSvg) {
  const CliResult result = dtrain_.Run({"plot", "1", "--out", "a.gif"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("end in .svg"));
}

TEST_F(PlotTest, ReportsAnUnwritableFile) {
  const CliResult result = dtrain_.Run({"plot", "1", "--out", "no/a.svg"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("cannot write 'no/a.svg'"));
}

struct BadPlot {
  std::vector<std::string> arguments;
  std::string error;
};

class BadPlotTest : public testing::TestWithParam<BadPlot> {};

TEST_P(BadPlotTest, IsRefused) {
  const CliRunner dtrain;
  FillSampleStore(dtrain.store());
  std::vector<std::string> arguments = {"plot", "1"};
  arguments.insert(arguments.end(), GetParam().arguments.begin(),
                   GetParam().arguments.end());
  const CliResult result = dtrain.Run(arguments);
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, HasSubstr(GetParam().error));
}

INSTANTIATE_TEST_SUITE_P(
    Options, BadPlotTest,
    testing::Values(
        BadPlot{{"--smooth", "1"}, "--smooth: expected a number of at least 0"},
        BadPlot{{"--smooth", "-0.1"}, "less than 1, such as 0.9, got '-0.1'"},
        BadPlot{{"--smooth", "nan"}, "got 'nan'"},
        BadPlot{{"--smooth", "0.5x"}, "got '0.5x'"},
        BadPlot{{"--y", "3"}, "--y: expected two numbers LOW:HIGH, LOW < HIGH"},
        BadPlot{{"--y", "3:2"}, "got '3:2'"},
        BadPlot{{"--y", "0:inf"}, "got '0:inf'"},
        BadPlot{{"--y", ":"}, "got ':'"},
        BadPlot{{"--y", "0:1", "--log-y"}, "two positive numbers LOW:HIGH"},
        BadPlot{{"--top", "-1"}, "--top"},
        BadPlot{{"--x", "day"}, "expected batches, epochs or time"}));

}  // namespace
}  // namespace dtrain
