#include <csignal>

#include <gmock/gmock.h>

#include "engine/process/local_launcher.h"
#include "engine/store/trial_log.h"
#include "tests/engine/process/launcher_fixture.h"
#include "tests/support/patience.h"

namespace dtrain {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Le;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

/// Trials of two ranks.
class RankLaunchTest : public LauncherFixture {
 protected:
  /// Runs the trial to its end, after which nothing of it may be left.
  TrialExited Run(const TrialSpec& spec) {
    const auto launcher = MakeLocalLauncher(TwoRankOptions());
    launcher->Start(spec);
    return AwaitEnd(*launcher);
  }
  TrialExited AwaitEnd(Launcher& launcher) {
    TrialExited exited = Await<TrialExited>(launcher);
    EXPECT_THAT(LivingProcesses(Experiment()), SizeIs(Le(1)))
        << "only the host, if it can be seen by now";
    for (const SlotUse& use : SlotsInUse({}, 2)) EXPECT_TRUE(use.free());
    return exited;
  }
  /// The trial's last word, which comes right before its end.
  std::optional<Finished> FinalMessage() const {
    if (seen.empty()) return std::nullopt;
    const auto* said = std::get_if<MessageReceived>(&seen.back());
    if (said == nullptr) return std::nullopt;
    const auto* word = std::get_if<Finished>(&said->message);
    return word == nullptr ? std::nullopt : std::optional(*word);
  }
  /// Lines that the ranks printed, as "RANK TEXT".
  std::vector<std::string> Printed(TrialId trial) const {
    TrialLogReader reader(Options().layout.TrialLog(trial));
    std::vector<std::string> lines;
    while (const auto record = reader.Next()) {
      lines.push_back(std::to_string(record->rank) + " " + record->text);
    }
    return lines;
  }
};

TEST_F(RankLaunchTest, KillOfOneRankEndsTheTrial) {
  const TrialExited exited =
      Run(TwoRanks("signal", 1, "hang", {{"signal", SIGKILL}}));
  EXPECT_EQ(exited.rank, 1);
  EXPECT_EQ(exited.signal, SIGKILL);
  EXPECT_EQ(exited.exit_code, -1);
  EXPECT_FALSE(exited.killed_by_us);
  EXPECT_GE(exited.seconds, 2.0) << "the other rank had a grace";
  EXPECT_EQ(FinalMessage(), std::nullopt);
}

TEST_F(RankLaunchTest, ExitCodeOfOneRankIsTheTrials) {
  const TrialExited exited =
      Run(TwoRanks("exit", 1, "hang", {{"exit_code", 3}}));
  EXPECT_EQ(exited.rank, 1);
  EXPECT_EQ(exited.exit_code, 3);
  EXPECT_EQ(exited.signal, 0);
}

TEST_F(RankLaunchTest, RankZeroMayDieAlone) {
  const TrialExited exited =
      Run(TwoRanks("signal", 0, "hang", {{"signal", SIGKILL}}));
  EXPECT_EQ(exited.rank, 0);
  EXPECT_EQ(exited.signal, SIGKILL);
  EXPECT_THAT(Printed(exited.trial),
              ElementsAre("1 dtrain: rank 1 is killed: rank 0 has ended, and "
                          "it has not"));
}

TEST_F(RankLaunchTest, AnyRankMayReportTheReason) {
  const TrialExited exited = Run(TwoRanks("fail", 1, "hang"));
  EXPECT_EQ(exited.rank, 1);
  EXPECT_EQ(exited.exit_code, 1);
  ASSERT_TRUE(FinalMessage());
  EXPECT_EQ(FinalMessage()->reason, EndReason::kError);
  EXPECT_EQ(FinalMessage()->message, "rank 1: out of luck at 1");
}

TEST_F(RankLaunchTest, RankZeroReportsForAll) {
  // Less than the two seconds that a rank has after the end of another.
  EXPECT_TRUE(IsOnceFasterThan(std::chrono::milliseconds(1500), [this] {
    EXPECT_EQ(Run(TwoRanks("fail")).exit_code, 1);
  }));
  ASSERT_TRUE(FinalMessage());
  EXPECT_EQ(FinalMessage()->message, "out of luck at 0");
}

TEST_F(RankLaunchTest, RankThatOutlivesTheOthersIsKilled) {
  const TrialExited exited = Run(TwoRanks("hang", 1, "finish"));
  EXPECT_EQ(exited.exit_code, 0);
  EXPECT_FALSE(exited.killed_by_us);
  EXPECT_GE(exited.seconds, 10.0);
  ASSERT_TRUE(FinalMessage());
  EXPECT_EQ(FinalMessage()->reason, EndReason::kCompleted);
}

TEST_F(RankLaunchTest, KillsATrialWhoseRankSendsGarbage) {
  const TrialExited exited = Run(TwoRanks("garbage", 1, "hang"));
  EXPECT_EQ(exited.rank, 1);
  EXPECT_EQ(exited.signal, SIGKILL);
  EXPECT_FALSE(exited.killed_by_us);
  EXPECT_FALSE(exited.out_of_memory);
  ASSERT_THAT(exited.last_lines, SizeIs(1));
  EXPECT_THAT(exited.last_lines[0], HasSubstr("message from the trial"));
}

TEST_F(RankLaunchTest, KillsATrialWhoseOtherRankReports) {
  const TrialExited exited = Run(TwoRanks("speak up", 1, "hang"));
  EXPECT_EQ(exited.rank, 1);
  ASSERT_THAT(exited.last_lines, SizeIs(1));
  EXPECT_THAT(exited.last_lines[0],
              HasSubstr("rank 1 sent a message that only rank 0 may send"));
}

TEST_F(RankLaunchTest, MessagesGoToRankZero) {
  const auto launcher = MakeLocalLauncher(TwoRankOptions());
  const TrialSpec spec = TwoRanks("echo", 0, "deaf");
  launcher->Start(spec);
  launcher->Send(spec.id, RunOperation{{.count = 7}});
  EXPECT_EQ(AwaitMessage<OperationCompleted>(*launcher).length.count, 7);
  launcher->Kill(spec.id);
  const TrialExited exited = AwaitEnd(*launcher);
  EXPECT_TRUE(exited.killed_by_us);
  EXPECT_EQ(exited.signal, SIGKILL);
}

TEST_F(RankLaunchTest, EndOfTheGracePeriodEndsEveryRank) {
  // Less than the five seconds from SIGTERM to SIGKILL take.
  EXPECT_TRUE(IsOnceFasterThan(std::chrono::seconds(5), [this] {
    LocalLauncherOptions options = TwoRankOptions();
    options.grace = std::chrono::seconds(1);  // in which rank 0 ends
    const auto launcher = MakeLocalLauncher(std::move(options));
    launcher->Start(TwoRanks("echo", 0, "deaf"));
    AwaitMessage<Ready>(*launcher);
    launcher->RequestStop(TwoRanks("echo").id);
    EXPECT_TRUE(AwaitEnd(*launcher).killed_by_us);
  }));
  ASSERT_TRUE(FinalMessage());
  EXPECT_EQ(FinalMessage()->reason, EndReason::kStopped);
}

TEST_F(RankLaunchTest, KillsRanksThatIgnoreSigterm) {
  LocalLauncherOptions options = TwoRankOptions();
  options.grace = std::chrono::milliseconds(50);
  const auto launcher = MakeLocalLauncher(std::move(options));
  launcher->Start(TwoRanks("hang", 1, "deaf"));
  AwaitMessage<Ready>(*launcher);
  launcher->RequestStop(TwoRanks("hang").id);
  const TrialExited exited = AwaitEnd(*launcher);
  EXPECT_TRUE(exited.killed_by_us);
  EXPECT_GE(exited.seconds, 5.0) << "SIGKILL comes some time after SIGTERM";
}

TEST_F(RankLaunchTest, LogsOutputOfEachRank) {
  const TrialExited exited = Run(TwoRanks("print"));
  EXPECT_EQ(exited.exit_code, 0);
  const std::vector<std::string> lines = Printed(exited.trial);
  EXPECT_THAT(lines, Contains("0 rank 0 of 2, 0 GPUs, 1 threads"));
  EXPECT_THAT(lines, Contains("1 rank 1 of 2, 0 GPUs, 1 threads"));
  EXPECT_THAT(lines, Contains("1 to stderr, no newline"));
}

TEST_F(RankLaunchTest, LastLinesAreThoseOfTheRankThatFailed) {
  const TrialExited exited =
      Run(TwoRanks("print", 0, "exit", {{"exit_code", 3}}));
  EXPECT_EQ(exited.rank, 1);
  EXPECT_THAT(exited.last_lines, IsEmpty());
}

TEST_F(RankLaunchTest, EachRankSeesItsOwnGpu) {
  LocalLauncherOptions options = TwoRankOptions();
  options.slots = {
      .count = 1,
      .slots_per_trial = 2,
      .gpus = {{.index = 0, .uuid = "GPU-a"}, {.index = 1, .uuid = "GPU-b"}}};
  const auto launcher = MakeLocalLauncher(std::move(options));
  launcher->Start(TwoRanks("print"));
  EXPECT_THAT(Await<TrialStarted>(*launcher).slots,
              ElementsAre("gpu:0", "gpu:1"));
  const std::vector<std::string> lines = Printed(AwaitEnd(*launcher).trial);
  EXPECT_THAT(lines, Contains("0 CUDA_VISIBLE_DEVICES=GPU-a"));
  EXPECT_THAT(lines, Contains("1 CUDA_VISIBLE_DEVICES=GPU-b"));
  EXPECT_THAT(lines, Contains("1 rank 1 of 2, 1 GPUs, 1 threads"));
}

TEST_F(RankLaunchTest, OneProcessMayHaveEverySlot) {
  LocalLauncherOptions options = TwoRankOptions();
  options.slots = {
      .count = 1,
      .slots_per_trial = 2,
      .gpus = {{.index = 0, .uuid = "GPU-a"}, {.index = 1, .uuid = "GPU-b"}}};
  const auto launcher = MakeLocalLauncher(std::move(options));
  launcher->Start(Spec("print"));
  const std::vector<std::string> lines = Printed(AwaitEnd(*launcher).trial);
  EXPECT_THAT(lines, Contains("0 CUDA_VISIBLE_DEVICES=GPU-a,GPU-b"));
  EXPECT_THAT(lines, Contains("0 rank 0 of 1, 2 GPUs, 1 threads"));
}

TEST_F(RankLaunchTest, RanksShareMemoryThatProgramsDoNotInherit) {
  const TrialExited exited = Run(TwoRanks("share"));
  EXPECT_EQ(exited.exit_code, 0);
}

TEST_F(RankLaunchTest, SingleRankHasNoSharedMemory) {
  EXPECT_EQ(Run(Spec("share")).exit_code, 6);
}

TEST_F(RankLaunchTest, NamesRankZeroAsTheHolderOfAllSlots) {
  const auto launcher = MakeLocalLauncher(TwoRankOptions());
  launcher->Start(TwoRanks("hang"));
  const TrialStarted started = Await<TrialStarted>(*launcher);
  EXPECT_THAT(started.slots, UnorderedElementsAre("cpu:0", "cpu:1"));
  for (const SlotUse& use : SlotsInUse({}, 2)) {
    ASSERT_FALSE(use.free()) << use.slot;
    EXPECT_EQ(use.holders[0].pid, started.pid) << use.slot;
  }
  launcher->Kill(started.trial);
  AwaitEnd(*launcher);
}

TEST_F(RankLaunchTest, SweepsDaemonsOfEveryRank) {
  const auto launcher = MakeLocalLauncher(TwoRankOptions());
  launcher->Start(TwoRanks("daemons and stay", 1, "hang"));
  const TrialStarted started = Await<TrialStarted>(*launcher);
  EXPECT_TRUE(Within(kLong, [] {
    return LivingProcesses(Experiment()).size() == 4;
  })) << "the host, two ranks, a daemon that shows where it comes from";
  launcher->Kill(started.trial);
  AwaitEnd(*launcher);
}

TEST_F(RankLaunchTest, LeaksNoDescriptors) {
  const auto launcher = MakeLocalLauncher(TwoRankOptions());
  launcher->Start(TwoRanks("finish"));
  Await<TrialExited>(*launcher);
  const std::size_t open = OpenDescriptors();
  for (int i = 0; i < 50; ++i) {
    launcher->Start(TwoRanks("finish"));
    Await<TrialExited>(*launcher);
  }
  EXPECT_EQ(OpenDescriptors(), open);
}

TEST_F(RankLaunchTest, AbortAtAnyTimeLeavesNothing) {
  const auto launcher = MakeLocalLauncher(TwoRankOptions());
  for (int i = 0; i < 20; ++i) {
    launcher->Start(TwoRanks("hang"));
    launcher->Wait(std::chrono::microseconds(500 * i));
    launcher->Abort();
    EXPECT_TRUE(AwaitEnd(*launcher).killed_by_us);
  }
}

TEST_F(RankLaunchTest, RestartsTheHostAfterItsDeath) {
  const auto launcher = MakeLocalLauncher(TwoRankOptions());
  launcher->Start(TwoRanks("finish"));
  Await<TrialExited>(*launcher);
  ::kill(static_cast<pid_t>(LivingProcesses(Experiment()).front()), SIGKILL);
  launcher->Start(TwoRanks("finish"));
  EXPECT_EQ(AwaitEnd(*launcher).exit_code, 0);
}

}  // namespace
}  // namespace dtrain
