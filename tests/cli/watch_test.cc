// Runs of other processes, as `watch` and `wait` show them on terminals.

#include <gmock/gmock.h>

#include "tests/support/fault_run.h"

namespace dtrain {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

constexpr char kShowCursor[] = "\x1b[?25h";

class WatchTest : public FaultRun {
 protected:
  // Runs `command` on a terminal of `size` ("80x24"); see terminal.py.
  CliResult OnTerminal(const std::string& size, const std::string& command,
                       const std::vector<std::string>& steps,
                       const std::string& locale = "C.UTF-8") const {
    std::vector<std::string> argv = {
        "python3", DTRAIN_SOURCE_DIR "/tests/support/terminal.py", size,
        command};
    argv.insert(argv.end(), steps.begin(), steps.end());
    return dtrain_.RunProgram(
        argv, {.environment = {{"TERM", "xterm"}, {"LC_ALL", locale}}});
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
  StartSearch(/*step_ms=*/20);
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

}  // namespace
}  // namespace dtrain
