#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/os/files.h"
#include "engine/os/process.h"
#include "engine/run/runner_lock.h"
#include "engine/store/store.h"
#include "tests/support/cli_runner.h"
#include "tests/support/sample_store.h"

namespace dtrain {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class WaitTest : public testing::Test {
 protected:
  WaitTest() { FillSampleStore(dtrain_.store()); }

  // Adds an experiment in this state with a trial in each of the states, which
  // has a reason where it did not complete. Returns its ID.
  std::int64_t Add(State state, const std::vector<State>& trials,
                   const std::string& error = "") {
    Store store = Store::OpenForWriting(StoreLayout(dtrain_.store()));
    const nlohmann::json config = store.Experiment(1)->config;
    std::int64_t id = 0;
    store.Write([&](StoreWriter& writer) {
      id = writer.AddExperiment({.name = "ends",
                                 .searcher = "random",
                                 .metric = "loss",
                                 .config = config,
                                 .created = Timestamp(1'000'000)});
      writer.SetExperimentState(id, State::kRunning, Timestamp(62'000'000));
      writer.AddExperimentSeconds(id, 12.5);
      for (std::size_t i = 0; i < trials.size(); ++i) {
        const TrialId trial{id, static_cast<std::int64_t>(i) + 1};
        writer.AddTrial({.id = trial,
                         .request_id = "request",
                         .hparams = {{"lr", 0.5}},
                         .created = Timestamp(1'000'000)});
        writer.SetTrialState(trial, State::kRunning, Timestamp(62'000'000));
        writer.AddTrialSeconds(trial, 1.25 * static_cast<double>(trial.number));
        writer.AddValidation(trial, 0.5, 100, /*smaller_is_better=*/true);
        writer.SetTrialState(trial, trials[i], Timestamp(70'000'000),
                             trials[i] == State::kInvalid
                                 ? "invalid hyperparameters: wide"
                             : trials[i] == State::kCompleted ? ""
                                                              : "because");
      }
      writer.SetExperimentState(id, state, Timestamp(70'000'000), error);
    });
    return id;
  }
  // Waits for the experiment and returns its report.
  std::string Junit(std::int64_t id,
                    const std::vector<std::string>& more = {}) {
    std::vector<std::string> words = {"wait", std::to_string(id), "--junit",
                                      "r.xml"};
    words.insert(words.end(), more.begin(), more.end());
    static_cast<void>(dtrain_.Run(words));
    return ReadFile(dtrain_.directory() / "r.xml").value_or("");
  }

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

TEST_F(WaitTest, EachFieldOfAJunitReportIsThatOfTheRecord) {
  const std::int64_t id = Add(
      State::kCompleted, {State::kCompleted, State::kStopped, State::kError,
                          State::kInvalid, State::kCanceled, State::kPaused});
  std::string cases;
  const std::pair<const char*, const char*> ends[] = {
      {"1.250", ""},
      {"2.500", ""},
      {"3.750", "      <failure message=\"ERROR: because\"/>\n"},
      {"5.000",
       "      <skipped message=\"INVALID: invalid hyperparameters: "
       "wide\"/>\n"},
      {"6.250", "      <skipped message=\"CANCELED: because\"/>\n"},
      {"7.500", "      <skipped message=\"PAUSED: because\"/>\n"}};
  for (std::size_t i = 0; i < std::size(ends); ++i) {
    cases += "    <testcase name=\"trial 4." + std::to_string(i + 1) +
             "\" classname=\"ends\" time=\"" + ends[i].first + "\">\n" +
             ends[i].second +
             "      <system-out>lr=0.5&#10;loss 0.5 at batch 100"
             "</system-out>\n    </testcase>\n";
  }
  const std::string numbers =
      " tests=\"8\" failures=\"2\" errors=\"0\" skipped=\"3\" "
      "time=\"12.500\"";
  EXPECT_EQ(Junit(id, {"--require", "loss<0.5", "--require", "trials==6"}),
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites" +
                numbers + ">\n  <testsuite name=\"ends\"" + numbers +
                " timestamp=\"1970-01-01T00:01:02\" hostname=\"" + HostName() +
                "\">\n" + cases +
                "    <testcase name=\"requirement loss&lt;0.5\" "
                "classname=\"ends\" time=\"0.000\">\n"
                "      <failure message=\"actual: 0.5\"/>\n"
                "    </testcase>\n"
                "    <testcase name=\"requirement trials==6\" "
                "classname=\"ends\" time=\"0.000\">\n    </testcase>\n"
                "  </testsuite>\n</testsuites>\n");
}

// No report without a failure may be that of an experiment that failed.
TEST_F(WaitTest, JunitReportAndExitCodeFollowTheState) {
  struct Row {
    State state;
    std::vector<State> trials;
    std::string error;
    int code;
    std::string failure;  // of the case of the experiment; empty: none
  };
  const std::vector<Row> rows = {
      {State::kCompleted, {State::kCompleted}, "", 0, ""},
      {State::kCanceled, {State::kCompleted}, "", 1, "CANCELED"},
      {State::kCanceled, {State::kCanceled}, "", 1, "CANCELED"},
      {State::kCanceled, {}, "", 1, "CANCELED"},
      {State::kError, {State::kCompleted}, "no slots", 1, "ERROR: no slots"},
      {State::kError, {}, "no slots", 1, "ERROR: no slots"},
      {State::kError, {State::kInvalid}, "none", 1, "ERROR: none"},
      {State::kPaused, {State::kPaused}, "", 75, ""}};
  for (const Row& row : rows) {
    const std::int64_t id = Add(row.state, row.trials, row.error);
    SCOPED_TRACE(std::string(StateName(row.state)) + " " + std::to_string(id));
    const std::string text = Junit(id);
    const std::string name = "name=\"experiment " + std::to_string(id) + "\"";
    EXPECT_EQ(dtrain_.Run({"wait", std::to_string(id)}).code, row.code);
    if (row.failure.empty()) {
      EXPECT_THAT(text, HasSubstr(" failures=\"0\""));
      EXPECT_THAT(text, Not(HasSubstr(name)));
    } else {
      EXPECT_THAT(text, HasSubstr(" failures=\"1\""));
      EXPECT_THAT(text, HasSubstr(name +
                                  " classname=\"ends\" time=\"0.000\""
                                  ">\n      <failure message=\"" +
                                  row.failure + "\"/>"));
    }
  }
  // The trial that failed is the failure.
  const std::string text =
      Junit(Add(State::kError, {State::kError}, "every trial failed"));
  EXPECT_THAT(text, HasSubstr(" failures=\"1\""));
  EXPECT_THAT(text, Not(HasSubstr("name=\"experiment ")));
}

TEST_F(WaitTest, GithubGetsEachFailureAndASummary) {
  const std::int64_t id =
      Add(State::kError, {State::kCompleted, State::kError}, "50%, at a|b`c");
  dtrain_.Write("summary.md", "of an earlier step\n");
  const CliResult result =
      dtrain_.Run({"wait", std::to_string(id), "--annotate", "github"},
                  {.environment = {{"GITHUB_STEP_SUMMARY", "summary.md"}}});
  EXPECT_THAT(result.err,
              HasSubstr("::error title=experiment 4 'ends'::trial 4.2: ERROR: "
                        "because\n"));
  EXPECT_EQ(ReadFile(dtrain_.directory() / "summary.md"),
            "of an earlier step\n"
            "### dtrain: experiment 4 `ends` is ERROR\n\n"
            "`50%, at a/b'c`\n\n"
            "Best: trial 4.1, `loss 0.5 at batch 100`\n\n"
            "| | |\n|---|---|\n"
            "| `trial 4.1` | `COMPLETED` |\n"
            "| `trial 4.2` | **failed** `ERROR: because` |\n\n");
  EXPECT_THAT(
      dtrain_
          .Run({"wait", std::to_string(id), "--annotate", "github"},
               {.environment = {{"GITHUB_STEP_SUMMARY", "no/such"}}})
          .err,
      HasSubstr("warning: GITHUB_STEP_SUMMARY: cannot write to 'no/such'"));
}

// Names of experiments may be anything.
TEST_F(WaitTest, AnnotationsEscapeWhatGithubWouldParse) {
  const CliResult result = dtrain_.Run(
      {"wait", "1", "--require", "loss<0.1", "--annotate", "github"});
  EXPECT_THAT(result.err,
              HasSubstr("::error title=experiment 1 'alpha'::requirement "
                        "loss<0.1: actual: 0.25\n"));
  {
    Store store = Store::OpenForWriting(StoreLayout(dtrain_.store()));
    store.Write([&](StoreWriter& writer) {
      const std::int64_t id =
          writer.AddExperiment({.name = "a:b,c%d\ne",
                                .searcher = "random",
                                .metric = "loss",
                                .config = store.Experiment(1)->config});
      writer.SetExperimentState(id, State::kError, Timestamp(1), "50%\nof it");
    });
  }
  EXPECT_THAT(dtrain_.Run({"wait", "4", "--annotate", "github"}).err,
              HasSubstr("::error title=experiment 4 'a%3Ab%2Cc%25d%0Ae'::"
                        "experiment 4: ERROR: 50%25"));
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

TEST_F(WaitTest, TimesOut) {
  const RunnerLock runner =
      RunnerLock::Acquire(StoreLayout(dtrain_.store()).RunnerLock(2));
  const CliResult result = dtrain_.Run({"wait", "2", "--timeout", "250ms"});
  EXPECT_EQ(result.code, 124);
  EXPECT_THAT(result.err, HasSubstr("not finished after"));
  const auto document =
      dtrain_.Run({"wait", "2", "--timeout", "1ms", "--json"}).Json();
  EXPECT_EQ(document["experiments"][0]["id"], 2);
}

// A runner that has just recorded its experiment has not locked it yet, so an
// experiment without a runner is settled after a second.
TEST_F(WaitTest, WaitsUntilItsTimeoutAndNotLess) {
  const std::pair<const char*, int> rows[] = {
      {"0", 124}, {"500ms", 124}, {"90", 75}};
  for (const auto& [timeout, code] : rows) {
    EXPECT_EQ(dtrain_.Run({"wait", "2", "--timeout", timeout}).code, code)
        << timeout;
  }
}

TEST_F(WaitTest, LateReportIsAnErrorWithItsReason) {
  const RunnerLock runner =
      RunnerLock::Acquire(StoreLayout(dtrain_.store()).RunnerLock(2));
  EXPECT_THAT(Junit(2, {"--timeout", "1ms"}),
              AllOf(HasSubstr("<testsuite name=\"wait\" tests=\"1\" "
                              "failures=\"0\" errors=\"1\""),
                    HasSubstr("<error message=\"not finished after 0.0s")));
  EXPECT_THAT(Junit(9),
              AllOf(HasSubstr(" errors=\"1\""),
                    HasSubstr("<error message=\"no experiment 9 in")));
}

TEST_F(WaitTest, DoesNotResumeARunningExperiment) {
  const RunnerLock runner =
      RunnerLock::Acquire(StoreLayout(dtrain_.store()).RunnerLock(2));
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
