// plot on a recorded store. Experiment 4 is that of AddAccuracySearch: accuracy
// at 50 and 100 batches of three trials, 4.2 the best of them.

#include <cmath>
#include <fstream>
#include <iterator>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/config/read_config.h"
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
  EXPECT_THAT(utf8.out, HasSubstr("⠤A⠤  4.2 accuracy\n"));
  const CliResult ascii =
      dtrain_.Run({"plot", "4"}, {.environment = {{"LC_ALL", "C"}}});
  EXPECT_THAT(ascii.out, Not(testing::ContainsRegex("[\x80-\xff]")));
}

TEST_F(PlotTest, DrawsOnlyTrialsThatMatch) {
  const CliResult result = dtrain_.Run({"plot", "4", "--filter", "number!=2"});
  EXPECT_THAT(result.out, HasSubstr("4, delta: accuracy, 2 of 3 trials match"));
  EXPECT_THAT(result.out, HasSubstr("  A  4.3 accuracy\n"));
  EXPECT_THAT(result.out, Not(HasSubstr("4.2 accuracy")));
  EXPECT_EQ(result.err, "dtrain: note: 2 of 3 trials match number!=2\n");
  // The values of the others end at 0.6.
  EXPECT_THAT(Svg({"4", "--kind", "history"}), HasSubstr(">0.8</text>"));
  const std::string history =
      Svg({"4", "--kind", "history", "--filter", "number!=2"});
  EXPECT_THAT(history, HasSubstr(", 2 of 3 trials match</text>"));
  EXPECT_THAT(history, Not(HasSubstr(">0.8</text>")));
  for (const std::string kind : {"edf", "rungs", "timeline"}) {
    EXPECT_THAT(Svg({"4", "--kind", kind, "--filter", "number!=2"}),
                HasSubstr("2 of 3 trials match"));
  }
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

TEST_F(PlotTest, DrawsSeveralExperimentsAndTrials) {
  const CliResult result =
      dtrain_.Run({"plot", "4.2", "1.1", "--metric", "accuracy"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("experiments 4, 1: accuracy\n"));
  EXPECT_THAT(result.out, HasSubstr("  4.2 accuracy\n"));
  EXPECT_THAT(result.out, HasSubstr("  1.1 accuracy\n"));
  EXPECT_THAT(result.out, Not(HasSubstr("4.1 accuracy")));
}

TEST_F(PlotTest, DrawsASvgFileOfAChosenSize) {
  const std::string svg =
      Svg({"4", "--width", "340", "--height", "240", "--font-size", "9",
           "--title", "Rates <of> a search", "--group", "hp.lr"});
  EXPECT_THAT(svg, HasSubstr("width=\"340.0\" height=\"240.0\""));
  EXPECT_THAT(svg, HasSubstr("viewBox=\"0 0 491.1 346.7\""));
  EXPECT_THAT(svg, HasSubstr(">Rates &lt;of&gt; a search</text>"));
  EXPECT_THAT(svg, HasSubstr("fill-opacity=\"0.2\""));
  EXPECT_THAT(dtrain_.Run({"plot", "4", "--title", "Mine"}).out,
              testing::StartsWith("Mine\n"));
}

TEST_F(PlotTest, RejectsSizesWithoutAFileOrSpace) {
  const CliResult without = dtrain_.Run({"plot", "4", "--width", "340"});
  EXPECT_EQ(without.code, 2);
  EXPECT_THAT(without.err, HasSubstr("--width needs --out FILE.svg"));
  const CliResult narrow = dtrain_.Run(
      {"plot", "4", "--width", "340", "--font-size", "13", "--out", "a.svg"});
  EXPECT_EQ(narrow.code, 2);
  EXPECT_THAT(narrow.err, HasSubstr("--width: expected at least 364 for this "
                                    "font size, got 340"));
  EXPECT_THAT(
      dtrain_.Run({"plot", "4", "--height", "30000", "--out", "a.svg"}).err,
      HasSubstr("--height: expected at most 20000 pixels"));
}

TEST_F(PlotTest, ColorsTrialsByGroup) {
  const CliResult result = dtrain_.Run({"plot", "4", "--group", "hp.lr"});
  EXPECT_THAT(result.out,
              HasSubstr("experiment 4, delta: accuracy, by lr (mean and "
                        "standard deviation)\n"));
  EXPECT_THAT(result.out, HasSubstr("  A  lr=0.5 (3 trials)\n"));
  const CliResult history =
      dtrain_.Run({"plot", "4", "--kind", "history", "--group", "hp.lr"});
  EXPECT_THAT(history.out, HasSubstr("best accuracy so far, by lr\n"));
}

TEST_F(PlotTest, DrawsTheHistory) {
  // The three trials have 50 batches each at 0.5, 0.9 and 0.1, then 100 each at
  // 0.25, 0.75 and 0.6, all within 50 µs: the best is 0.9 from 100 of 300 on.
  const std::string svg = Svg({"4", "--kind", "history", "--y", "0:1"});
  EXPECT_THAT(svg, HasSubstr(">batches of all trials together</text>"));
  EXPECT_THAT(svg, HasSubstr(">3 trials at their best validation</text>"));
  EXPECT_THAT(svg, HasSubstr("M102.6 262.5L253.6 262.5L253.6 84.5L857.4 84.5"));
  const CliResult text =
      dtrain_.Run({"plot", "4", "--kind", "history", "--x", "trials"});
  EXPECT_THAT(text.out, HasSubstr("best accuracy so far\n"));
  EXPECT_THAT(text.out, HasSubstr("trials validated so far\n"));
}

TEST_F(PlotTest, DrawsTheDistribution) {
  // Best values 0.5, 0.6 and 0.9.
  EXPECT_THAT(Svg({"4", "--kind", "edf"}),
              HasSubstr("d=\"M80.0 485.0L80.0 336.7L280.0 336.7L280.0 188.3"
                        "L880.0 188.3L880.0 40.0\""));
  EXPECT_THAT(dtrain_.Run({"plot", "4", "--kind", "edf", "--at", "50"}).out,
              HasSubstr("delta: distribution of accuracy at 50 batches\n"));
}

TEST_F(PlotTest, DrawsTheParetoFront) {
  const std::vector<std::string> arguments = {
      "4", "--kind", "pareto", "--metric", "accuracy", "--metric", "speed:max"};
  // Accuracy and speed at the best validations: 4.1 0.5 and 1050, 4.2 0.9 and
  // 2050, 4.3 0.6 and 3100. 4.2 dominates 4.1.
  const std::string svg = Svg(arguments);
  EXPECT_THAT(svg,
              HasSubstr("Pareto front of accuracy and speed, 2 of 3 trials"));
  EXPECT_THAT(svg, HasSubstr(">4.3 accuracy 0.6, speed 3100</text>"));
  EXPECT_THAT(svg, HasSubstr(">4.2 accuracy 0.9, speed 2050</text>"));
  EXPECT_THAT(svg, HasSubstr("d=\"M291.3 52.6h.1\""));
  std::vector<std::string> in_text = {"plot"};
  in_text.insert(in_text.end(), arguments.begin(), arguments.end());
  EXPECT_THAT(dtrain_.Run(in_text).out,
              HasSubstr("  A  4.3 accuracy 0.6, speed 3100\n"));
}

TEST_F(PlotTest, DrawsParallelCoordinates) {
  // lr is 0.5 of 0 to 1; accuracy from 0.5 to 0.9.
  const std::string svg = Svg({"4", "--kind", "parallel"});
  EXPECT_THAT(svg, HasSubstr("d=\"M265.0 270.0L675.0 55.0\""));  // 4.2
  const CliResult text = dtrain_.Run({"plot", "4", "--kind", "parallel"});
  EXPECT_THAT(text.out, HasSubstr("  1  lr: 0, 1 (from the bottom)\n"));
  EXPECT_THAT(text.out,
              HasSubstr("  2  accuracy: 0.5, 0.9 (from the bottom)\n"));
}

TEST_F(PlotTest, DrawsSlices) {
  EXPECT_THAT(Svg({"4", "--kind", "slice", "--y", "0:1"}),
              HasSubstr("d=\"M480.0 104.3h.1\""));  // 0.5 and 0.9
  EXPECT_THAT(dtrain_.Run({"plot", "4", "--kind", "slice"}).out,
              HasSubstr("  A  4.2 accuracy 0.9\n"));
}

TEST_F(PlotTest, DrawsTheTimeline) {
  const CliResult text = dtrain_.Run({"plot", "4", "--kind", "timeline"});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("delta: runs of trials at the same time"));
  EXPECT_THAT(Svg({"4", "--kind", "timeline"}),
              HasSubstr(">of 3 trials that are COMPLETED</text>"));
}

TEST_F(PlotTest, DrawsTheRungs) {
  const CliResult text = dtrain_.Run({"plot", "4", "--kind", "rungs"});
  EXPECT_THAT(text.out, HasSubstr("created +"));
  EXPECT_THAT(text.out, HasSubstr("delta: trials by completed rung, 3 trials"));
  EXPECT_THAT(Svg({"4", "--kind", "rungs"}), HasSubstr(">created</text>"));
}

TEST_F(PlotTest, SaysThatThereAreTooFewTrialsForImportance) {
  const CliResult text = dtrain_.Run({"plot", "4", "--kind", "importance"});
  EXPECT_EQ(text.code, 0);
  EXPECT_THAT(text.out, HasSubstr("importance needs 10"));
}

// Experiment 5: twelve trials with loss x, and a name that is not for every
// page.
class SpacePlotTest : public PlotTest {
 protected:
  SpacePlotTest() {
    const ConfigResult config = ReadConfig(
        "name: '</script><img onerror=x>'\n"
        "entrypoint: builtin:FaultTrial\n"
        "hyperparameters:\n"
        "  x: {type: double, minval: 0, maxval: 11}\n"
        "  y: {type: categorical, vals: [a, b]}\n"
        "searcher: {name: random, metric: loss, max_length: 10, max_trials: "
        "12}\n",
        {.file_name = "space.yaml"});
    Store::OpenForWriting(StoreLayout(dtrain_.store()))
        .Write([&](StoreWriter& w) {
          const std::int64_t id =
              w.AddExperiment({.name = "</script><img onerror=x>",
                               .searcher = "random",
                               .metric = "loss",
                               .config = config.config.value().effective,
                               .created = Timestamp(1)});
          for (std::int64_t i = 0; i < 12; ++i) {
            const TrialId trial{id, i + 1};
            const auto x = static_cast<double>(i);
            w.AddTrial({.id = trial,
                        .request_id = "r",
                        .hparams = {{"x", x}, {"y", i % 2 == 0 ? "a" : "b"}},
                        .created = Timestamp(1)});
            w.AddMetrics(trial, MetricKind::kValidation, 10, 1, {{"loss", x}},
                         Timestamp(i));
            w.AddValidation(trial, x, 10, /*smaller_is_better=*/true);
          }
        });
  }
};

TEST_F(SpacePlotTest, DrawsOutliersAsArrowsUnlessAsked) {
  Store::OpenForWriting(StoreLayout(dtrain_.store())).Write([](StoreWriter& w) {
    w.AddMetrics({5, 12}, MetricKind::kValidation, 20, 1, {{"loss", 1e9}},
                 Timestamp(99));
  });
  const CliResult cut =
      dtrain_.Run({"plot", "5", "--kind", "edf", "--at", "last"});
  EXPECT_THAT(cut.err, HasSubstr("1 trial has values beyond the axis"));
  EXPECT_THAT(cut.out, HasSubstr(">"));
  const CliResult whole =
      dtrain_.Run({"plot", "5", "--kind", "edf", "--at", "last", "--outliers"});
  EXPECT_THAT(whole.err, Not(HasSubstr("beyond")));
}

TEST_F(SpacePlotTest, DrawsTheImportance) {
  const CliResult text = dtrain_.Run({"plot", "5", "--kind", "importance"});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("x +////"));
  EXPECT_THAT(text.out, HasSubstr("), correlation 1.00\n"));
  const std::string svg = Svg({"5", "--kind", "importance"});
  EXPECT_THAT(svg, HasSubstr(">x</text>"));
  EXPECT_THAT(svg, Not(HasSubstr("<img")));
}

