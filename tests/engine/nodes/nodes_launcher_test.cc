#include "engine/nodes/nodes_launcher.h"

#include <csignal>
#include <fstream>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/nodes/nodes.h"
#include "tests/engine/nodes/started_worker.h"
#include "tests/engine/process/launcher_fixture.h"

namespace dtrain {
namespace {

using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;

// A runner in this process and a worker in another, a fixed set with a rank
// each.
class NodesLauncherTest : public LauncherFixture {
 protected:
  NodesLauncherTest() {
    worker_ = MakeWorker("");
    spare_ = MakeWorker(directory.path() / "gate");
    nodes_.emplace(Nodes::Options{.place = place_,
                                  .version = "1",
                                  .secret = Secret(),
                                  .claim = Claim(0),
                                  .host = "b"});
    nodes_->AwaitRanks(kLong);
    nodes_->SetTask({.experiment = Experiment(),
                     .store = Options().layout.root().string()});
    LocalLauncherOptions options = Options(2);
    options.clock.monotonic = [this] {
      return Clock::System().monotonic() + skipped_;
    };
    launcher_ = MakeNodesLauncher(*nodes_, std::move(options));
    Reach([&] { return launcher_->FreeSlots() > 0; });
  }

  static RankClaim Claim(int rank) { return {.rank = rank, .world_size = 2}; }
  std::unique_ptr<StartedWorker> MakeWorker(const std::string& gate) const {
    return std::make_unique<StartedWorker>(
        WorkerOptions{.runner = place_,
                      .secret = Secret(),
                      .version = "1",
                      .name = "a",
                      .host = "a",
                      .claim = Claim(1),
                      .roots = {Options().layout.root()},
                      .plan = [plan = Options(2).slots](
                                  const WorkerTask&) { return plan; },
                      .find_host = [](bool) { return DTRAIN_FAKE_TRIAL_HOST; },
                      .patience = kLong,
                      .answer_patience = seconds(1)},
        directory.path() / ("worker" + std::to_string(gate.size())), gate);
  }
  void Reach(const std::function<bool()>& condition) {
    EXPECT_TRUE(Within(kLong, [&] {
      launcher_->Wait(std::chrono::milliseconds(20));
      return condition();
    })) << worker_->Output();
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
    ADD_FAILURE() << "the event did not come; the worker said: "
                  << worker_->Output();
    return T{};
  }
  int EndOfWorker(bool goodbye) {
    launcher_.reset();
    if (goodbye) nodes_->SendShutdown();
    nodes_.reset();
    return worker_->Wait();
  }

  const HostPort place_{"127.0.0.1",
                        GetPort(ListenAt({.host = "127.0.0.1"}).get())};
  Duration skipped_{0};  // by the launcher's clock
  std::unique_ptr<StartedWorker> worker_;
  std::unique_ptr<StartedWorker> spare_;  // waits for the file "gate"
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
  EXPECT_EQ(EndOfWorker(/*goodbye=*/true), 0);
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
  worker_->Signal(SIGKILL);

  const TrialExited exited = Next<TrialExited>();
  EXPECT_EQ(exited.rank, 1);
  EXPECT_FALSE(word_);
  ASSERT_FALSE(exited.last_lines.empty());
  EXPECT_THAT(exited.last_lines.back(), HasSubstr("lost RANK=1 on a"));

  EXPECT_EQ(launcher_->FreeSlots(), 0);
  launcher_->Start(Trial("print"));
  EXPECT_TRUE(std::holds_alternative<Idle>(launcher_->Wait(Duration(0))));
  std::ofstream(directory.path() / "gate");
  EXPECT_EQ(Next<TrialExited>().exit_code, 0);
}

TEST_F(NodesLauncherTest, TrialThatWaitsForAMachineCanBeStopped) {
  worker_->Signal(SIGKILL);
  Reach([&] { return !nodes_->AbsentRanks().empty(); });
  launcher_->Start(Trial("print"));

  launcher_->RequestStop(Trial("print").id);

  EXPECT_FALSE(Next<TrialExited>().killed_by_us);
}

TEST_F(NodesLauncherTest, ASetThatStaysIncompleteEndsTheRun) {
  worker_->Signal(SIGKILL);
  Reach([&] { return !nodes_->AbsentRanks().empty(); });
  skipped_ = std::chrono::minutes(4);
  EXPECT_TRUE(std::holds_alternative<Idle>(launcher_->Wait(Duration(0))));
  skipped_ = std::chrono::minutes(6);

  EXPECT_THAT(
      Next<WorkersFailed>().why,
      AllOf(HasSubstr("RANK=1 did not come back within 5m"),
            HasSubstr("dtrain resume " + std::to_string(Experiment()))));
}

TEST_F(NodesLauncherTest, NamesFilesThatARankCannotUse) {
  const std::string uuid = "0e5b7e1c-0000-4000-8000-000000000000";
  const auto refused = [this](const std::function<void(TrialSpec&)>& change) {
    TrialSpec spec = Trial("print");
    change(spec);
    launcher_->Start(spec);
    return Next<TrialExited>().not_started;
  };
  EXPECT_THAT(
      refused([&](TrialSpec& spec) { spec.restore = uuid; }),
      AllOf(HasSubstr("RANK=1: "), HasSubstr(uuid), HasSubstr("--store")));
  EXPECT_THAT(refused([](TrialSpec& spec) { spec.checkpoints = "/none/1"; }),
              AllOf(HasSubstr("RANK=1: "), HasSubstr("/none")));
  EXPECT_THAT(
      refused([](TrialSpec& spec) { spec.library = "/usr/lib/evil.so"; }),
      AllOf(HasSubstr("RANK=1: "), HasSubstr("/usr/lib/evil.so"),
            HasSubstr("is outside")));
}

// The runner stops serving the connection, as one whose process is stopped.
TEST_F(NodesLauncherTest, WorkerOfASilentRunnerEndsOnSigterm) {
  launcher_->Start(Trial("hang"));
  Next<TrialStarted>();

  worker_->Signal(SIGTERM);

  EXPECT_EQ(worker_->Wait(), 128 + SIGTERM);
}

TEST_F(NodesLauncherTest, InterruptedWorkerEndsTheExperiment) {
  launcher_->Start(Trial("hang"));
  Next<TrialStarted>();

  worker_->Signal(SIGTERM);

  EXPECT_EQ(Next<Interrupted>().signal, SIGTERM);
}

TEST_F(NodesLauncherTest, WorkerFailsWithoutAShutdownMessage) {
  EXPECT_EQ(EndOfWorker(/*goodbye=*/false), 1);
  EXPECT_THAT(worker_->Output(),
              AllOf(HasSubstr("lost the runner at 127.0.0.1"),
                    HasSubstr("; resume the experiment there with RANK=0")));
}

TEST_F(NodesLauncherTest, LeavesNothingBehind) {
  launcher_->Start(Trial("hang"));
  Next<TrialStarted>();

  EXPECT_EQ(EndOfWorker(/*goodbye=*/false), 1);

  EXPECT_TRUE(
      Within(kLong, [] { return LivingProcesses(Experiment()).empty(); }));
}

}  // namespace
}  // namespace dtrain
