// Runs of other processes, as `watch` and `wait` show them on terminals.

#include <map>

#include <gmock/gmock.h>

#include "tests/support/fault_run.h"
#include "tests/support/mounting.h"

namespace dtrain {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

constexpr char kShowCursor[] = "\x1b[?25h";
constexpr char kEnterScreen[] = "\x1b[?1049h";
constexpr char kLeaveScreen[] = "\x1b[?1049l";

class WatchTest : public FaultRun {
 protected:
  // Runs `command` on a terminal of `size` ("80x24"); see terminal.py.
  CliResult OnTerminal(
      const std::string& size, const std::string& command,
      const std::vector<std::string>& steps,
      const std::map<std::string, std::string>& more = {}) const {
    std::vector<std::string> argv = {
        "python3", DTRAIN_SOURCE_DIR "/tests/support/terminal.py", size,
        command};
    argv.insert(argv.end(), steps.begin(), steps.end());
    std::map<std::string, std::string> environment = more;
    environment.insert({{"TERM", "xterm"}, {"LC_ALL", "C.UTF-8"}});
    return dtrain_.RunProgram(argv, {.environment = environment});
  }

  void StartSearch(int step_ms) const {
    dtrain_.Write("search.yaml",
                  "name: search\n"
                  "entrypoint: builtin:FaultTrial\n"
                  "hyperparameters:\n"
                  "  x: {type: double, minval: 0, maxval: 1, count: 8}\n"
                  "  step_ms: " +
                      std::to_string(step_ms) +
                      "\nsearcher: {name: async_halving, metric: loss, "
                      "max_length: 40, max_trials: 4, num_rungs: 2, divisor: "
                      "2}\nscheduling_unit: 4\nmax_restarts: 0\n"
                      "resources: {slots: \"cpu:2\"}\n");
    ASSERT_EQ(Run({"create", "search.yaml", "-d"}).code, 0);
  }
};

TEST_F(WatchTest, WaitShowsTheRunOnATerminalAndLeavesNoTrace) {
  StartSearch(/*step_ms=*/60);
  const CliResult result =
      OnTerminal("70x12", "dtrain wait 1",
                 {"expect experiment 1 search", "expect running",
                  "expect batch ", "expect rungs"});
  EXPECT_EQ(result.code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, EndsWith(kShowCursor));
}

TEST_F(WatchTest, WaitGivesTheCursorBackWhenInterrupted) {
  StartSearch(/*step_ms=*/500);
  const CliResult result =
      OnTerminal("70x12", "dtrain wait 1", {"expect running", "send \\x03"});
  EXPECT_EQ(result.code, 130) << result.out << result.err;
  EXPECT_THAT(result.out, EndsWith(kShowCursor));
  EXPECT_EQ(State(), "RUNNING");
  EXPECT_EQ(Run({"kill", "1"}).code, 0);
}

TEST_F(WatchTest, WaitIsSilentWithoutATerminalOrIfQuiet) {
  StartSearch(/*step_ms=*/5);
  EXPECT_EQ(Run({"wait", "1"}).err, "");
  EXPECT_EQ(OnTerminal("70x12", "dtrain -q wait 1", {}).out, "");
}

TEST_F(WatchTest, ObeysKeysUntilOneQuits) {
  StartSearch(/*step_ms=*/500);
  const CliResult result =
      OnTerminal("80x16", "dtrain watch 1",
                 {"expect running first", "expect > 1.1", "send s",
                  "expect best first", "send j", "expect > 1.2", "send \\x1b[A",
                  "expect > 1.1", "send \\r", "expect trial 1.1 of search",
                  "expect q back", "send q", "expect q quit", "send q"});
  EXPECT_EQ(result.code, 0) << result.out << result.err;
  EXPECT_THAT(result.out,
              AllOf(HasSubstr(kEnterScreen),
                    EndsWith(std::string(kShowCursor) + kLeaveScreen)));
  EXPECT_EQ(State(), "RUNNING");
  EXPECT_EQ(Run({"kill", "1"}).code, 0);
}

TEST_F(WatchTest, ShowsMetricsAndTheLogOfOneTrial) {
  (void)Start(FaultYaml("step_ms: 10, log_bytes: 40, log_line: 20", 400));
  const CliResult result = OnTerminal(
      "80x16", "dtrain watch 1",
      {"expect > 1.1", "send \\r", "expect   best loss ",
       "expect training loss", "expect   | ", "expect COMPLETED", "send q"});
  EXPECT_EQ(result.code, 0) << result.out << result.err;
}

TEST_F(WatchTest, FitsATerminalThatIsResized) {
  StartSearch(/*step_ms=*/500);
  const CliResult result =
      OnTerminal("46x10", "dtrain watch 1",
                 {"expect q quit", "resize 100x30", "expect 1/4  ↑↓ select",
                  "resize 30x5", "expect > 1.", "send q"});
  EXPECT_EQ(result.code, 0) << result.out << result.err;
  EXPECT_EQ(Run({"kill", "1"}).code, 0);
}

TEST_F(WatchTest, GivesTheTerminalBackWhenInterrupted) {
  StartSearch(/*step_ms=*/500);
  const CliResult result = OnTerminal("80x16", "dtrain watch 1; stty; exit $?",
                                      {"expect > 1.", "send \\x03"});
  EXPECT_THAT(result.out,
              AllOf(HasSubstr(kLeaveScreen), Not(HasSubstr("-icanon")),
                    Not(HasSubstr("-echo"))));
  EXPECT_EQ(State(), "RUNNING");
  EXPECT_EQ(
      OnTerminal("80x16", "dtrain watch 1", {"expect > 1.", "send \\x03"}).code,
      130);
  EXPECT_EQ(Run({"kill", "1"}).code, 0);
}

TEST_F(WatchTest, StopsAndContinuesAsAJobOfAShell) {
  StartSearch(/*step_ms=*/500);
  const CliResult result = OnTerminal(
      "80x16",
      "bash -c 'set -m; dtrain watch 1; echo stopped; fg; echo end $?'",
      {"expect > 1.", "send \\x1a", std::string("expect ") + kLeaveScreen,
       "expect stopped", std::string("expect ") + kEnterScreen, "expect > 1.",
       "send q"});
  EXPECT_THAT(result.out, HasSubstr("end 0")) << result.err;
  EXPECT_EQ(Run({"kill", "1"}).code, 0);
}

TEST_F(WatchTest, ReportsWhatHappenedWhileItWasStopped) {
  StartSearch(/*step_ms=*/60);
  const CliResult result = OnTerminal(
      "80x16",
      "bash -c 'set -m; dtrain watch 1; dtrain -q wait 1; fg; echo end $?'",
      {"expect > 1.", "send \\x1a"});
  EXPECT_THAT(result.out, AllOf(HasSubstr("end 0"), HasSubstr("COMPLETED")))
      << result.err;
}

TEST_F(WatchTest, LeavesTheEndOnTheTerminal) {
  StartSearch(/*step_ms=*/60);
  const CliResult result =
      OnTerminal("80x16", "dtrain watch 1", {"expect q quit"});
  EXPECT_EQ(result.code, 0) << result.out << result.err;
  const std::string rest = result.out.substr(result.out.rfind(kLeaveScreen));
  EXPECT_THAT(rest, AllOf(HasSubstr("experiment 1 search"),
                          HasSubstr("COMPLETED"), HasSubstr("best    1.")));
}

TEST_F(WatchTest, PrintsAnExperimentThatIsOver) {
  StartSearch(/*step_ms=*/1);
  EXPECT_EQ(Run({"wait", "1"}).code, 0);
  const CliResult result = OnTerminal("80x16", "dtrain watch 1", {});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out, AllOf(HasSubstr("COMPLETED"), HasSubstr("best    1."),
                                Not(HasSubstr(kEnterScreen))));
  EXPECT_THAT(Run({"watch", "1"}).out, HasSubstr("experiment 1 is COMPLETED"));
}