TEST_F(SpacePlotTest, DrawsTheContour) {
  const CliResult text = dtrain_.Run({"plot", "5", "--kind", "contour"});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("    worst .:-=+*%@ best\n"));
  EXPECT_THAT(text.out, HasSubstr("  A  5.1 loss 0\n"));
  // 5.1 is at x = 0 and a, the lower of the two.
  EXPECT_THAT(
      Svg({"5", "--kind", "contour", "--hparam", "hp.x", "--hparam", "y"}),
      HasSubstr("d=\"M80.0 373.8h.1\""));
}

TEST_F(SpacePlotTest, ShowsTheNamedHyperparameters) {
  const CliResult result =
      dtrain_.Run({"plot", "5", "--kind", "slice", "--hparam", "x"});
  EXPECT_THAT(result.out, HasSubstr("1 of 2 hyperparameters"));
}

TEST_F(PlotTest, NamesWhatIsNotFound) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"9"}, "no experiment 9"},
      {{"4", "--kind", "history", "--metric", "beauty:min"},
       "has no validation metric 'beauty'; it has accuracy, speed"},
      {{"4", "--kind", "slice", "--hparam", "beauty"},
       "--hparam: 'beauty' is not searched; searched are lr"}};
  for (const auto& [arguments, error] : cases) {
    std::vector<std::string> all = {"plot"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    const CliResult result = dtrain_.Run(all);
    EXPECT_EQ(result.code, 3);
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err, HasSubstr(error));
  }
}

