#include "engine/process/launched_trial.h"

#include <csignal>

#include <poll.h>
#include <unistd.h>

#include <gmock/gmock.h>

#include "tests/engine/process/launcher_fixture.h"

namespace dtrain {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::SizeIs;

/// A trial of two ranks whose processes the test forks, or not.
class LaunchedTrialTest : public LauncherFixture {
 protected:
  static constexpr std::uint64_t kToken = 100;

  static pid_t ForkSleeper() {
    const pid_t pid = ::fork();
    if (pid != 0) return pid;
    while (true) ::pause();
  }

  // Until no process of it lives and nothing more comes.
  void Drain() {
    while (!trial_.drained()) {
      for (const auto& ready : poller_.Wait(std::chrono::milliseconds(50))) {
        trial_.OnReady(ready, events_);
      }
      trial_.OnTime();
    }
  }

  TrialExited End() {
    Drain();
    trial_.ReportEnd(/*out_of_memory=*/true, events_);
    return std::get<TrialExited>(events_.back());
  }

  Poller poller_;
  std::deque<LaunchEvent> events_;
  LaunchedTrial trial_{TwoRanks("hang"),
                       SlotLease{},
                       TrialOutput(directory.path() / "log", Clock::System()),
                       Clock::System(),
                       poller_,
                       kToken};
};

TEST_F(LaunchedTrialTest, GivesTheSameMemoryToEachRank) {
  const ForkOrder first = trial_.NextFork();
  EXPECT_FALSE(trial_.wants_fork()) << "one at a time";
  EXPECT_FALSE(trial_.OnForked(ForkSleeper(), "")) << "one rank is missing";
  ASSERT_TRUE(trial_.wants_fork());
  const ForkOrder second = trial_.NextFork();
  EXPECT_GE(first.rendezvous, 0);
  EXPECT_EQ(first.rendezvous, second.rendezvous);
  EXPECT_TRUE(trial_.OnForked(ForkSleeper(), ""));
  EXPECT_FALSE(trial_.wants_fork());
  trial_.Kill();
  EXPECT_TRUE(End().killed_by_us);
}

TEST_F(LaunchedTrialTest, NoRankStartsBeforeAllAreForked) {
  const UniqueFd control(::dup(trial_.NextFork().fds.at(0)));
  trial_.Send(StopTrial{});
  trial_.OnForked(ForkSleeper(), "");
  pollfd entry{.fd = control.get(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&entry, 1, /*milliseconds=*/0), 0);
  trial_.NextFork();
  trial_.OnForked(ForkSleeper(), "");
  EXPECT_EQ(::poll(&entry, 1, /*milliseconds=*/0), 1);
  trial_.Kill();
  End();
}

TEST_F(LaunchedTrialTest, FailsToStartIfARankCannotBeForked) {
  trial_.NextFork();
  trial_.OnForked(ForkSleeper(), "");
  trial_.NextFork();
  trial_.FailToStart("no room for a process");
  EXPECT_FALSE(trial_.dead()) << "rank 0 is";
  const TrialExited exited = End();
  EXPECT_THAT(exited.not_started, HasSubstr("no room for a process"));
  EXPECT_THAT(exited.last_lines, Contains(HasSubstr("cannot start trial")));
  EXPECT_EQ(exited.exit_code, 1);
  EXPECT_FALSE(exited.out_of_memory);
  EXPECT_THAT(events_, SizeIs(1));
}

TEST_F(LaunchedTrialTest, FailsToStartWithoutAnyProcess) {
  trial_.NextFork();
  trial_.FailToStart("no room for a process");
  EXPECT_TRUE(trial_.drained());
  EXPECT_THAT(End().not_started, HasSubstr("no room for a process"));
}

TEST_F(LaunchedTrialTest, RankForkedAfterTheKillIsKilled) {
  trial_.NextFork();
  trial_.OnForked(ForkSleeper(), "");
  trial_.NextFork();
  trial_.Kill();
  EXPECT_FALSE(trial_.dead()) << "there may be a rank that is not known yet";
  trial_.OnForked(ForkSleeper(), "");
  const TrialExited exited = End();
  EXPECT_TRUE(exited.killed_by_us);
  EXPECT_TRUE(exited.not_started.empty());
  EXPECT_FALSE(exited.out_of_memory);
}

TEST_F(LaunchedTrialTest, NoRankIsForkedAfterTheKill) {
  trial_.NextFork();
  trial_.OnForked(ForkSleeper(), "");
  trial_.Kill();
  EXPECT_FALSE(trial_.wants_fork());
  EXPECT_EQ(End().signal, SIGKILL);
}

TEST_F(LaunchedTrialTest, OnlyAForeignKillCountsAsOutOfMemory) {
  trial_.NextFork();
  trial_.OnForked(ForkSleeper(), "");
  trial_.NextFork();
  const pid_t second = ForkSleeper();
  trial_.OnForked(second, "");
  ::kill(second, SIGKILL);
  const TrialExited exited = End();
  EXPECT_EQ(exited.rank, 1);
  EXPECT_TRUE(exited.out_of_memory);
  EXPECT_FALSE(exited.killed_by_us);
}

}  // namespace
}  // namespace dtrain
