#include <csignal>
#include <cstdlib>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>

#include "engine/os/unique_fd.h"
#include "tests/engine/process/launcher_fixture.h"

namespace dtrain {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Two runners of one user, in two processes, and one slot.
class SharedSlotsTest : public LauncherFixture {
 protected:
  /// The other runner: runs one trial that ends when the test writes to
  /// `end_it`; writes a byte to `started` when it has its slot.
  pid_t StartOtherRunner(const std::string& behaviour, int started,
                         int end_it) {
    const pid_t runner = ::fork();
    if (runner != 0) return runner;
    const auto launcher = MakeLocalLauncher(Options());
    launcher->Start(Spec(behaviour));
    AwaitMessage<Ready>(*launcher);
    char byte = 's';
    const bool told =
        ::write(started, &byte, 1) == 1 && ::read(end_it, &byte, 1) == 1;
    launcher->Send(Spec(behaviour).id, CloseTrial{});
    const bool ended = Await<TrialExited>(*launcher).exit_code == 0;
    ::_exit(told && ended ? 0 : 1);
  }

  /// A runner of five trials, one after the other, that must find themselves
  /// alone; its exit code is 0 if they did.
  pid_t StartBusyRunner() {
    const pid_t runner = ::fork();
    if (runner != 0) return runner;
    const auto launcher = MakeLocalLauncher(Options());
    const std::string path = directory.path() / "alone";
    for (int number = 1; number <= 5; ++number) {
      launcher->Start(Spec("be alone", number, {{"path", path}}));
      if (Await<TrialExited>(*launcher).exit_code != 0) ::_exit(1);
    }
    ::_exit(0);
  }

  void SetUp() override {
    ASSERT_EQ(::pipe2(started_, O_CLOEXEC), 0);
    ASSERT_EQ(::pipe2(end_it_, O_CLOEXEC), 0);
  }

  void AwaitOtherStart() {
    char byte = 0;
    ASSERT_EQ(::read(started_[0], &byte, 1), 1);
  }

  int started_[2];
  int end_it_[2];
};

TEST_F(SharedSlotsTest, TrialsOfTwoRunnersNeverOverlap) {
  const pid_t other = StartOtherRunner("echo", started_[1], end_it_[0]);
  AwaitOtherStart();
  const auto launcher = MakeLocalLauncher(Options());
  launcher->Start(Spec("echo"));
  EXPECT_TRUE(std::holds_alternative<Idle>(
      launcher->Wait(std::chrono::milliseconds(700))));
  EXPECT_EQ(launcher->FreeSlots(), 0U);
  ASSERT_EQ(::write(end_it_[1], "e", 1), 1);
  Await<TrialStarted>(*launcher);
  ::waitpid(other, nullptr, 0);
}

TEST_F(SharedSlotsTest, EightRunnersTakeTurnsOnOneSlot) {
  std::vector<pid_t> runners(8);
  for (pid_t& runner : runners) runner = StartBusyRunner();
  for (const pid_t runner : runners) {
    int status = -1;
    ::waitpid(runner, &status, 0);
    EXPECT_EQ(status, 0);
  }
}

TEST_F(SharedSlotsTest, SlotOfADeadRunnerIsFreedWithItsTrial) {
  const pid_t other = StartOtherRunner("hang", started_[1], end_it_[0]);
  AwaitOtherStart();
  const auto launcher = MakeLocalLauncher(Options());
  launcher->Start(Spec("echo"));
  ASSERT_TRUE(std::holds_alternative<Idle>(
      launcher->Wait(std::chrono::milliseconds(1))));
  const Duration killed = Clock::System().monotonic();
  ::kill(other, SIGKILL);
  ::waitpid(other, nullptr, 0);
  Await<TrialStarted>(*launcher);
  const Duration waited = Clock::System().monotonic() - killed;
  EXPECT_GT(waited, std::chrono::milliseconds(500)) << "its trial had a grace";
}

TEST_F(SharedSlotsTest, PendingTrialCanBeStopped) {
  const pid_t other = StartOtherRunner("echo", started_[1], end_it_[0]);
  AwaitOtherStart();
  const auto launcher = MakeLocalLauncher(Options());
  launcher->Start(Spec("echo"));
  launcher->RequestStop(Spec("echo").id);
  const TrialExited exited = Await<TrialExited>(*launcher);
  EXPECT_EQ(exited.exit_code, 0);
  EXPECT_FALSE(exited.killed_by_us);
  EXPECT_THAT(seen, IsEmpty()) << "it never started";
  ASSERT_EQ(::write(end_it_[1], "e", 1), 1);
  int status = -1;
  ::waitpid(other, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST_F(SharedSlotsTest, ShowsTheTrialThatHasTheSlot) {
  const auto launcher = MakeLocalLauncher(Options());
  launcher->Start(Spec("hang"));
  const TrialStarted started = Await<TrialStarted>(*launcher);
  const SlotUse use = SlotsInUse({}, 1).at(0);
  ASSERT_EQ(use.holders.size(), 1U);
  EXPECT_EQ(use.holders[0].pid, started.pid);
  EXPECT_EQ(use.holders[0].trial, ToString(started.trial));
  EXPECT_THAT(use.holders[0].store, HasSubstr(directory.path().string()));
  launcher->Kill(started.trial);
  Await<TrialExited>(*launcher);
  EXPECT_TRUE(SlotsInUse({}, 1).at(0).free());
}

}  // namespace
}  // namespace dtrain
