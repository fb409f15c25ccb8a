// Commands on an experiment while it runs, or while its trial waits for a
// restart; signals to its runner.

#include <csignal>
#include <filesystem>

#include <gmock/gmock.h>

#include "engine/run/runner_lock.h"
#include "engine/store/layout.h"
#include "tests/support/fault_run.h"
#include "tests/support/patience.h"

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
  EXPECT_EQ(Run({"wait", "1", "--timeout", "2m"}).code, 75);
  EXPECT_EQ(Run({"checkpoint", "verify", "1"}).code, 0);
  EXPECT_EQ(Run({"gc"}).code, 0);
  EXPECT_EQ(Run({"resume", "1", "--timeout", "1s"}).code, 124);
  EXPECT_EQ(Trial().at("restarts"), 0);
}

TEST_F(RunningExperimentTest, IsCanceledWhileItsTrialWaitsForARestart) {
  StartCrashLoop();
  EXPECT_EQ(Run({"cancel", "1", "--timeout", "2m"}).code, 0);
  EXPECT_EQ(State(), "CANCELED");
  EXPECT_EQ(Trial().at("state"), "CANCELED");
  EXPECT_TRUE(Within(Seconds(60), [&] { return Processes().empty(); }));
  EXPECT_EQ(Run({"resume", "1"}).code, 1);
  EXPECT_EQ(Run({"delete", "1", "--yes"}).code, 0);
  EXPECT_FALSE(fs::exists(Experiment()));
}

TEST_F(RunningExperimentTest, IsPausedWhileItsTrialWaitsForARestart) {
  StartCrashLoop();
  EXPECT_EQ(Run({"pause", "1", "--timeout", "2m"}).code, 0);
  EXPECT_EQ(State(), "PAUSED");
  EXPECT_EQ(Run({"wait", "1"}).code, 75);
}

TEST_F(RunningExperimentTest, KeepsItsCancelIfTheRunnerDies) {
  const pid_t runner = Start(
      FaultYaml("hang_at: 30, ignore_term: true, once: false", 1'000'000));
  AwaitBatches(20);
  EXPECT_EQ(Run({"cancel", "1", "--no-wait"}).code, 0);
  ::kill(runner, SIGKILL);
  EXPECT_TRUE(Within(Seconds(60), [&] { return Processes().empty(); }));
  EXPECT_EQ(State(), "INTERRUPTED");

  EXPECT_EQ(Run({"resume", "1"}).code, 1);

  EXPECT_EQ(State(), "CANCELED");
}

TEST_F(RunningExperimentTest, IsResumedOnceByConcurrentCommands) {
  const pid_t runner = Start(FaultYaml("step_ms: 10", 1'000'000));
  AwaitBatches(20);
  ::kill(runner, SIGKILL);
  // The one that resumes it is paused once the others have been refused.
  const CliResult result = Shell(
      "await() { for i in $(seq 3000); do eval \"$1\" && break; sleep 0.02; "
      "done; }; for i in 1 2 3 4; do (dtrain resume 1 -q >/dev/null 2>err$i; "
      "echo $? >>codes) & done; await '[ \"$(grep -cs 5 codes)\" = 3 ]'; "
      "await 'dtrain trials 1 --json | grep -q \"runs.: 2\"'; dtrain pause 1 "
      ">/dev/null; wait; sort codes | tr '\\n' ' '; cat err*");
  EXPECT_THAT(result.out, testing::StartsWith("5 5 5 75 "));
  EXPECT_THAT(result.out, HasSubstr("already has a runner, process "));
  EXPECT_EQ(State(), "PAUSED");
  EXPECT_EQ(Trial().at("runs"), 2);
}

// Signals to the runner, the end of its terminal, and the end of its readers.

/// The exit code and the store show the outcome of a run.
class SignalsTest : public FaultRun {
 protected:
  // A run in the foreground of a shell, which continues with `script` once the
  // trial has been validated; $p is the runner.
  CliResult InShell(const std::string& yaml, const std::string& script) const {
    dtrain_.Write("fault.yaml", yaml);
    return Shell(
        "set -m; ulimit -c 0; export DTRAIN_STOP_GRACE=10m; says() { until "
        "grep -q \"$1\" err; do sleep "
        "0.02; done; }; dtrain create fault.yaml 2>err & p=$!; says 'batch "
        "20'; " +
        script);
  }
};

