#include "engine/process/local_launcher.h"

#include <csignal>

#include <unistd.h>

#include <gmock/gmock.h>

#include "engine/os/process.h"
#include "tests/engine/process/launcher_fixture.h"

namespace dtrain {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class LocalLauncherTest : public LauncherFixture {};

TEST_F(LocalLauncherTest, PassesMessagesBothWays) {
  const auto launcher = MakeLocalLauncher(Options());
  launcher->Start(Spec("echo"));
  const TrialStarted started = Await<TrialStarted>(*launcher);
  AwaitMessage<Ready>(*launcher);
  launcher->Send(started.trial, RunOperation{{.count = 7}});
  EXPECT_EQ(AwaitMessage<OperationCompleted>(*launcher).length.count, 7);
  launcher->Send(started.trial, CloseTrial{});
  EXPECT_EQ(AwaitMessage<Finished>(*launcher).reason, EndReason::kCompleted);
  const TrialExited exited = Await<TrialExited>(*launcher);
  EXPECT_EQ(exited.trial, started.trial);
  EXPECT_EQ(exited.exit_code, 0);
  EXPECT_FALSE(exited.killed_by_us);
}

TEST_F(LocalLauncherTest, NamesTheProcessAndItsSlots) {
  const auto launcher = MakeLocalLauncher(Options(2));
  launcher->Start(Spec("hang"));
  const TrialStarted started = Await<TrialStarted>(*launcher);
  const auto process = ReadProcess(started.pid);
  ASSERT_TRUE(process);
  EXPECT_EQ(process->parent, ::getpid());
  EXPECT_EQ(process->start_ticks, started.start_ticks);
  EXPECT_THAT(started.slots, ElementsAre("cpu:0"));
}

TEST_F(LocalLauncherTest, KeepsMessagesForATrialThatHasNoProcessYet) {
  const auto launcher = MakeLocalLauncher(Options());
  const TrialSpec spec = Spec("echo");
  launcher->Start(spec);
  launcher->Send(spec.id, RunOperation{{.count = 3}});
  launcher->Send(spec.id, CloseTrial{});
  EXPECT_EQ(AwaitMessage<OperationCompleted>(*launcher).length.count, 3);
  EXPECT_EQ(Await<TrialExited>(*launcher).exit_code, 0);
}

TEST_F(LocalLauncherTest, ReportsExitCodes) {
  const auto launcher = MakeLocalLauncher(Options());
  launcher->Start(Spec("exit", 1, {{"exit_code", 137}}));
  const TrialExited exited = Await<TrialExited>(*launcher);
  EXPECT_EQ(exited.exit_code, 137);
  EXPECT_EQ(exited.signal, 0);
}

TEST_F(LocalLauncherTest, ReportsSignals) {
  const auto launcher = MakeLocalLauncher(Options());
  launcher->Start(Spec("signal", 1, {{"signal", SIGABRT}}));
  const TrialExited exited = Await<TrialExited>(*launcher);
  EXPECT_EQ(exited.exit_code, -1);
  EXPECT_EQ(exited.signal, SIGABRT);
  EXPECT_FALSE(exited.killed_by_us);
  EXPECT_FALSE(exited.out_of_memory);
}

// Nothing in the process of a trial may unwind into its host.
TEST_F(LocalLauncherTest, ReportsExceptionsThatNothingCatches) {
  const auto launcher = MakeLocalLauncher(Options());
  launcher->Start(Spec("lack memory"));
  const TrialExited lacking = Await<TrialExited>(*launcher);
  EXPECT_EQ(lacking.exit_code, 1);
  EXPECT_THAT(lacking.last_lines, Contains(HasSubstr("out of memory")));

  launcher->Start(Spec("throw", 2));
  EXPECT_EQ(Await<TrialExited>(*launcher).signal, SIGABRT);
  launcher->Start(Spec("exit", 3, {{"exit_code", 0}}));
  EXPECT_EQ(Await<TrialExited>(*launcher).exit_code, 0);
}

TEST_F(LocalLauncherTest, ReportsAKill) {
  const auto launcher = MakeLocalLauncher(Options());
  launcher->Start(Spec("hang"));
  const TrialStarted started = Await<TrialStarted>(*launcher);
  launcher->Kill(started.trial);
  const TrialExited exited = Await<TrialExited>(*launcher);
  EXPECT_EQ(exited.signal, SIGKILL);
  EXPECT_TRUE(exited.killed_by_us);
}

TEST_F(LocalLauncherTest, StopAsksTheTrial) {
  const auto launcher = MakeLocalLauncher(Options());
  launcher->Start(Spec("echo"));
  AwaitMessage<Ready>(*launcher);
  launcher->RequestStop(Spec("echo").id);
  EXPECT_EQ(AwaitMessage<Finished>(*launcher).reason, EndReason::kStopped);
  EXPECT_FALSE(Await<TrialExited>(*launcher).killed_by_us);
}

TEST_F(LocalLauncherTest, EndOfTheGracePeriodEndsTheTrial) {
  LocalLauncherOptions options = Options();
  options.grace = std::chrono::milliseconds(50);
  const auto launcher = MakeLocalLauncher(std::move(options));
  launcher->Start(Spec("deaf"));
  AwaitMessage<Ready>(*launcher);
  launcher->RequestStop(Spec("deaf").id);
  const TrialExited exited = Await<TrialExited>(*launcher);
  EXPECT_EQ(exited.signal, SIGTERM);
  EXPECT_TRUE(exited.killed_by_us);
}

TEST_F(LocalLauncherTest, KillsATrialThatIgnoresSigterm) {
  LocalLauncherOptions options = Options();
  options.grace = std::chrono::milliseconds(50);
  const auto launcher = MakeLocalLauncher(std::move(options));
  launcher->Start(Spec("hang"));
  AwaitMessage<Ready>(*launcher);
  launcher->RequestStop(Spec("hang").id);
  const TrialExited exited = Await<TrialExited>(*launcher);
  EXPECT_EQ(exited.signal, SIGKILL);
  EXPECT_TRUE(exited.killed_by_us);
  EXPECT_GE(exited.seconds, 5.0);
}

TEST_F(LocalLauncherTest, SweepsDaemonsOfATrialThatEnded) {
  const auto launcher = MakeLocalLauncher(Options());
  launcher->Start(Spec("daemon"));
  const TrialExited exited = Await<TrialExited>(*launcher);
  EXPECT_EQ(exited.exit_code, 0);
  EXPECT_THAT(LivingProcesses(Experiment()), SizeIs(1)) << "only the host";
}

TEST_F(LocalLauncherTest, SweepsDaemonsThatHidTheirOrigin) {
  const auto launcher = MakeLocalLauncher(Options());
  launcher->Start(Spec("clean daemon"));
  Await<TrialExited>(*launcher);
  std::vector<std::int64_t> children;
  for (const Process& process : ReadProcesses()) {
    if (process.parent == ::getpid()) children.push_back(process.pid);
  }
  EXPECT_THAT(children, SizeIs(1)) << "only the host";
}

TEST_F(LocalLauncherTest, KillsATrialThatSendsGarbage) {
  const auto launcher = MakeLocalLauncher(Options());
  launcher->Start(Spec("garbage"));
  AwaitMessage<Ready>(*launcher);
  const TrialExited exited = Await<TrialExited>(*launcher);
  EXPECT_EQ(exited.signal, SIGKILL);
  EXPECT_FALSE(exited.killed_by_us);
  ASSERT_THAT(exited.last_lines, SizeIs(1));
  EXPECT_THAT(exited.last_lines[0], HasSubstr("message from the trial"));
}

TEST_F(LocalLauncherTest, KillsATrialThatNeverReads) {
  const auto launcher = MakeLocalLauncher(Options());
  launcher->Start(Spec("deaf"));
  AwaitMessage<Ready>(*launcher);
  for (int i = 0; i < 400'000; ++i) {
    launcher->Send(Spec("deaf").id, Acknowledge{.seq = i + 1});
  }
  const TrialExited exited = Await<TrialExited>(*launcher);
  EXPECT_EQ(exited.signal, SIGKILL);
  EXPECT_THAT(exited.last_lines[0], HasSubstr("does not read"));
}

TEST_F(LocalLauncherTest, DeliversEveryMessageBeforeTheExit) {
  const auto launcher = MakeLocalLauncher(Options());
  launcher->Start(Spec("report", 1, {{"reports", 20'000}}));
  EXPECT_EQ(Await<TrialExited>(*launcher).exit_code, 0);
  ASSERT_THAT(seen, SizeIs(20'001));
  const auto& last = std::get<MessageReceived>(seen.back());
  EXPECT_EQ(std::get<TrainingReport>(last.message).seq, 20'000);
}

TEST_F(LocalLauncherTest, LeaksNoDescriptors) {
  const auto launcher = MakeLocalLauncher(Options());
  launcher->Start(Spec("exit", 1, {{"exit_code", 0}}));
  Await<TrialExited>(*launcher);
  const std::size_t open = OpenDescriptors();
  for (int i = 0; i < 200; ++i) {
    launcher->Start(Spec("exit", 1, {{"exit_code", 0}}));
    Await<TrialExited>(*launcher);
  }
  EXPECT_EQ(OpenDescriptors(), open);
}

TEST_F(LocalLauncherTest, AbortLeavesNothing) {
  const auto launcher = MakeLocalLauncher(Options(2));
  launcher->Start(Spec("daemons and stay", 1));
  launcher->Start(Spec("hang", 2));
  AwaitMessage<Ready>(*launcher);
  AwaitMessage<Ready>(*launcher);
  launcher->Abort();
  EXPECT_TRUE(Await<TrialExited>(*launcher).killed_by_us);
  EXPECT_TRUE(Await<TrialExited>(*launcher).killed_by_us);
  EXPECT_THAT(LivingProcesses(Experiment()), SizeIs(1)) << "only the host";
}

TEST_F(LocalLauncherTest, DestructionLeavesNothing) {
  {
    const auto launcher = MakeLocalLauncher(Options());
    launcher->Start(Spec("daemons and stay"));
    AwaitMessage<Ready>(*launcher);
  }
  EXPECT_THAT(LivingProcesses(Experiment()), IsEmpty());
}

TEST_F(LocalLauncherTest, ReportsAnInterrupt) {
  const auto launcher = MakeLocalLauncher(Options());
  ::kill(::getpid(), SIGINT);
  EXPECT_EQ(Await<Interrupted>(*launcher).signal, SIGINT);
}

TEST_F(LocalLauncherTest, IgnoresHangupsWhenDetached) {
  LocalLauncherOptions options = Options();
  options.ignore_hangup = true;
  const auto launcher = MakeLocalLauncher(std::move(options));
  ::kill(::getpid(), SIGHUP);
  ::kill(::getpid(), SIGTERM);
  EXPECT_EQ(Await<Interrupted>(*launcher).signal, SIGTERM);
}

TEST_F(LocalLauncherTest, ReportsIdleAfterTheTimeout) {
  const auto launcher = MakeLocalLauncher(Options());
  const LaunchEvent event = launcher->Wait(std::chrono::milliseconds(1));
  EXPECT_TRUE(std::holds_alternative<Idle>(event));
}

TEST_F(LocalLauncherTest, TrialDirectoryIsPrivate) {
  const auto launcher = MakeLocalLauncher(Options());
  const TrialSpec spec = Spec("exit", 1, {{"exit_code", 0}});
  launcher->Start(spec);
  Await<TrialExited>(*launcher);
  EXPECT_EQ(std::filesystem::status(spec.directory).permissions(),
            std::filesystem::perms::owner_all);
}

}  // namespace
}  // namespace dtrain
