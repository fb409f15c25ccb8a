#include "engine/config/metric_source.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/config/read_config.h"

namespace dtrain {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A configuration with this value of `metrics`.
class MetricSourceTest : public testing::Test {
 protected:
  ConfigResult Read(const std::string& metrics) const {
    return ReadConfig(
        "entrypoint: " + entrypoint_ + "\nmetrics: " + metrics +
            "\nsearcher: {name: single, metric: acc, max_length: {epochs: 3}}" +
            more_ + "\n",
        {.file_name = "f"});
  }
  std::vector<std::string> Errors(const std::string& metrics) const {
    std::vector<std::string> errors;
    for (const Diagnostic& finding : Read(metrics).diagnostics) {
      if (finding.severity == Severity::kError) {
        errors.push_back(finding.ToString());
      }
    }
    return errors;
  }

  std::string entrypoint_ = "python3 train.py";
  std::string more_;
};

TEST_F(MetricSourceTest, IsKeptByTheConfiguration) {
  const ConfigResult read = Read(
      "{acc: 'acc=(\\S+)', loss: '(?:loss|err) (\\S+)', step: 'e (\\d+)', "
      "first_step: 0}");
  ASSERT_TRUE(read.config.has_value());
  const MetricSource& source = *read.config->metrics;
  EXPECT_THAT(source.names,
              ElementsAre(std::pair<const std::string, std::string>(
                              "acc", "acc=(\\S+)"),
                          std::pair<const std::string, std::string>(
                              "loss", "(?:loss|err) (\\S+)")));
  EXPECT_EQ(source.step, "e (\\d+)");
  EXPECT_EQ(source.step_end, "");
  EXPECT_EQ(source.first_step, 0);
  const ConfigResult again = ReadConfig(ToYaml(read.config->effective), {});
  ASSERT_TRUE(again.config.has_value());
  EXPECT_EQ(again.config->effective, read.config->effective);
}

TEST_F(MetricSourceTest, IsMissingByDefault) {
  EXPECT_FALSE(Read("null").config->metrics.has_value());
  EXPECT_EQ(Read("null").config->effective.at("metrics"), nullptr);
}

TEST_F(MetricSourceTest, PlacesAnExpressionThatDoesNotCompile) {
  EXPECT_THAT(
      Errors("{acc: 'acc=([0-9+'}"),
      ElementsAre(AllOf(HasSubstr("f:2:16: metrics.acc: 'acc=([0-9+' is not a "
                                  "regular expression: missing ]: [0-9+"))));
}

TEST_F(MetricSourceTest, RequiresOneGroup) {
  EXPECT_THAT(Errors("{acc: 'acc=.*'}"),
              ElementsAre(HasSubstr("metrics.acc: 'acc=.*' has no group; put "
                                    "parentheses around the number")));
  EXPECT_THAT(Errors("{acc: '(acc|gain)=(.*)'}"),
              ElementsAre(HasSubstr("has 2 groups; write (?:...)")));
}

TEST_F(MetricSourceTest, RefusesOtherTypes) {
  EXPECT_THAT(Errors("[acc]"), ElementsAre(HasSubstr("expected a map")));
  EXPECT_THAT(Errors("{acc: 5}"),
              ElementsAre(HasSubstr("expected a regular expression")));
  EXPECT_THAT(Errors("{}"), ElementsAre(HasSubstr("names no metric")));
  EXPECT_THAT(Errors("{step: '(\\d)'}"),
              ElementsAre(HasSubstr("names no metric")));
  EXPECT_THAT(Errors("{acc: '" + std::string(1001, 'x') + "'}"),
              ElementsAre(HasSubstr("has 1001 bytes; use at most 1000")));
  EXPECT_THAT(Errors("{acc: '(.)', step: '(.)', first_step: 2}"),
              ElementsAre(HasSubstr("metrics.first_step: expected an integer "
                                    "from 0 to 1")));
}

TEST_F(MetricSourceTest, HasOneKindOfSteps) {
  EXPECT_THAT(Errors("{acc: '(.)', step: '(.)', step_end: '(.)'}"),
              ElementsAre(HasSubstr("metrics.step_end: cannot be combined")));
  EXPECT_THAT(Errors("{acc: '(.)', first_step: 0}"),
              ElementsAre(HasSubstr("metrics.first_step: only applies to")));
}

TEST_F(MetricSourceTest, FirstValueIsASetting) {
  EXPECT_TRUE(Read("{acc: '(.)', step: '(.)', first_value: true}")
                  .config->metrics->first_value);
  EXPECT_FALSE(Read("{acc: '(.)', step: '(.)', first_value: false}")
                   .config->metrics->first_value);
  EXPECT_TRUE(
      Read("{file: m.csv, first_value: true}").config->metrics->first_value);
  EXPECT_THAT(Errors("{acc: '(.)', step: '(.)', first_value: 'true'}"),
              ElementsAre(HasSubstr("metrics.first_value: expected true or "
                                    "false, got the string 'true'")));
  EXPECT_THAT(Errors("{acc: '(.)', first_value: true}"),
              ElementsAre(HasSubstr("metrics.first_value: only applies to "
                                    "metrics.step; add that")));
  EXPECT_THAT(Errors("{acc: '(.)', step_end: '(.)', first_value: true}"),
              ElementsAre(HasSubstr("metrics.step_end ends a step at once")));
}

// It was no setting in experiments that were recorded before.
TEST_F(MetricSourceTest, FirstValueWasTheNameOfAMetric) {
  const std::string metrics = "{acc: '(.)', first_value: 'first=(.)'}";
  EXPECT_THAT(Errors(metrics),
              ElementsAre(HasSubstr("a metric cannot have the name of this "
                                    "setting")));
  more_ = "\nrules: 1";
  EXPECT_THAT(Errors(metrics), IsEmpty());
  const MetricSource source = *Read(metrics).config->metrics;
  EXPECT_EQ(source.names.at("first_value"), "first=(.)");
  EXPECT_FALSE(source.first_value);
}

TEST_F(MetricSourceTest, HasTheMetricOfTheSearcher) {
  EXPECT_THAT(
      Errors("{acd: '(.)', loss: '(.)'}"),
      ElementsAre(AllOf(HasSubstr("f:3:34: searcher.metric: 'acc' is not among "
                                  "the keys of metrics, acd, loss"),
                        HasSubstr("did you mean 'acd'?"))));
}

TEST_F(MetricSourceTest, HasTheMetricOfEarlyStopping) {
  more_ = "\nearly_stopping: {metric: loss, patience: 3}";
  EXPECT_THAT(Errors("{acc: '(.)'}"),
              ElementsAre(HasSubstr("f:4:26: early_stopping.metric: 'loss' is "
                                    "not among the keys of metrics, acc; add "
                                    "it there")));
  EXPECT_THAT(Errors("{acc: '(.)', loss: '(.)'}"), IsEmpty());
}

TEST_F(MetricSourceTest, IsRefusedForAModel) {
  entrypoint_ = "digits:LeNetTrial";
  EXPECT_THAT(Errors("{acc: '(.)'}"),
              ElementsAre(HasSubstr("f:2:10: metrics: is for programs")));
}

TEST_F(MetricSourceTest, TakesColumnsOfAFile) {
  const ConfigResult read =
      Read("{file: '{directory}/out/m.csv', step: at, acc: 'eval(acc'}");
  ASSERT_TRUE(read.config.has_value());
  EXPECT_EQ(read.config->metrics->file, "out/m.csv");
  EXPECT_EQ(read.config->metrics->names.at("acc"), "eval(acc");
  EXPECT_THAT(Errors("{file: metrics.jsonl, first_step: 0}"), IsEmpty());
}

TEST_F(MetricSourceTest, TakesTagsOfEventFiles) {
  EXPECT_THAT(Errors("{tensorboard: runs, acc: val/acc, first_step: 0}"),
              IsEmpty());
  EXPECT_THAT(Errors("{tensorboard: runs}"),
              ElementsAre(HasSubstr("names no metric; add one, such as "
                                    "val_acc: val/acc")));
  EXPECT_THAT(Errors("{tensorboard: runs, acc: a, step: b}"),
              ElementsAre(HasSubstr("metrics.step: does not apply")));
}

TEST_F(MetricSourceTest, RefusesFilesThatTrialsShare) {
  for (const auto* path : {"/tmp/m.csv", "../m.csv", "a/../../m.jsonl"}) {
    EXPECT_THAT(Errors("{file: " + std::string(path) + "}"),
                ElementsAre(HasSubstr("so trials would share it")))
        << path;
  }
  EXPECT_THAT(Errors("{tensorboard: /tmp/runs, acc: a}"),
              ElementsAre(HasSubstr("so trials would share it")));
  EXPECT_THAT(Errors("{file: m.tsv}"),
              ElementsAre(HasSubstr("name a file of JSON lines, .jsonl, or "
                                    ".csv")));
  EXPECT_THAT(Errors("{file: m.csv, tensorboard: runs, acc: a}"),
              ElementsAre(HasSubstr("cannot be combined with metrics.file")));
  EXPECT_THAT(Errors("{file: m.csv, step_end: a}"),
              ElementsAre(HasSubstr("only applies to metrics in the output")));
}

}  // namespace
}  // namespace dtrain
