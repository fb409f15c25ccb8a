// Trials that die, hang, come back, or leave others behind; clocks that jump.

#include <csignal>
#include <set>

#include <gmock/gmock.h>

#include "tests/support/fault_run.h"

namespace dtrain {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

constexpr char kCheckpointPeriod[] = "min_checkpoint_period: 20\n";

std::string Restarts(int most, std::string yaml) {
  const std::string none = "max_restarts: 0";
  return yaml.replace(yaml.find(none), none.size(),
                      "max_restarts: " + std::to_string(most));
}

class ProcessFaultsTest : public FaultRun {
 protected:
  void ExpectEveryMetricOnce() const {
    std::set<std::string> keys;
    const json rows = Run({"metrics", "1", "--json"}).Json().at("metrics");
    for (const json& row : rows) {
      keys.insert(row.at("trial").dump() + row.at("kind").dump() +
                  row.at("batches").dump() + row.at("name").dump());
    }
    EXPECT_EQ(keys.size(), rows.size());
    EXPECT_GT(rows.size(), 0);
  }
};

TEST_F(ProcessFaultsTest, CancelAfterARestartLosesNoMetric) {
  const pid_t runner = Start(FaultYaml("step_ms: 5", 1'000'000));
  AwaitBatches(100);
  ::kill(runner, SIGKILL);
  ASSERT_TRUE(Within(Seconds(60), [&] { return !Lives(runner); }));
  const auto before = Values("validation", "loss").get<std::vector<double>>();
  ASSERT_GE(before.size(), 4u);

  ASSERT_EQ(Run({"resume", "1", "-d"}).code, 0);
  ASSERT_TRUE(Within(Seconds(60), [this] { return Trial()["runs"] == 2; }));
  ASSERT_EQ(Run({"cancel", "1"}).code, 0);

  ASSERT_TRUE(Within(Seconds(60), [this] { return State() == "CANCELED"; }));
  auto after = Values("validation", "loss").get<std::vector<double>>();
  ASSERT_GE(after.size(), before.size());
  EXPECT_EQ(Trial()["best"]["value"], after.back());
  after.resize(before.size());
  EXPECT_EQ(after, before);
}

TEST_F(ProcessFaultsTest, OnlyTheKilledTrialResumesFromItsCheckpoint) {
  Start(Restarts(2,
                 "entrypoint: builtin:FaultTrial\n"
                 // Only the first trial waits to be killed.
                 "hyperparameters: {step_ms: 10, hang_at: {type: categorical, "
                 "vals: [-1, 70]}}\n"
                 "searcher: {name: grid, metric: loss, max_length: 150}\n"
                 "scheduling_unit: 10\nmin_validation_period: 20\n"
                 "min_checkpoint_period: 20\nmax_restarts: 0\n"
                 "resources: {slots: 'cpu:2'}\n"));
  ::kill(AwaitBatches(60), SIGKILL);

  EXPECT_EQ(Run({"wait", "1", "--timeout", "2m"}).code, 0);

  EXPECT_EQ(Trial(1).at("restarts"), 1);
  EXPECT_EQ(Trial(1).at("runs"), 2);
  EXPECT_EQ(Trial(2).at("restarts"), 0);
  EXPECT_EQ(Trial(2).at("runs"), 1);
  EXPECT_EQ(Values("validation", "loss").size(), 8);
  EXPECT_EQ(Values("training", "loss").size(), 15);
  ExpectEveryMetricOnce();
  EXPECT_THAT(Shell("cat store/experiments/1/runner.log").out,
              testing::ContainsRegex(
                  "killed by signal 9 .SIGKILL.; restart 1 of 2 from batch "
                  "[1-9]"));
}

TEST_F(ProcessFaultsTest, HangingTrialIsRestarted) {
  const CliResult result =
      Create(Restarts(1, FaultYaml("step_ms: 5, hang_at: 30, ignore_term: true",
                                   60, "hang_timeout: 3s\n")));
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("timeout: no step for 3.0s"));
  EXPECT_EQ(Trial().at("restarts"), 1);
}

