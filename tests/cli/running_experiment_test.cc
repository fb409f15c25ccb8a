// Commands on an experiment while it runs, or while its trial waits for
// a restart.

#include <csignal>
#include <filesystem>

#include <gmock/gmock.h>

#include "tests/support/fault_run.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;
using testing::IsEmpty;

class RunningExperimentTest : public FaultRun {
 protected:
  // Crashes at once, again and again: after the third time it waits for some
  // 0.8 s, after the sixth for some 6.
  void StartCrashLoop() const {
    std::string yaml = FaultYaml("crash_at: 25, once: false", 1000,
                                 "min_checkpoint_period: 20\n");
    yaml.replace(yaml.find("max_restarts: 0"), 15, "max_restarts: 50");
    Start(yaml);
    EXPECT_TRUE(Within(Seconds(60), [&] {
      const json trials = Trials();
      return !trials.empty() && trials[0].at("runs") >= 5;
    }));
  }
  fs::path Experiment() const { return dtrain_.store() / "experiments/1"; }
};

TEST_F(RunningExperimentTest, IsNeitherDeletedNorCollected) {
  const pid_t runner =
      Start(FaultYaml("step_ms: 5", 1'000'000, "min_checkpoint_period: 20\n"));
  AwaitBatches(60);
  const std::string who = "is run by process " + std::to_string(runner);

  const CliResult deleted = Run({"delete", "1", "--yes"});
  const CliResult collected = Run({"gc", "--json"});
  const json listed = Run({"checkpoints", "1", "--json"}).Json();

  EXPECT_EQ(deleted.code, 5);
  EXPECT_THAT(deleted.err, HasSubstr(who));
  EXPECT_EQ(collected.Json().at("skipped"), json({1}));
  EXPECT_EQ(State(), "RUNNING");
  EXPECT_FALSE(listed.at("checkpoints").empty());
  ::kill(runner, SIGTERM);
  EXPECT_EQ(Run({"wait", "1", "--timeout", "1m"}).code, 75);
  EXPECT_EQ(Run({"checkpoint", "verify", "1"}).code, 0);
  EXPECT_EQ(Run({"gc"}).code, 0);
  EXPECT_EQ(Run({"resume", "1", "--timeout", "1s"}).code, 124);
  EXPECT_EQ(Trial().at("restarts"), 0);
}

TEST_F(RunningExperimentTest, IsCanceledWhileItsTrialWaitsForARestart) {
  StartCrashLoop();
  EXPECT_EQ(Run({"cancel", "1", "--timeout", "20s"}).code, 0);
  EXPECT_EQ(State(), "CANCELED");
  EXPECT_EQ(Trial().at("state"), "CANCELED");
  EXPECT_TRUE(Within(Seconds(2), [&] { return Processes().empty(); }));
  EXPECT_EQ(Run({"resume", "1"}).code, 1);
  EXPECT_EQ(Run({"delete", "1", "--yes"}).code, 0);
  EXPECT_FALSE(fs::exists(Experiment()));
}

TEST_F(RunningExperimentTest, IsPausedWhileItsTrialWaitsForARestart) {
  StartCrashLoop();
  EXPECT_EQ(Run({"pause", "1", "--timeout", "20s"}).code, 0);
  EXPECT_EQ(State(), "PAUSED");
  EXPECT_EQ(Run({"wait", "1"}).code, 75);
}

TEST_F(RunningExperimentTest, KeepsItsCancelIfTheRunnerDies) {
  const pid_t runner = Start(
      FaultYaml("hang_at: 30, ignore_term: true, once: false", 1'000'000));
  AwaitBatches(20);
  EXPECT_EQ(Run({"cancel", "1", "--no-wait"}).code, 0);
  ::kill(runner, SIGKILL);
  EXPECT_TRUE(Within(Seconds(3), [&] { return Processes().empty(); }));
  EXPECT_EQ(State(), "INTERRUPTED");

  EXPECT_EQ(Run({"resume", "1"}).code, 1);

  EXPECT_EQ(State(), "CANCELED");
}

TEST_F(RunningExperimentTest, IsResumedOnceByConcurrentCommands) {
  const pid_t runner = Start(FaultYaml("step_ms: 10", 200));
  AwaitBatches(20);
  ::kill(runner, SIGKILL);
  const CliResult result = Shell(
      "for i in 1 2 3 4; do (dtrain resume 1 -q >/dev/null 2>err$i; echo $?) & "
      "done | sort | tr '\\n' ' '; cat err*");
  EXPECT_THAT(result.out, testing::StartsWith("0 5 5 5 "));
  EXPECT_THAT(result.out, HasSubstr("already has a runner, process "));
  EXPECT_EQ(State(), "COMPLETED");
  EXPECT_EQ(Trial().at("runs"), 2);
  EXPECT_EQ(Values("training", "loss").size(), 20);
}

}  // namespace
}  // namespace dtrain
