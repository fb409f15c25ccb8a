#include "engine/process/system_monitor.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>

#include <unistd.h>

#include <gmock/gmock.h>

#include "engine/base/error.h"
#include "engine/os/process.h"
#include "tests/engine/process/launcher_fixture.h"

namespace dtrain {
namespace {

using std::chrono::milliseconds;

class SystemMonitorTest : public LauncherFixture {
 protected:
  LocalLauncherOptions Sampled(std::int64_t count = 1) const {
    LocalLauncherOptions options = Options(count);
    options.system_period = milliseconds(20);
    return options;
  }
  // Waits for a sample of the trial with so many processes.
  SystemSampled AwaitSample(Launcher& launcher, std::int64_t processes,
                            std::int64_t trial = 1) {
    while (!HasFailure()) {
      const auto sampled = Await<SystemSampled>(launcher);
      if (sampled.trial.number == trial &&
          sampled.sample.processes == processes) {
        return sampled;
      }
    }
    return {};
  }
  // Children of this process that are of no trial and no host.
  static std::vector<std::int64_t> Monitors() {
    const auto marked = LivingProcesses(Experiment());
    std::vector<std::int64_t> monitors;
    for (const Process& process : ReadProcesses()) {
      if (process.parent == ::getpid() && !process.zombie &&
          std::ranges::count(marked, process.pid) == 0) {
        monitors.push_back(process.pid);
      }
    }
    return monitors;
  }
};

TEST_F(SystemMonitorTest, SamplesTrialsUntilTheyEnd) {
  const auto launcher = MakeLocalLauncher(Sampled(2));
  launcher->Start(Spec("hang", 1));
  launcher->Start(Spec("hang", 2));

  const auto first = AwaitSample(*launcher, /*processes=*/1, /*trial=*/1);
  const auto second = AwaitSample(*launcher, /*processes=*/1, /*trial=*/2);
  launcher->Kill({Experiment(), 1});
  Await<TrialExited>(*launcher);

  EXPECT_EQ(first.trial.experiment, Experiment());
  EXPECT_EQ(first.sample.samples, 1);
  EXPECT_GT(first.sample.memory_bytes, 100'000);
  EXPECT_GT(second.sample.memory_bytes, 100'000);
  EXPECT_EQ(AwaitSample(*launcher, 1, /*trial=*/2).rank, 0);
  EXPECT_EQ(Monitors().size(), 1U);
}

// Launchers and daemons leave the session, the second without an environment.
TEST_F(SystemMonitorTest, SamplesProcessesInOtherSessions) {
  const auto launcher = MakeLocalLauncher(Sampled());
  launcher->Start(Spec("daemons and stay"));

  EXPECT_EQ(AwaitSample(*launcher, /*processes=*/3).sample.processes, 3);
}

TEST_F(SystemMonitorTest, SamplesAllRanks) {
  LocalLauncherOptions options = TwoRankOptions();
  options.system_period = milliseconds(20);
  const auto launcher = MakeLocalLauncher(std::move(options));
  launcher->Start(TwoRanks("hang"));

  EXPECT_EQ(AwaitSample(*launcher, /*processes=*/2).sample.processes, 2);
}

// Whether a trial has samples before its end or not, they add up to what it
// used, and the last one comes before its exit.
class LastSampleTest : public SystemMonitorTest,
                       public testing::WithParamInterface<Duration> {};

TEST_P(LastSampleTest, MakesTheSumsWhole) {
  LocalLauncherOptions options = TwoRankOptions();
  options.system_period = GetParam();
  const auto launcher = MakeLocalLauncher(std::move(options));
  launcher->Start(TwoRanks("use resources"));

  const TrialExited exited = Await<TrialExited>(*launcher);

  SystemSample sum{.samples = 0};
  for (const LaunchEvent& event : seen) {
    const auto* sampled = std::get_if<SystemSampled>(&event);
    if (sampled != nullptr) sum.Merge(sampled->sample);
  }
  EXPECT_EQ(exited.exit_code, 0);
  EXPECT_NEAR(sum.seconds, exited.seconds, 0.01);
  EXPECT_GE(sum.cpu_seconds, 0.6);
  // Each of the two ranks has one thread: more would be counted twice.
  EXPECT_LE(sum.cpu_seconds, 2 * exited.seconds + 0.1);
  EXPECT_GE(sum.memory_bytes, 2 * (64 << 20));
  EXPECT_GE(sum.processes, 2);
}

INSTANTIATE_TEST_SUITE_P(Periods, LastSampleTest,
                         testing::Values(milliseconds(20),
                                         std::chrono::hours(24)));

TEST_F(SystemMonitorTest, ATrialThatNeverStartedHasNoSample) {
  LocalLauncherOptions options = Sampled();
  options.environment = {{"FAKE_HOST_EXIT", "3"}};
  const auto launcher = MakeLocalLauncher(std::move(options));
  launcher->Start(Spec("finish"));

  EXPECT_NE(Await<TrialExited>(*launcher).not_started, "");

  for (const LaunchEvent& event : seen) {
    EXPECT_FALSE(std::holds_alternative<SystemSampled>(event));
  }
}

TEST_F(SystemMonitorTest, SamplesNothingIfNotAskedTo) {
  const auto launcher = MakeLocalLauncher(Options());
  launcher->Start(Spec("hang"));
  AwaitMessage<Ready>(*launcher);

  EXPECT_TRUE(Monitors().empty());
}

TEST_F(SystemMonitorTest, StartsAnotherChildOnce) {
  const auto launcher = MakeLocalLauncher(Sampled());
  launcher->Start(Spec("hang"));
  AwaitSample(*launcher, 1);
  const auto first = Monitors();
  ASSERT_EQ(first.size(), 1U);

  ::kill(static_cast<pid_t>(first[0]), SIGKILL);
  ASSERT_TRUE(Within(kLong, [&] {
    launcher->Wait(milliseconds(5));
    return Monitors().size() == 1 && Monitors() != first;
  }));
  AwaitSample(*launcher, 1);

  ::kill(static_cast<pid_t>(Monitors().at(0)), SIGKILL);
  EXPECT_TRUE(Within(kLong, [&] {
    launcher->Wait(milliseconds(5));
    return Monitors().empty();
  }));
  launcher->Kill({Experiment(), 1});
  EXPECT_TRUE(Await<TrialExited>(*launcher).killed_by_us);
  // The last sample needs no child.
  EXPECT_TRUE(std::holds_alternative<SystemSampled>(seen.back()));
}

TEST_F(SystemMonitorTest, LeavesNoProcessBehind) {
  {
    const auto launcher = MakeLocalLauncher(Sampled());
    launcher->Start(Spec("hang"));
    AwaitSample(*launcher, 1);
  }
  EXPECT_TRUE(Monitors().empty());
}

TEST(SystemPeriodTest, ReadsTheVariable) {
  EXPECT_EQ(SystemPeriod(), std::chrono::seconds(5));
  ::setenv("DTRAIN_SYSTEM_PERIOD", "250ms", /*replace=*/1);
  EXPECT_EQ(SystemPeriod(), milliseconds(250));
  for (const char* text : {"0", "1e-9", "9ms", "2d", "often"}) {
    ::setenv("DTRAIN_SYSTEM_PERIOD", text, /*replace=*/1);
    EXPECT_THROW(SystemPeriod(), Error) << text;
  }
  ::unsetenv("DTRAIN_SYSTEM_PERIOD");
}

}  // namespace
}  // namespace dtrain
