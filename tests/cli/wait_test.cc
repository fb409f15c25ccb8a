#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/run/runner_lock.h"
#include "engine/store/layout.h"
#include "tests/support/cli_runner.h"
#include "tests/support/sample_store.h"

namespace dtrain {
namespace {

using testing::HasSubstr;

class WaitTest : public testing::Test {
 protected:
  WaitTest() { FillSampleStore(dtrain_.store()); }

  CliRunner dtrain_;
};

TEST_F(WaitTest, SucceedsIfTheExperimentCompleted) {
  EXPECT_EQ(dtrain_.Run({"wait", "1"}).code, 0);
}

TEST_F(WaitTest, FailsIfTheExperimentFailed) {
  const CliResult result = dtrain_.Run({"wait", "1", "3"});
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.err,
            "dtrain: experiment 1: 1 of 2 trials failed\n"
            "dtrain: error: experiment 3 is ERROR: every trial failed\n");
}

TEST_F(WaitTest, SuggestsResumeIfTheRunnerDied) {
  const CliResult result = dtrain_.Run({"wait", "2"});
  EXPECT_EQ(result.code, 75);
  EXPECT_THAT(result.err, HasSubstr("dtrain resume 2"));
}

TEST_F(WaitTest, EvaluatesRequirements) {
  EXPECT_EQ(dtrain_.Run({"wait", "1", "--require", "accuracy>=0.75"}).code, 0);
  const CliResult unmet = dtrain_.Run(
      {"wait", "1", "--require", "loss<0.3 and accuracy>0.9", "--json"});
  EXPECT_EQ(unmet.code, 4);
  EXPECT_EQ(unmet.err,
            "dtrain: error: experiment 1: requirement not met: accuracy>0.9 "
            "(actual: 0.75)\n"
            "dtrain: experiment 1: 1 of 2 trials failed\n");
  const auto checks = unmet.Json()["experiments"][0]["requirements"];
  EXPECT_EQ(checks[0]["met"], true);
  EXPECT_EQ(checks[1]["met"], false);
  EXPECT_EQ(checks[1]["actual"], 0.75);
}

TEST_F(WaitTest, ActualIsNullWithoutAReport) {
  const CliResult result = dtrain_.Run(
      {"wait", "1", "--require", "acc>0 and state==COMPLETED", "--json"});
  const auto checks = result.Json()["experiments"][0]["requirements"];
  EXPECT_EQ(checks[0]["actual"], nullptr);
  EXPECT_THAT(checks[0]["reason"].get<std::string>(),
              HasSubstr("not reported by the best trial"));
  EXPECT_EQ(checks[1]["actual"], "COMPLETED");
}

TEST_F(WaitTest, WritesReportsOfSeveralExperiments) {
  const CliResult result = dtrain_.Run(
      {"wait", "1", "3", "--junit", "r.xml", "--annotate", "github"},
      {.environment = {{"GITHUB_STEP_SUMMARY", "summary.md"}}});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("::error title=experiment 3 "));
  const CliResult read =
      dtrain_.RunProgram({"python3", "-c",
                          "import xml.etree.ElementTree as t;"
                          "print(len(t.parse('r.xml').getroot()))"});
  EXPECT_EQ(read.out, "2\n") << read.err;
  EXPECT_THAT(dtrain_.RunProgram({"cat", "summary.md"}).out,
              HasSubstr("### dtrain: experiment 3 "));
}

// Failed before a requirement that is not met before what can be resumed.
TEST_F(WaitTest, ExitCodeIsOfTheWorstExperiment) {
  const auto code = [this](std::vector<std::string> ids,
                           const std::string& requirement) {
    ids.insert(ids.begin(), "wait");
    ids.insert(ids.end(), {"--require", requirement});
    return dtrain_.Run(ids).code;
  };

  EXPECT_EQ(code({"1", "2"}, "loss<1"), 4) << "2 has reported none";
  EXPECT_EQ(code({"1", "2"}, "state!=DONE"), 2);
  EXPECT_EQ(code({"1", "2"}, "state!=CANCELED"), 75);
  EXPECT_EQ(code({"2", "1"}, "state!=CANCELED"), 75);
  EXPECT_EQ(code({"1", "2"}, "state!=COMPLETED"), 4);
  EXPECT_EQ(code({"2", "1"}, "state!=COMPLETED"), 4);
  EXPECT_EQ(code({"1", "3"}, "state!=COMPLETED"), 1);
  EXPECT_EQ(code({"3", "1"}, "state!=COMPLETED"), 1);
  EXPECT_EQ(code({"2", "3"}, "state!=CANCELED"), 1);
  EXPECT_EQ(code({"3"}, "state!=ERROR"), 1);
}