TEST_F(ProcessFaultsTest, ReportsTheHangIfNoRestartIsLeft) {
  const CliResult result =
      Create(FaultYaml("hang_at: 30", 60, "hang_timeout: 1s\n"));
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(Trial().at("state"), "ERROR");
  EXPECT_THAT(Trial().at("reason").get<std::string>(),
              HasSubstr("timeout: no step for 1.0s (hang_timeout)"));
}

TEST_F(ProcessFaultsTest, StoppedTrialCountsAsHanging) {
  Start(Restarts(20, FaultYaml("step_ms: 5", 1'000'000, "hang_timeout: 2s\n")));
  const pid_t trial = AwaitBatches(20);
  ::kill(trial, SIGSTOP);
  EXPECT_TRUE(Within(Seconds(60), [&] { return !Lives(trial); }));
  EXPECT_TRUE(Within(Seconds(60), [&] { return Trial().at("restarts") >= 1; }));
  EXPECT_EQ(Run({"cancel", "1"}).code, 0);
}

TEST_F(ProcessFaultsTest, DistinguishesOutOfMemoryFromAKill) {
  dtrain_.Write("fault.yaml", Restarts(1, FaultYaml("rss_mb: 300", 60)));
  const CliResult result = ShellWithLittleMemory("dtrain create fault.yaml");
  if (result.code == 77) GTEST_SKIP() << "no memory cgroup may be made here";
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("out of memory: killed by the kernel"));
  EXPECT_EQ(Trial().at("restarts"), 1);
}

TEST_F(ProcessFaultsTest, DaemonsEndWithTheirTrial) {
  ASSERT_EQ(Create(FaultYaml("spawn_daemon: true", 20)).code, 0);
  EXPECT_THAT(Processes(), IsEmpty());
}

TEST_F(ProcessFaultsTest, DaemonsEndWithACanceledExperiment) {
  Start(FaultYaml("spawn_daemon: true, step_ms: 10", 1'000'000));
  AwaitBatches(10);
  ASSERT_THAT(Processes(), SizeIs(5)) << "runner, host, monitor, trial, daemon";
  EXPECT_EQ(Run({"cancel", "1"}).code, 0);
  EXPECT_TRUE(Within(Seconds(2), [&] { return Processes().empty(); }));
}

TEST_F(ProcessFaultsTest, AllProcessesEndWithinTwoSecondsOfTheRunnersDeath) {
  const pid_t runner =
      Start(FaultYaml("spawn_daemon: true, step_ms: 10", 1'000'000));
  AwaitBatches(10);
  ASSERT_THAT(Processes(), SizeIs(5)) << "runner, host, monitor, trial, daemon";
  ::kill(runner, SIGKILL);
  EXPECT_TRUE(Within(Seconds(2), [&] { return Processes().empty(); }));
  EXPECT_EQ(State(), "INTERRUPTED");
  EXPECT_EQ(Trial().at("state"), "INTERRUPTED");
  EXPECT_EQ(Run({"cancel", "1"}).code, 0);
}

struct Loop {
  const char* name;
  const char* hparams;
  const char* reason;
};

class CrashLoopTest : public ProcessFaultsTest,
                      public testing::WithParamInterface<Loop> {};

TEST_P(CrashLoopTest, EndsAfterItsRestartsWithTheReason) {
  const std::string hparams = std::string(GetParam().hparams) + ", once: false";
  const CliResult result =
      Create(Restarts(2, FaultYaml(hparams, 60, kCheckpointPeriod)));

  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(State(), "ERROR");
  EXPECT_EQ(Trial().at("runs"), 3);
  EXPECT_EQ(Trial().at("restarts"), 2);
  EXPECT_EQ(Trial().at("reason"),
            std::string(GetParam().reason) + " (after 2 restarts)");
  EXPECT_THAT(result.err, testing::Not(HasSubstr("terminate called")));
}

INSTANTIATE_TEST_SUITE_P(
    Faults, CrashLoopTest,
    testing::Values(
        Loop{"BeforeTraining", "crash_at: 0, exit_code: 3",
             "exited with code 3"},
        Loop{"AfterACheckpoint", "crash_at: 30", "exited with code 1"},
        Loop{"Abort", "abort_at: 30", "killed by signal 6 (SIGABRT)"},
        Loop{"ExitThatLooksLikeAKill", "crash_at: 30, exit_code: 137",
             "exited with code 137"}),
    [](const auto& info) { return info.param.name; });