TEST_F(SignalsTest, SecondCtrlCKillsAtOnce) {
  const auto start = std::chrono::steady_clock::now();
  const CliResult result =
      InShell(FaultYaml("step_ms: 5, hang_at: 40, ignore_term: true", 60),
              "sleep 0.5; kill -INT $p; says 'press Ctrl-C again'; kill -INT "
              "$p; wait $p");

  EXPECT_EQ(result.code, 130);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::minutes(4));
  EXPECT_THAT(Processes(), IsEmpty());
  EXPECT_EQ(State(), "PAUSED");
  ExpectResumes();
}

TEST_F(SignalsTest, RecoversFromSigquit) {
  const CliResult result = InShell(FaultYaml("step_ms: 10, hang_at: 60", 100),
                                   "kill -QUIT $p; wait $p 2>/dev/null");

  EXPECT_EQ(result.code, 128 + SIGQUIT);
  EXPECT_TRUE(Within(Seconds(60), [&] { return Processes().empty(); }));
  EXPECT_EQ(State(), "INTERRUPTED");
  ExpectResumes();
}

TEST_F(SignalsTest, DetachedRunnerSurvivesItsTerminal) {
  dtrain_.Write("fault.yaml", FaultYaml("step_ms: 10", 1'000'000));
  const CliResult result =
      Shell("script -qec 'dtrain create fault.yaml -d' /dev/null");
  ASSERT_EQ(result.code, 0) << result.out;
  AwaitBatches(20);
  const auto runner =
      RunnerLock::Holder(StoreLayout(dtrain_.store()).RunnerLock(1));
  ASSERT_TRUE(runner.has_value());
  ::kill(static_cast<pid_t>(runner->pid), SIGHUP);

  AwaitBatches(Trial().at("batches").get<std::int64_t>() + 100);

  EXPECT_EQ(State(), "RUNNING");
  EXPECT_EQ(Trial().at("runs"), 1);
  EXPECT_EQ(Run({"cancel", "1"}).code, 0);
}

TEST_F(SignalsTest, RunnerPausesOnHangup) {
  dtrain_.Write("fault.yaml", FaultYaml("step_ms: 10", 1'000'000));
  Shell(
      "script -qec 'dtrain create fault.yaml' /dev/null >out & until dtrain "
      "metrics 1 --kind validation --csv | grep -q loss; do sleep 0.05; done; "
      "kill -KILL $!");

  EXPECT_TRUE(Within(Seconds(60), [&] { return State() == "PAUSED"; }));
  EXPECT_TRUE(Within(Seconds(60), [&] { return Processes().empty(); }));
  EXPECT_GE(Trial().at("batches"), 20);
}

TEST_F(SignalsTest, LogsExitQuietlyIfThePipeIsClosed) {
  ASSERT_EQ(Create(FaultYaml("log_bytes: 1000000", 20)).code, 0);
  const CliResult result =
      Shell("dtrain logs 1 | head -n 1; exit ${PIPESTATUS[0]}");
  EXPECT_EQ(result.code, 128 + SIGPIPE);
  EXPECT_THAT(result.out, HasSubstr("1.1 | xxx"));
  EXPECT_EQ(result.err, "");
}

TEST_F(SignalsTest, StoppedRunnerLosesNoTrial) {
  const pid_t runner =
      Start(FaultYaml("step_ms: 10", 300, "hang_timeout: 5s\n"));
  AwaitBatches(20);
  ::kill(runner, SIGSTOP);
  // Longer than the trial may make no step, as far as the runner can see.
  EXPECT_FALSE(Within(Seconds(3), [&] { return !Lives(runner); }));
  EXPECT_EQ(State(), "RUNNING");
  ::kill(runner, SIGCONT);

  EXPECT_EQ(Run({"wait", "1", "--timeout", "2m"}).code, 0);

  EXPECT_EQ(Trial().at("restarts"), 0);
  EXPECT_EQ(Trial().at("runs"), 1);
  EXPECT_EQ(Values("validation", "loss").size(), 15);
}

}  // namespace
}  // namespace dtrain
