// Ctrl-C, dead runners, and going on.

#include <csignal>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/run/runner_lock.h"
#include "engine/store/layout.h"
#include "engine/store/store.h"
#include "tests/support/cli_runner.h"
#include "tests/support/fault_yaml.h"
#include "tests/support/sample_store.h"

namespace dtrain {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class ResumeTest : public testing::Test {
 protected:
  // About four seconds of training, stopped by `signal` at its first report.
  CliResult CreateAndSignal(int signal) const {
    dtrain_.Write("fault.yaml", FaultYaml("step_ms: 10, x: 0.3", 400));
    return dtrain_.Run(
        {"create", "fault.yaml"},
        {.signal_when = "validation at batch 20", .signal = signal});
  }
  void ExpectGoesOnToTheSameEnd() const {
    const CliResult result = dtrain_.Run({"resume", "1", "--json"});
    ASSERT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(result.Json()["state"], "COMPLETED");
    EXPECT_DOUBLE_EQ(result.Json()["best"]["value"], 1.0 / 5);
    const json trial = dtrain_.Run({"trials", "1", "--json"}).Json();
    EXPECT_EQ(trial["trials"][0]["restarts"], 0);
    EXPECT_EQ(trial["trials"][0]["runs"], 2);
  }

  CliRunner dtrain_;
};

TEST_F(ResumeTest, PausesAtCtrlCAndSuggestsResume) {
  const CliResult result = CreateAndSignal(SIGINT);
  EXPECT_EQ(result.code, 130) << result.err;
  EXPECT_THAT(result.err, HasSubstr("resume with: dtrain resume 1\n"));
  const json row = dtrain_.Run({"list", "--json"}).Json()["experiments"][0];
  EXPECT_EQ(row["state"], "PAUSED");
  ExpectGoesOnToTheSameEnd();
}

TEST_F(ResumeTest, PausesAtSigtermAndSighup) {
  EXPECT_EQ(CreateAndSignal(SIGTERM).code, 143);
  EXPECT_EQ(CreateAndSignal(SIGHUP).code, 129);
}

TEST_F(ResumeTest, ResumesAfterTheRunnerWasKilled) {
  EXPECT_EQ(CreateAndSignal(SIGKILL).code, 137);
  const json row = dtrain_.Run({"list", "--json"}).Json()["experiments"][0];
  EXPECT_EQ(row["state"], "INTERRUPTED");
  ExpectGoesOnToTheSameEnd();
}

TEST_F(ResumeTest, RefusesASecondRunner) {
  dtrain_.Write("fault.yaml", FaultYaml("step_ms: 10", 1'000'000));
  ASSERT_EQ(dtrain_.Run({"create", "fault.yaml", "-d"}).code, 0);
  const auto holder =
      RunnerLock::Holder(StoreLayout(dtrain_.store()).RunnerLock(1));
  ASSERT_TRUE(holder.has_value());

  const CliResult result = dtrain_.Run({"resume", "1"});

  EXPECT_EQ(result.code, 5);
  EXPECT_THAT(result.err, HasSubstr(std::to_string(holder->pid)));
  kill(static_cast<pid_t>(holder->pid), SIGTERM);
  EXPECT_EQ(dtrain_.Run({"wait", "1", "--timeout", "2m"}).code, 75);
}

TEST_F(ResumeTest, RefusesACompletedExperiment) {
  dtrain_.Write("fault.yaml", FaultYaml("", 20));
  ASSERT_EQ(dtrain_.Run({"create", "fault.yaml"}).code, 0);
  const CliResult result = dtrain_.Run({"activate", "1", "--json"});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.err, HasSubstr("already COMPLETED"));
  EXPECT_EQ(result.Json()["best"]["trial"], "1.1");
}

TEST_F(ResumeTest, AllResumesWhatWasInterruptedAndNothingElse) {
  ASSERT_EQ(CreateAndSignal(SIGKILL).code, 137);
  ASSERT_EQ(CreateAndSignal(SIGTERM).code, 143);
  ASSERT_EQ(CreateAndSignal(SIGHUP).code, 129);
  ASSERT_EQ(dtrain_.Run({"create", "fault.yaml", "--paused"}).code, 0);
  ASSERT_EQ(dtrain_.Run({"create", "fault.yaml", "-d"}).code, 0);
  ASSERT_EQ(dtrain_.Run({"pause", "5"}).code, 0);
  ASSERT_EQ(dtrain_
                .Run({"create", "fault.yaml", "--set",
                      "searcher.max_length.batches=10"})
                .code,
            0);
  const CliResult result = dtrain_.Run({"resume", "--all", "--json"});
  EXPECT_EQ(result.code, 0) << result.err;
  const json experiments = result.Json()["experiments"];
  ASSERT_EQ(experiments.size(), 3u) << result.out;
  for (const int index : {0, 1, 2}) {
    EXPECT_EQ(experiments[index]["experiment"], index + 1);
    EXPECT_EQ(experiments[index]["problem"], nullptr);
  }
  EXPECT_EQ(dtrain_.Run({"wait", "1", "2", "3"}).code, 0);
  const json rows = dtrain_.Run({"list", "--json"}).Json()["experiments"];
  EXPECT_EQ(rows[3]["state"], "PAUSED");
  EXPECT_EQ(rows[4]["state"], "PAUSED");
}

// A trial that waited in the last run has the reason of the run before.
TEST_F(ResumeTest, AllLeavesWhatARequestHasPaused) {
  FillSampleStore(dtrain_.store());
  Store store = Store::OpenForWriting(StoreLayout(dtrain_.store()));
  store.Write([](StoreWriter& writer) {
    writer.SetExperimentState(2, State::kPaused, Timestamp(5));
    for (const std::int64_t trial : {1, 2}) {
      writer.AddTrial({.id = {2, trial}, .request_id = std::to_string(trial)});
      writer.SetTrialState({2, trial}, State::kPaused, Timestamp(4),
                           trial == 1 ? "stopped by SIGTERM; resumes from 3"
                                      : "paused by request");
    }
  });
  const CliResult result = dtrain_.Run({"resume", "--all", "--json"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.Json()["experiments"], json::array());
}

TEST_F(ResumeTest, AllStandsAlone) {
  const std::vector<std::vector<std::string>> wrong = {
      {},
      {"1", "--all"},
      {"--all", "-f"},
      {"--all", "--jsonl"},
      {"--all", "--require", "loss<1"},
      {"--all", "--timeout", "1m"},
      {"--all", "--junit", "a.xml"}};
  for (std::vector<std::string> words : wrong) {
    words.insert(words.begin(), "resume");
    const CliResult result = dtrain_.Run(words);
    EXPECT_EQ(result.code, 2) << testing::PrintToString(words);
    EXPECT_THAT(result.err, HasSubstr("--all"));
  }
}

}  // namespace
}  // namespace dtrain
