// A program that does not do as docs/protocol.md says.

#include <csignal>
#include <fstream>

#include <gmock/gmock.h>

#include "engine/base/error.h"
#include "tests/engine/program/command_trial_fixture.h"

namespace dtrain {
namespace {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

constexpr char kValidation[] =
    "echo '{\"type\":\"validation\",\"batches\":10,\"metrics\":{\"loss\":1}}' "
    ">&3\n";

class MisbehaviourTest : public CommandTrialTest {};

TEST_F(MisbehaviourTest, ProgramExitsWithoutAReport) {
  EXPECT_EQ(EndText(Run("exit 0")),
            "error: the program ended at 0 of 10 batches without a validation "
            "of 'loss' there");
}

TEST_F(MisbehaviourTest, ProgramExitsBeforeItsLength) {
  EXPECT_EQ(
      EndText(Run("echo '{\"type\":\"validation\",\"batches\":5,\"metrics\":"
                  "{\"loss\":1}}' >&3")),
      "error: the program ended at 5 of 10 batches without a validation "
      "of 'loss' there; its last validation is at 5: if training has "
      "ended early, report that, in Python by trial.finish()");
  EXPECT_THAT(Messages<ValidationReport>(), SizeIs(1));
}

TEST_F(MisbehaviourTest, CrashIsReportedAsTheProgramsError) {
  const CommandEnd exited = Run("echo broken >&2; exit 3");
  EXPECT_EQ(EndText(exited), "");
  EXPECT_EQ(exited.exit.code, 3);
  EXPECT_THAT(Log(), AllOf(HasSubstr("broken\n"),
                           HasSubstr("the program exited with code 3 at 0 of "
                                     "10 batches")));
  const CommandEnd killed = Run("kill -SEGV $$");
  EXPECT_EQ(EndText(killed), "");
  EXPECT_EQ(killed.exit.signal, SIGSEGV);
}

TEST_F(MisbehaviourTest, GarbageIsIgnoredWithAWarning) {
  const CommandEnd end =
      Run(std::string("echo 'epoch 1' >&3; echo '[]' >&3; echo >&3\n") +
          "echo '{\"type\":\"x\",\"\\u001b\":1}' >&3\n" + kValidation);
  EXPECT_EQ(EndText(end), "stopped");
  EXPECT_THAT(Log(), HasSubstr("line 1 is not JSON: 'epoch 1'"));
  EXPECT_THAT(Log(), HasSubstr("line 2 is not a JSON object: '[]'"));
  EXPECT_THAT(Log(), HasSubstr("line 4 has the unknown type \"x\""));
  EXPECT_THAT(Log(), Not(HasSubstr("line 3 ")));
}

TEST_F(MisbehaviourTest, FailureNamesIgnoredReports) {
  EXPECT_EQ(EndText(Run("echo '{\"type\":\"validation\",\"metrics\":{}}' >&3")),
            "error: the program ended at 0 of 10 batches without a validation "
            "of 'loss' there; 1 line was ignored, the first: line 1 has no "
            "'batches': '{\"type\":\"validation\",\"metrics\":{}}'");
}

TEST_F(MisbehaviourTest, AThousandGarbageLinesAreTenWarnings) {
  Run(std::string("i=0; while [ $i -lt 1000 ]; do echo $i; i=$((i+1)); done "
                  ">&3\n") +
      kValidation);
  EXPECT_THAT(Log(), HasSubstr("line 10 is not a JSON object: '9'"));
  EXPECT_THAT(Log(), Not(HasSubstr("line 11 is")));
  EXPECT_THAT(Log(), HasSubstr("more lines are ignored"));
  EXPECT_THAT(Messages<OperationCompleted>(), SizeIs(1));
}

TEST_F(MisbehaviourTest, HugeLineIsDiscarded) {
  const CommandEnd end = Run(
      std::string("head -c 5000000 /dev/zero | tr '\\0' a >&3; echo >&3\n") +
      kValidation);
  EXPECT_EQ(EndText(end), "stopped");
  EXPECT_THAT(Log(), HasSubstr("line 1 is longer than 1.0 MB: 'aaa"));
}

TEST_F(MisbehaviourTest, DecreasingCountsAreIgnored) {
  Run(std::string("for i in 5 3 6; do echo '{\"type\":\"training\",\"batches\""
                  ":'$i',\"metrics\":{\"loss\":1}}' >&3; done\n") +
      kValidation);
  ASSERT_THAT(Messages<TrainingReport>(), SizeIs(2));
  EXPECT_EQ(Messages<TrainingReport>()[1].batches, 6);
  EXPECT_THAT(Log(), HasSubstr("has a smaller count than the last training "
                               "report, 5"));
}

TEST_F(MisbehaviourTest, FloodOfReportsIsAveraged) {
  const CommandEnd end = Run(
      "awk 'BEGIN { for (i = 1; i <= 200000; i++) printf \"{\\\"type\\\":"
      "\\\"training\\\",\\\"batches\\\":%d,\\\"metrics\\\":{\\\"loss\\\":1}}"
      "\\n\", i }' >&3\n"
      "echo '{\"type\":\"validation\",\"batches\":200000,\"metrics\":{\"loss\":"
      "1}}' >&3\n");
  EXPECT_EQ(EndText(end), "stopped");
  const auto reports = Messages<TrainingReport>();
  EXPECT_GE(reports.size(), 5'000u);
  EXPECT_LT(reports.size(), 100'000u);
  EXPECT_EQ(reports.back().batches, 200'000);
  EXPECT_EQ(reports.back().metrics[0].second, 1);
  EXPECT_THAT(Log(), HasSubstr("their means are recorded"));
}

TEST_F(MisbehaviourTest, TrainingContinuesAfterTheReportsAreClosed) {
  const CommandEnd end = Run("exec 3>&-; sleep 2");
  EXPECT_THAT(Log(), HasSubstr("has closed descriptor 3 and continues"));
  EXPECT_THAT(EndText(end), HasSubstr("without a validation"));
}

TEST_F(MisbehaviourTest, ChildThatKeepsTheReportsOpenIsNotAwaited) {
  limits_.drain = milliseconds(50);
  const CommandEnd end = Run(std::string(kValidation) +
                             "sleep 20 >/dev/null 2>&1 & echo $! >&2\n");
  // Ends the child, since ctest waits for it too.
  ::kill(std::stoi(Log()), SIGKILL);
  EXPECT_EQ(EndText(end), "stopped");
}

TEST_F(MisbehaviourTest, ProgramThatIgnoresTheStopIsKilled) {
  limits_.ending = limits_.after_term = milliseconds(200);
  answer_ = [](const TrialMessage& message) -> std::optional<RunnerMessage> {
    if (!std::holds_alternative<OperationCompleted>(message)) return {};
    return CloseTrial{};
  };
  const CommandEnd end = Run(std::string("trap '' TERM\n") + kValidation +
                             "while :; do sleep 0.05; done");
  EXPECT_EQ(EndText(end), "completed");
  EXPECT_EQ(end.exit.signal, SIGKILL);
  EXPECT_THAT(Log(),
              AllOf(HasSubstr("all operations are complete, but the program "
                              "did not exit within 0.2s; sending SIGTERM"),
                    HasSubstr("ignores SIGTERM; killing it")));
}

TEST_F(MisbehaviourTest, ProgramThatReportsItsEndButRunsOnIsKilled) {
  limits_.ending = milliseconds(100);
  const CommandEnd end = Run(
      "echo '{\"type\":\"end\",\"reason\":\"error\",\"message\":\"no\"}' >&3\n"
      "exec sleep 100");
  EXPECT_EQ(EndText(end), "error: no");
  EXPECT_EQ(end.exit.signal, SIGTERM);
}

TEST_F(MisbehaviourTest, ReportsWhyAProgramCannotBeExecuted) {
  const auto problem = [&](std::vector<std::string> command) -> std::string {
    spec_.command = std::move(command);
    try {
      Run("");
    } catch (const Error& error) {
      return error.what();
    }
    return "was executed";
  };
  EXPECT_THAT(problem({"no-such-program"}),
              HasSubstr("there is no program 'no-such-program' in PATH"));
  EXPECT_THAT(problem({"./missing.sh"}), HasSubstr("there is no such file"));
  EXPECT_THAT(problem({"./program.sh"}), HasSubstr("chmod +x"));
  EXPECT_THAT(problem({"./"}), HasSubstr("is not a regular file"));
  spec_.context = directory_.path() / "gone";
  EXPECT_THAT(problem({"sh"}), HasSubstr("cannot execute"));
}

TEST_F(MisbehaviourTest, ScriptNeedsAnInterpreterLine) {
  const auto script = directory_.path() / "script";
  std::ofstream(script) << "exit 0\n";
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  spec_.command = {"./script"};
  try {
    Run("");
    FAIL() << "was executed";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("#!/bin/sh"));
  }
}

}  // namespace
}  // namespace dtrain
