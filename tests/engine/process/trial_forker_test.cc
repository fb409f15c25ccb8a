#include "engine/process/trial_forker.h"

#include <csignal>

#include <gmock/gmock.h>

#include "tests/engine/process/launcher_fixture.h"

namespace dtrain {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

/// Through the launcher, for what counts is what becomes of its trials.
class TrialForkerTest : public LauncherFixture {};

TEST_F(TrialForkerTest, StartsAnotherHostForTheNextTrial) {
  const auto launcher = MakeLocalLauncher(Options());
  launcher->Start(Spec("exit", 1, {{"exit_code", 0}}));
  Await<TrialExited>(*launcher);
  const std::vector<std::int64_t> hosts = LivingProcesses(Experiment());
  ASSERT_THAT(hosts, SizeIs(1));
  ::kill(static_cast<pid_t>(hosts[0]), SIGKILL);
  launcher->Start(Spec("exit", 1, {{"exit_code", 9}}));
  EXPECT_EQ(Await<TrialExited>(*launcher).exit_code, 9);
}

TEST_F(TrialForkerTest, TrialsOutliveTheirHost) {
  const auto launcher = MakeLocalLauncher(Options(2));
  launcher->Start(Spec("echo", 1));
  AwaitMessage<Ready>(*launcher);
  const std::int64_t host = LivingProcesses(Experiment()).front();
  ::kill(static_cast<pid_t>(host), SIGKILL);
  launcher->Start(Spec("exit", 2, {{"exit_code", 0}}));
  EXPECT_EQ(Await<TrialExited>(*launcher).trial.number, 2);
  launcher->Send(Spec("echo", 1).id, CloseTrial{});
  EXPECT_EQ(Await<TrialExited>(*launcher).exit_code, 0);
}

TEST_F(TrialForkerTest, ReportsWhyAHostDoesNotStart) {
  LocalLauncherOptions options = Options();
  options.environment = {{"FAKE_HOST_EXIT", "42"}};
  const auto launcher = MakeLocalLauncher(std::move(options));
  launcher->Start(Spec("echo"));
  const TrialExited exited = Await<TrialExited>(*launcher);
  EXPECT_EQ(exited.exit_code, 1);
  ASSERT_THAT(exited.last_lines, SizeIs(1));
  EXPECT_THAT(exited.last_lines[0], HasSubstr("exit code 42"));
  EXPECT_THAT(exited.last_lines[0], HasSubstr(": cannot open libfake.so"));
}

TEST_F(TrialForkerTest, ReportsAMissingHost) {
  LocalLauncherOptions options = Options();
  options.host = "/nowhere/trial-host";
  const auto launcher = MakeLocalLauncher(std::move(options));
  launcher->Start(Spec("echo"));
  const TrialExited exited = Await<TrialExited>(*launcher);
  ASSERT_THAT(exited.last_lines, SizeIs(1));
  EXPECT_THAT(exited.last_lines[0], HasSubstr("/nowhere/trial-host"));
}

}  // namespace
}  // namespace dtrain