TEST_F(PlotTest, WarnsOfExperimentsWithoutTheMetric) {
  const CliResult result =
      dtrain_.Run({"plot", "4", "1", "--kind", "edf", "--metric", "speed:max"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err,
              HasSubstr("note: experiment 1 was searched for the smallest "
                        "loss, experiment 4 for the largest accuracy\n"));
  EXPECT_THAT(result.err, HasSubstr("note: experiment 1 has no validation "
                                    "metric 'speed'\n"));
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
        BadPlot{{"--x", "day"}, "expected batches, epochs, time or trials"},
        BadPlot{{"--x", "trials"}, "--x trials needs --kind history"},
        BadPlot{{"--kind", "pie"}, "expected curves, history, importance"},
        BadPlot{{"--kind", "rungs", "--metric", "loss"},
                "--metric cannot be used with --kind rungs"},
        BadPlot{{"--kind", "edf", "--smooth", "0.5"},
                "--smooth cannot be used with --kind edf"},
        BadPlot{{"--hparam", "lr"},
                "--hparam cannot be used with --kind curves"},
        BadPlot{{"--at", "best"}, "--at cannot be used with --kind curves"},
        BadPlot{{"--kind", "edf", "--at", "soon"}, "--at: expected best, last"},
        BadPlot{{"--group", "lr"}, "--group: expected hp.NAME"},
        BadPlot{{"--group", "hp.lr", "--top", "3"},
                "--top cannot be combined with --group"},
        BadPlot{{"--kind", "history", "--metric", "loss", "--metric", "acc"},
                "--kind history takes one --metric"},
        BadPlot{{"--kind", "pareto"}, "--kind pareto needs two metrics"},
        BadPlot{{"--kind", "pareto", "--metric", "loss", "--metric", "acc"},
                "write acc:min or acc:max"},
        BadPlot{{"--kind", "contour", "--hparam", "lr"},
                "needs two --hparam or none, got 1"},
        BadPlot{{"1.1"}, "'1.1' is named twice"},
        BadPlot{{"2.1", "--kind", "edf"}, "'2.1' is a trial"}));

}  // namespace
}  // namespace dtrain
