#include "engine/process/trial_output.h"

#include <sys/resource.h>

#include <gmock/gmock.h>

#include "engine/store/trial_log.h"
#include "tests/engine/process/launcher_fixture.h"
#include "tests/support/patience.h"

namespace dtrain {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

// In KiB. The address sanitizer keeps what is freed for a while.
constexpr long kMaxGrowth = (kSanitized ? 300 : 20) * 1024;

/// Through the launcher, with a real trial that prints.
class TrialOutputTest : public LauncherFixture {};

TEST_F(TrialOutputTest, DoesNotWaitForDaemonsThatHoldThePipe) {
  const auto launcher = MakeLocalLauncher(Options());
  launcher->Start(Spec("daemon"));
  Await<TrialStarted>(*launcher);
  Await<TrialExited>(*launcher);  // long before the daemon
}

TEST_F(TrialOutputTest, LogsOutputOfTheTrial) {
  LocalLauncherOptions options = Options();
  options.environment = {{"GREETING", "hello"}};
  const auto launcher = MakeLocalLauncher(std::move(options));
  launcher->Start(Spec("print"));
  const TrialExited exited = Await<TrialExited>(*launcher);
  EXPECT_THAT(exited.last_lines, Contains("to stdout"));
  EXPECT_THAT(exited.last_lines, Contains("an error"));
  EXPECT_THAT(exited.last_lines, Contains("to stderr, no newline"));
  EXPECT_THAT(exited.last_lines, Contains("CUDA_VISIBLE_DEVICES="));
  EXPECT_THAT(exited.last_lines, Contains("GREETING=hello"));
  EXPECT_EQ(exited.last_error_line, "to stderr, no newline");
  EXPECT_THAT(Log(exited.trial), HasSubstr("to stderr, no newline"));
}

/// Lines of a process that is not run.
class LastErrorLineTest : public testing::Test {
 protected:
  std::string LastErrorLine(const std::vector<std::string>& lines) {
    for (const std::string& line : lines) Append(line, /*from_stderr=*/true);
    return output_.LastErrorLine(0);
  }
  void Append(const std::string& text, bool from_stderr, int rank = 0) {
    output_.Append({.rank = rank, .from_stderr = from_stderr, .text = text});
  }

  TrialOutput output_{[](const LogRecord&) {}, Clock::System()};
};

TEST_F(LastErrorLineTest, IsTheLastWithText) {
  EXPECT_EQ(LastErrorLine({"Traceback (most recent call last):", "  ^^^^",
                           "ModuleNotFoundError: No module named 'torch'", "",
                           "=====", "dtrain: the program exited with code 1"}),
            "ModuleNotFoundError: No module named 'torch'");
}

TEST_F(LastErrorLineTest, IsEmptyWithoutOne) {
  EXPECT_EQ(LastErrorLine({"", "---", "dtrain: started"}), "");
}

TEST_F(LastErrorLineTest, IsNotOfStdoutOrOfAnotherRank) {
  Append("cause", /*from_stderr=*/true);
  Append("epoch 3", /*from_stderr=*/false);
  Append("other", /*from_stderr=*/true, /*rank=*/1);
  EXPECT_EQ(output_.LastErrorLine(0), "cause");
}

TEST_F(LastErrorLineTest, HasNoEscapesOrControlCharacters) {
  EXPECT_EQ(
      LastErrorLine({"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\ at \x1b["}),
      "link at");
  EXPECT_EQ(LastErrorLine(
                {"\x1b[1;31mError\x1b[0m:\x1b]0;title\a bad\tname\x01\xff"}),
            "Error: bad name\xEF\xBF\xBD");
}

TEST_F(LastErrorLineTest, IsTheLastPartOfAnOverwrittenLine) {
  EXPECT_EQ(LastErrorLine({"loading\rno such shape\r"}), "no such shape");
  EXPECT_EQ(LastErrorLine({"cause", " 10%|#   |\r 20%|##  |\r"}),
            "no such shape");
}

TEST_F(LastErrorLineTest, IsCut) {
  EXPECT_EQ(LastErrorLine({std::string(3000, 'x')}), std::string(2000, 'x'));
}

TEST_F(TrialOutputTest, FloodOfLogNeedsLittleMemory) {
  const auto launcher = MakeLocalLauncher(Options());
  rusage before{};
  ::getrusage(RUSAGE_SELF, &before);
  launcher->Start(Spec("flood", 1, {{"lines", 500'000}}));
  const TrialExited exited = Await<TrialExited>(*launcher);
  rusage after{};
  ::getrusage(RUSAGE_SELF, &after);
  EXPECT_EQ(exited.exit_code, 0);
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, kMaxGrowth);
  TrialLogReader reader(Options().layout.TrialLog(exited.trial));
  std::int64_t lines = 0;
  while (reader.Next()) ++lines;
  EXPECT_EQ(lines, 500'000);
}

}  // namespace
}  // namespace dtrain