TEST_F(WaitTest, RequirementsApplyToTheBestTrial) {
  AddAccuracySearch(dtrain_.store());
  EXPECT_EQ(
      dtrain_.Run({"wait", "4", "--require", "accuracy==0.9 and speed==2050"})
          .code,
      0);
}

TEST_F(WaitTest, TakesConditionsOfTheWholeLanguage) {
  const auto code = [this](const std::string& requirement) {
    return dtrain_.Run({"wait", "1", "--require", requirement}).code;
  };
  EXPECT_EQ(code("loss > 1 or accuracy > 0.7"), 0);
  EXPECT_EQ(code("not (loss > 1 or accuracy > 0.8) and state in (COMPLETED)"),
            0);
  EXPECT_EQ(code("hp.lr == 0.25 and min(loss) < 0.3 and at(loss,100) < 0.3"),
            0);
  EXPECT_EQ(code("last(loss) is null"), 0);
  EXPECT_EQ(code("max(loss) > 0.3"), 4);
  EXPECT_EQ(code("spark(loss) is null"), 2);
}

// A name that is mistyped must not meet a requirement, whatever is around it.
TEST_F(WaitTest, MeetsNoConditionThatDependsOnAnUnreportedMetric) {
  const auto code = [this](const std::string& requirement) {
    return dtrain_.Run({"wait", "1", "--require", requirement}).code;
  };
  EXPECT_EQ(code("not los > 1"), 4);
  EXPECT_EQ(code("los != 1"), 4);
  EXPECT_EQ(code("min(los) < 1"), 4);
  EXPECT_EQ(code("hp.no != 1"), 4);
  EXPECT_EQ(code("los > 1 or loss < 1"), 0);
  EXPECT_EQ(code("los is null"), 0);
  EXPECT_EQ(
      dtrain_.Run({"wait", "1", "--require", "los > 1 or accuracy > 1"}).err,
      "dtrain: error: experiment 1: requirement not met: los > 1 or accuracy > "
      "1 (actual: accuracy 0.75, los not reported by the best trial; reported: "
      "accuracy, loss)\n"
      "dtrain: experiment 1: 1 of 2 trials failed\n");
}

TEST_F(WaitTest, ListsTheReportedMetricsIfOneIsMissing) {
  const CliResult result = dtrain_.Run({"wait", "1", "--require", "acc>0"});
  EXPECT_EQ(result.code, 4);
  EXPECT_THAT(result.err, HasSubstr("reported: accuracy, loss"));
}

TEST_F(WaitTest, RefusesInvalidRequirements) {
  EXPECT_EQ(dtrain_.Run({"wait", "1", "--require", "accuracy"}).code, 2);
  EXPECT_EQ(dtrain_.Run({"wait", "1", "--require", "state==DONE"}).code, 2);
  EXPECT_EQ(dtrain_.Run({"wait", "1", "--require", "loss==low"}).code, 2);
}

TEST_F(WaitTest, TimesOut) {
  const RunnerLock runner =
      RunnerLock::Take(StoreLayout(dtrain_.store()).RunnerLock(2));
  const CliResult result = dtrain_.Run({"wait", "2", "--timeout", "250ms"});
  EXPECT_EQ(result.code, 124);
  EXPECT_THAT(result.err, HasSubstr("not finished after"));
}

// A runner that has just recorded its experiment has not locked it yet.
TEST_F(WaitTest, WaitsBeforeItReportsAMissingRunner) {
  EXPECT_EQ(dtrain_.Run({"wait", "2", "--timeout", "500ms"}).code, 124);
}

TEST_F(WaitTest, DoesNotResumeARunningExperiment) {
  const RunnerLock runner =
      RunnerLock::Take(StoreLayout(dtrain_.store()).RunnerLock(2));
  EXPECT_EQ(dtrain_.Run({"list", "--state", "RUNNING", "--json"})
                .Json()["experiments"]
                .size(),
            1);
}

TEST_F(WaitTest, DoesNotResumeAFinalExperiment) {
  const CliResult completed = dtrain_.Run({"resume", "1"});
  EXPECT_THAT(completed.err, HasSubstr("already COMPLETED"));
  EXPECT_EQ(dtrain_.Run({"resume", "3"}).code, 1);
}

}  // namespace
}  // namespace dtrain