TEST_F(ProcessFaultsTest, SearchContinuesWithoutACrashedTrial) {
  const CliResult result = Create(
      "entrypoint: builtin:FaultTrial\n"
      "hyperparameters: {once: false, crash_at: {type: categorical, vals: "
      "[-1, 5]}}\n"
      "searcher: {name: grid, metric: loss, max_length: 20}\n"
      "scheduling_unit: 10\nmax_restarts: 0\nresources: {slots: cpu}\n");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(State(), "COMPLETED");
  EXPECT_EQ(Trial(1).at("state"), "ERROR");
  EXPECT_EQ(Trial(2).at("state"), "COMPLETED");
}

// Clocks that are wrong, and clocks that jump: faketime, only the wall clock.

class ClockJumpTest : public FaultRun,
                      public testing::WithParamInterface<const char*> {
 protected:
  // `script` with the wall clock shifted by the file `clock`, read again at
  // each look; it says "+0" at first.
  CliResult WithFalseClock(const std::string& script) const {
    return Shell(
        "for f in /usr/lib/*/faketime/libfaketime.so.1; do [ -e $f ] || exit "
        "77; done; export FAKETIME_TIMESTAMP_FILE=$PWD/clock "
        "FAKETIME_NO_CACHE=1 FAKETIME_DONT_FAKE_MONOTONIC=1; [ -e clock ] || "
        "echo +0 >clock; false_dtrain() { LD_PRELOAD=$f dtrain \"$@\"; }; " +
        script);
  }
  void ExpectSoundTimes() const {
    const json experiment = Run({"describe", "1", "--json"}).Json();
    EXPECT_EQ(experiment.at("state"), "COMPLETED");
    EXPECT_GT(experiment.at("duration"), 0);
    EXPECT_LT(experiment.at("duration"), 100);
    EXPECT_GT(Trial().at("duration"), 0);
    EXPECT_LT(Trial().at("duration"), 100);
    EXPECT_EQ(Trial().at("restarts"), 0);
  }

  static constexpr int kNoFaketime = 77;
};

TEST_P(ClockJumpTest, JumpInARunChangesNothingButTimes) {
  dtrain_.Write("fault.yaml",
                FaultYaml("step_ms: 10", 150, "hang_timeout: 5s\n"));
  const CliResult result = WithFalseClock(
      "false_dtrain create fault.yaml 2>err & until grep -q 'batch 40' err; do "
      "sleep 0.02; done; echo '" +
      std::string(GetParam()) +
      "' >clock; dtrain list --json >list; wait $!; echo code $?");
  if (result.code == kNoFaketime) GTEST_SKIP() << "faketime is not there";

  EXPECT_THAT(result.out, HasSubstr("code 0\n"));
  ExpectSoundTimes();
  EXPECT_EQ(Values("training", "loss").size(), 15);
  EXPECT_THAT(Shell("cat list").out, Not(HasSubstr("\"duration\": -")));
}

// A list that is looked at on the day before must not count backwards.
TEST_P(ClockJumpTest, ResumesAfterAClockJump) {
  dtrain_.Write("fault.yaml", FaultYaml("step_ms: 10", 300));
  const CliResult result = WithFalseClock(
      "echo '" + std::string(GetParam()) +
      "' >clock; false_dtrain create fault.yaml -q --timeout 600ms; echo "
      "paused $?; dtrain list --json; echo +0 >clock; false_dtrain resume 1 "
      "-q; echo resumed $?; dtrain list --json");
  if (result.code == kNoFaketime) GTEST_SKIP() << "faketime is not there";

  EXPECT_THAT(result.out, HasSubstr("paused 124\n"));
  EXPECT_THAT(result.out, HasSubstr("resumed 0\n"));
  EXPECT_THAT(result.out, Not(HasSubstr("\"duration\": -")));
  ExpectSoundTimes();
}

INSTANTIATE_TEST_SUITE_P(Jumps, ClockJumpTest,
                         testing::Values("+86400", "-86400",
                                         "@2038-01-19 03:14:06"));

}  // namespace
}  // namespace dtrain