TEST_F(WatchTest, SaysThatAnExperimentWasDeleted) {
  StartSearch(/*step_ms=*/500);
  const CliResult result = OnTerminal(
      "80x16",
      "bash -c 'set -m; dtrain watch 1; dtrain -q kill 1; dtrain delete 1 -y; "
      "fg; echo end $?'",
      {"expect > 1.", "send \\x1a"});
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("experiment 1 was deleted while it was watched"),
                    HasSubstr("end 3")))
      << result.err;
}

TEST_F(WatchTest, NoticesThatTheRunnerWasKilled) {
  const pid_t runner = Start(FaultYaml("step_ms: 50", 1000));
  (void)AwaitBatches(20);
  const CliResult result = Shell(
      "dtrain watch 1 & w=$!; for i in $(seq 3000); do grep -qs "
      "dtrain.db-shm /proc/$w/maps && break; sleep 0.02; done; kill -9 " +
      std::to_string(runner) + "; wait $w; echo end $?");
  EXPECT_THAT(result.out, HasSubstr("end 75")) << result.err;
  EXPECT_THAT(result.err, AllOf(HasSubstr("INTERRUPTED"),
                                HasSubstr("resume with: dtrain")));
}

TEST_F(WatchTest, PrintsLinesWithoutATerminalOrOnADumbOne) {
  StartSearch(/*step_ms=*/60);
  const CliResult dumb =
      OnTerminal("80x16", "dtrain watch 1", {}, {{"TERM", "dumb"}});
  EXPECT_EQ(dumb.code, 0);
  EXPECT_THAT(dumb.out,
              AllOf(HasSubstr("paused at batch"), Not(HasSubstr("\x1b"))));
  StartSearch(/*step_ms=*/60);
  const CliResult piped = Run({"watch", "2"});
  EXPECT_EQ(piped.code, 0);
  EXPECT_THAT(piped.out,
              AllOf(HasSubstr("paused at batch"),
                    HasSubstr("async_halving search"), Not(HasSubstr("\x1b"))));
}

