#include "engine/nodes/nodes_launcher.h"

#include <csignal>
#include <fstream>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/nodes/nodes.h"
#include "tests/engine/nodes/started_follower.h"
#include "tests/engine/process/launcher_fixture.h"

namespace dtrain {
namespace {

using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;

const NodeIdentity kIdentity{.version = "1", .configuration = "same"};

// A runner in this process and one follower in another, with a rank each.
class NodesLauncherTest : public LauncherFixture {
 protected:
  NodesLauncherTest()
      : place_{.world_size = 2,
               .runner = {"127.0.0.1",
                          PortOf(ListenAt({.host = "127.0.0.1"}).get())}} {
    follower_ = MakeFollower("");
    spare_ = MakeFollower(directory.path() / "gate");
    nodes_.emplace(Nodes::Options{
        .env = place_, .identity = kIdentity, .secret = Secret(), .host = "b"});
    nodes_->Gather(kLong);
    launcher_ = MakeNodesLauncher(*nodes_, Options(2));
  }

  std::unique_ptr<StartedFollower> MakeFollower(const std::string& gate) const {
    DistributedEnv place = place_;
    place.rank = 1;
    return std::make_unique<StartedFollower>(
        FollowerOptions{.env = place,
                        .identity = kIdentity,
                        .secret = Secret(),
                        .roots = {Options().layout.root()},
                        .launcher = Options(2),
                        .patience = kLong,
                        .answer_patience = seconds(1),
                        .host = "a"},
        directory.path() / ("follower" + std::to_string(gate.size())), gate);
  }
  SecretFile Secret() const { return SecretFile(Options().layout); }
  // Specification of the whole trial; it counts only this machine's ranks.
  TrialSpec Trial(const std::string& behaviour, int at = -1,
                  nlohmann::json hparams = nlohmann::json::object()) const {
    TrialSpec spec = TwoRanks(behaviour, at, "hang", std::move(hparams));
    spec.world_size = 1;
    return spec;
  }
  template <typename T>
  T Next() {
    const Duration end = Clock::System().monotonic() + kLong;
    while (Clock::System().monotonic() < end) {
      LaunchEvent event = launcher_->Wait(std::chrono::milliseconds(100));
      if (T* wanted = std::get_if<T>(&event)) return *wanted;
      if (auto* said = std::get_if<MessageReceived>(&event)) {
        if (auto* word = std::get_if<Finished>(&said->message)) word_ = *word;
      }
    }
    ADD_FAILURE() << "the event did not come; the follower said: "
                  << follower_->Said();
    return T{};
  }
  int EndOfFollower(bool goodbye) {
    launcher_.reset();
    if (goodbye) nodes_->SendShutdown();
    nodes_.reset();
    return follower_->Wait();
  }

