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
  const Duration start = Clock::System().monotonic();
  Await<TrialExited>(*launcher);
  EXPECT_LT(Clock::System().monotonic() - start,
            Patient(std::chrono::milliseconds(500)));
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
  EXPECT_THAT(Log(exited.trial), HasSubstr("to stderr, no newline"));
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