// NO_COLOR is about colors; the user asked for a display.
TEST_F(WatchTest, ShowsTheScreenWithoutColors) {
  StartSearch(/*step_ms=*/500);
  const CliResult result =
      OnTerminal("80x16", "dtrain watch 1", {"expect > 1.", "send q"},
                 {{"NO_COLOR", "1"}});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out,
              AllOf(HasSubstr(kEnterScreen), Not(HasSubstr("\x1b[0m"))));
  EXPECT_EQ(Run({"kill", "1"}).code, 0);
}

TEST_F(WatchTest, TakesSeveralExperiments) {
  StartSearch(/*step_ms=*/500);
  StartSearch(/*step_ms=*/500);
  const CliResult result = OnTerminal(
      "80x16", "dtrain watch 1 2",
      {"expect experiment 1 search", "expect experiment 2 search",
       "send G\\x1b[F", "expect > 2.", "send \\r", "expect trial 2.", "send q",
       "run dtrain -q kill 1", "expect CANCELED", "run dtrain -q kill 2"});
  EXPECT_EQ(result.code, 1) << result.out << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("experiment 1 is CANCELED"),
                                HasSubstr("experiment 2 is CANCELED")));
}

TEST_F(WatchTest, NamesAnExperimentThatDoesNotExist) {
  const CliResult result = Run({"watch", "9"});
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err, HasSubstr("no experiment 9"));
}

// Without a runner nothing can be followed, but the state can be told.
TEST_F(WatchTest, ReadsAReadOnlyStore) {
  SKIP_WHERE_MOUNTING_IS_FORBIDDEN(dtrain_);
  StartSearch(/*step_ms=*/1);
  EXPECT_EQ(Run({"wait", "1"}).code, 0);
  const CliResult result = RunInOwnMounts(
      dtrain_,
      "mkdir disk && mount -t tmpfs tmpfs disk && cp -a store disk/store && rm "
      "-f disk/store/dtrain.db-shm && mount -o remount,ro disk && dtrain "
      "--store disk/store watch 1; echo end $?");
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("experiment 1 is COMPLETED"), HasSubstr("end 0")))
      << result.err;
}

TEST_F(WatchTest, ReadsAReadOnlyStoreOfAnOlderSchema) {
  SKIP_WHERE_MOUNTING_IS_FORBIDDEN(dtrain_);
  const CliResult result = RunInOwnMounts(
      dtrain_,
      "mkdir disk && mount -t tmpfs tmpfs disk && mkdir -m 700 disk/store && "
      "sqlite3 disk/store/dtrain.db <" DTRAIN_GOLDEN_DIR
      "/store_version1.sql && mount -o remount,ro disk && dtrain --store "
      "disk/store watch 1; echo end $?");
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("experiment 1 is COMPLETED"), HasSubstr("end 0")))
      << result.err;
}

}  // namespace
}  // namespace dtrain