  const DistributedEnv place_;
  std::unique_ptr<StartedFollower> follower_;
  std::unique_ptr<StartedFollower> spare_;  // waits for the file "gate"
  std::optional<Nodes> nodes_;
  std::unique_ptr<Launcher> launcher_;
  std::optional<Finished> word_;
};

TEST_F(NodesLauncherTest, EachMachineRunsItsRanks) {
  launcher_->Start(Trial("print"));

  Next<TrialStarted>();
  const TrialExited exited = Next<TrialExited>();

  EXPECT_EQ(exited.exit_code, 0);
  EXPECT_EQ(exited.not_started, "");
  EXPECT_THAT(Log(exited.trial),
              AllOf(HasSubstr("rank 0 of 2"), HasSubstr("rank 1 of 2"),
                    HasSubstr("to stderr, no newline")));
  EXPECT_EQ(EndOfFollower(/*goodbye=*/true), 0);
}

// By their names, the other one is to have its slots first.
TEST_F(NodesLauncherTest, MachinesAreSortedByName) {
  EXPECT_EQ(nodes_->SlotOrder(), std::vector<int>({1, 0}));
  EXPECT_EQ(nodes_->Described(1), "RANK=1 on a");
}

TEST_F(NodesLauncherTest, RanksOfAllMachinesConnect) {
  launcher_->Start(Trial("meet"));

  EXPECT_EQ(Next<TrialExited>().exit_code, 0);
  EXPECT_THAT(Log(Trial("meet").id),
              AllOf(HasSubstr("met 0 of 2"), HasSubstr("met 1 of 2")));
}

// Both processes are on this machine, which has two slots: with one slot each
// the trials would wait for each other.
TEST_F(NodesLauncherTest, TwoTrialsDoNotDeadlockOverSlots) {
  TrialSpec second = Trial("meet");
  second.id.number = 2;
  launcher_->Start(Trial("meet"));
  launcher_->Start(second);

  EXPECT_EQ(Next<TrialExited>().exit_code, 0);
  EXPECT_EQ(Next<TrialExited>().exit_code, 0);
}

TEST_F(NodesLauncherTest, DeathOfARemoteRankEndsTheTrial) {
  launcher_->Start(Trial("signal", 1, {{"signal", SIGKILL}}));

  const TrialExited exited = Next<TrialExited>();

  EXPECT_EQ(exited.rank, 1);
  EXPECT_EQ(exited.signal, SIGKILL);
  EXPECT_FALSE(exited.killed_by_us);
}

TEST_F(NodesLauncherTest, DeathOfALocalRankEndsTheTrial) {
  launcher_->Start(Trial("signal", 0, {{"signal", SIGABRT}}));

  const TrialExited exited = Next<TrialExited>();

  EXPECT_EQ(exited.rank, 0);
  EXPECT_EQ(exited.signal, SIGABRT);
}

TEST_F(NodesLauncherTest, RemoteRankReportsItsError) {
  launcher_->Start(Trial("fail", 1));

  Next<TrialExited>();

  ASSERT_TRUE(word_);
  EXPECT_EQ(word_->message, "rank 1: out of luck at 1");
}

TEST_F(NodesLauncherTest, StopReachesAllMachines) {
  launcher_->Start(Trial("echo"));
  Next<TrialStarted>();

  launcher_->RequestStop(Trial("echo").id);
  const TrialExited exited = Next<TrialExited>();

  EXPECT_EQ(exited.exit_code, 0);
  EXPECT_FALSE(exited.killed_by_us);
  ASSERT_TRUE(word_);
  EXPECT_EQ(word_->reason, EndReason::kStopped);
}

TEST_F(NodesLauncherTest, KillReachesAllMachines) {
  launcher_->Start(Trial("hang"));
  Next<TrialStarted>();

  launcher_->Kill(Trial("hang").id);

  EXPECT_TRUE(Next<TrialExited>().killed_by_us);
}

TEST_F(NodesLauncherTest, LostMachineIsAFailureAndMayReconnect) {
  launcher_->Start(Trial("hang"));
  Next<TrialStarted>();
  follower_->Signal(SIGKILL);

  const TrialExited exited = Next<TrialExited>();
  EXPECT_EQ(exited.rank, 1);
  EXPECT_FALSE(word_);
  ASSERT_FALSE(exited.last_lines.empty());
  EXPECT_THAT(exited.last_lines.back(),
              HasSubstr("lost the process with RANK=1"));

  launcher_->Start(Trial("print"));
  EXPECT_TRUE(std::holds_alternative<Idle>(launcher_->Wait(Duration(0))));
  std::ofstream(directory.path() / "gate");
  EXPECT_EQ(Next<TrialExited>().exit_code, 0);
}

TEST_F(NodesLauncherTest, TrialThatWaitsForAMachineCanBeStopped) {
  follower_->Signal(SIGKILL);
  const Duration end = Clock::System().monotonic() + kLong;
  while (nodes_->complete() && Clock::System().monotonic() < end) {
    launcher_->Wait(std::chrono::milliseconds(20));
  }
  launcher_->Start(Trial("print"));

  launcher_->RequestStop(Trial("print").id);

  EXPECT_FALSE(Next<TrialExited>().killed_by_us);
}

TEST_F(NodesLauncherTest, NamesAnUnsharedStore) {
  TrialSpec spec = Trial("print");
  spec.restore = "0e5b7e1c-0000-4000-8000-000000000000";
  launcher_->Start(spec);

  EXPECT_THAT(Next<TrialExited>().not_started,
              AllOf(HasSubstr("RANK=1: "), HasSubstr(spec.restore),
                    HasSubstr("--store")));
}

TEST_F(NodesLauncherTest, NamesAnUnsharedCheckpointDirectory) {
  TrialSpec spec = Trial("print");
  spec.checkpoints = "/no/such/directory/1";
  launcher_->Start(spec);

  EXPECT_THAT(Next<TrialExited>().not_started,
              AllOf(HasSubstr("RANK=1: "), HasSubstr("/no/such/directory")));
}

TEST_F(NodesLauncherTest, RefusesAModelOfAnotherMachine) {
  TrialSpec spec = Trial("print");
  spec.library = "/usr/lib/evil.so";
  launcher_->Start(spec);

  EXPECT_THAT(Next<TrialExited>().not_started,
              AllOf(HasSubstr("RANK=1: "), HasSubstr("/usr/lib/evil.so"),
                    HasSubstr("is outside")));
}

// The runner stops serving the connection, as one whose process is stopped.
TEST_F(NodesLauncherTest, FollowerOfASilentRunnerEndsOnSigterm) {
  launcher_->Start(Trial("hang"));
  Next<TrialStarted>();

  follower_->Signal(SIGTERM);

  EXPECT_EQ(follower_->Wait(), 128 + SIGTERM);
}

TEST_F(NodesLauncherTest, InterruptedFollowerEndsTheExperiment) {
  launcher_->Start(Trial("hang"));
  Next<TrialStarted>();

  follower_->Signal(SIGTERM);

  EXPECT_EQ(Next<Interrupted>().signal, SIGTERM);
}

TEST_F(NodesLauncherTest, FollowerFailsWithoutAShutdownMessage) {
  EXPECT_EQ(EndOfFollower(/*goodbye=*/false), 1);
  EXPECT_THAT(follower_->Said(),
              AllOf(HasSubstr("lost the runner at 127.0.0.1"),
                    HasSubstr("; resume the experiment there with RANK=0")));
}

TEST_F(NodesLauncherTest, LeavesNothingBehind) {
  launcher_->Start(Trial("hang"));
  Next<TrialStarted>();

  EXPECT_EQ(EndOfFollower(/*goodbye=*/false), 1);

  EXPECT_TRUE(
      Within(kLong, [] { return LivingProcesses(Experiment()).empty(); }));
}

}  // namespace
}  // namespace dtrain
