#include "engine/nodes/worker.h"

#include <csignal>
#include <fstream>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "engine/nodes/nodes.h"
#include "engine/nodes/nodes_launcher.h"
#include "engine/os/socket.h"
#include "tests/engine/nodes/started_follower.h"
#include "tests/engine/process/launcher_fixture.h"

namespace dtrain {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

constexpr char kWorkerVersion[] = "1";

// A runner in this process, without slots of its own, and workers in others.
class WorkerTest : public LauncherFixture {
 protected:
  WorkerOptions WorkerAt(const std::string& name, std::int64_t trials = 1,
                         const std::string& version = kWorkerVersion) const {
    return {.runner = {"127.0.0.1", port_},
            .secret = SecretFile(Options().layout),
            .version = version,
            .name = name,
            .job = "77",
            .host = "host-" + name,
            .roots = {Options().layout.root()},
            .plan =
                [trials](const WorkerTask&) {
                  return SlotPlan{.count = trials, .cpu_tokens = trials};
                },
            .find_host = [](bool) { return DTRAIN_FAKE_TRIAL_HOST; },
            .patience = kLong,
            .file_patience = Duration(0)};
  }
  // To be called before Listen.
  StartedFollower& Start(WorkerOptions options) {
    const std::string output = directory.path() / ("said-" + options.name);
    workers_.push_back(
        std::make_unique<StartedFollower>(std::move(options), output));
    return *workers_.back();
  }
  void Listen(WorkerTask task = {}) {
    task.experiment = Experiment();
    nodes_.emplace(Nodes::Options{.env = {.runner = {"127.0.0.1", port_}},
                                  .identity = {.version = kWorkerVersion},
                                  .secret = SecretFile(Options().layout),
                                  .task = std::move(task),
                                  .notice = [this](const std::string& line) {
                                    notices_ += line + "\n";
                                  }});
    LocalLauncherOptions options = Options();
    options.slots.count = 0;
    launcher_ = MakeNodesLauncher(
        *nodes_, std::move(options),
        {.changed = [this](const WorkerTable& table) { table_ = table; }});
  }
  // Waits until the launcher has brought that about.
  bool Reaches(const std::function<bool()>& condition) {
    return Within(kLong, [&] {
      LaunchEvent event = launcher_->Wait(std::chrono::milliseconds(20));
      if (!std::holds_alternative<Idle>(event)) seen.push_back(event);
      return condition();
    });
  }
  bool HasSlots(std::size_t slots) {
    return Reaches([&] { return launcher_->FreeSlots() == slots; });
  }

  const int port_ = PortOf(ListenAt({.host = "127.0.0.1"}).get());
  std::vector<std::unique_ptr<StartedFollower>> workers_;
  std::string notices_;
  WorkerTable table_;
  std::optional<Nodes> nodes_;
  std::unique_ptr<Launcher> launcher_;
};

TEST_F(WorkerTest, RunsAWholeTrialAndSendsItsOutput) {
  StartedFollower& worker = Start(WorkerAt("a"));
  Listen();
  EXPECT_EQ(launcher_->FreeSlots(), 0);
  ASSERT_TRUE(HasSlots(1)) << worker.Said();
  EXPECT_EQ(launcher_->Capacity(), 1);
  launcher_->Start(Spec("print"));
  EXPECT_EQ(launcher_->FreeSlots(), 0);

  const auto started = Await<TrialStarted>(*launcher_);
  const auto exited = Await<TrialExited>(*launcher_);

  EXPECT_EQ(started.pid, 0) << "of another machine";
  EXPECT_THAT(started.slots, ElementsAre("a/cpu:0"));
  EXPECT_EQ(exited.exit_code, 0);
  EXPECT_EQ(exited.rank, -1);
  EXPECT_FALSE(exited.preempted);
  EXPECT_THAT(Log(exited.trial), HasSubstr("to stderr, no newline"));
  ASSERT_TRUE(HasSlots(1));
  nodes_->SendShutdown();
  EXPECT_EQ(worker.Wait(), 0) << worker.Said();
}

TEST_F(WorkerTest, MessagesGoBothWays) {
  StartedFollower& worker = Start(WorkerAt("a"));
  Listen();
  ASSERT_TRUE(HasSlots(1)) << worker.Said();
  launcher_->Start(Spec("echo"));
  launcher_->Send(Spec("echo").id, Acknowledge{7});
  Await<TrialStarted>(*launcher_);

  launcher_->RequestStop(Spec("echo").id);

  EXPECT_EQ(AwaitMessage<Finished>(*launcher_).reason, EndReason::kStopped);
  const auto exited = Await<TrialExited>(*launcher_);
  EXPECT_EQ(exited.exit_code, 0);
  EXPECT_FALSE(exited.preempted) << "the runner asked for it";
}

TEST_F(WorkerTest, DrainsAtSigusr2) {
  StartedFollower& worker = Start(WorkerAt("a"));
  Listen();
  ASSERT_TRUE(HasSlots(1)) << worker.Said();
  launcher_->Start(Spec("echo"));
  Await<TrialStarted>(*launcher_);

  worker.Signal(SIGUSR2);

  EXPECT_EQ(AwaitMessage<Finished>(*launcher_).reason, EndReason::kStopped);
  EXPECT_TRUE(Await<TrialExited>(*launcher_).preempted);
  EXPECT_EQ(launcher_->FreeSlots(), 0);
  EXPECT_TRUE(Reaches([&] { return table_.workers.empty(); }));
  EXPECT_EQ(worker.Wait(), 0) << worker.Said();
  EXPECT_THAT(notices_, AllOf(HasSubstr("takes no more trials: it received "
                                        "SIGUSR2"),
                              testing::Not(HasSubstr("lost"))));
}

TEST_F(WorkerTest, LossIsACrashOfItsTrial) {
  StartedFollower& worker = Start(WorkerAt("a"));
  Listen();
  ASSERT_TRUE(HasSlots(1)) << worker.Said();
  launcher_->Start(Spec("hang"));
  Await<TrialStarted>(*launcher_);

  worker.Signal(SIGKILL);

  const auto exited = Await<TrialExited>(*launcher_);
  EXPECT_EQ(exited.exit_code, 1);
  EXPECT_FALSE(exited.preempted);
  EXPECT_THAT(exited.last_lines,
              ElementsAre(HasSubstr("lost worker a on host-a")));
  EXPECT_EQ(launcher_->FreeSlots(), 0);
}

TEST_F(WorkerTest, FillsTheBusiestWorkerThatHasRoom) {
  Start(WorkerAt("a", /*trials=*/2));
  Start(WorkerAt("b", /*trials=*/2));
  Listen();
  ASSERT_TRUE(HasSlots(4));
  launcher_->Start(Spec("hang", 1));
  launcher_->Start(Spec("hang", 2));
  EXPECT_EQ(launcher_->FreeSlots(), 2);

  const auto is_packed = [&] {
    return table_.workers.size() == 2 &&
           table_.workers[0].used + table_.workers[1].used == 2 &&
           table_.workers[0].used * table_.workers[1].used == 0;
  };
  EXPECT_TRUE(Reaches(is_packed));
  EXPECT_EQ(table_.workers[0].job, "77");
}

TEST_F(WorkerTest, AnotherVersionIsRefused) {
  StartedFollower& worker = Start(WorkerAt("a", /*trials=*/1, "2"));
  Listen();

  EXPECT_TRUE(
      Reaches([&] { return notices_.find("rejected") != notices_.npos; }));

  EXPECT_EQ(worker.Wait(), 2);
  EXPECT_THAT(worker.Said(), HasSubstr("install the same version"));
}

TEST_F(WorkerTest, WithoutTheRunnersFilesIsRefused) {
  StartedFollower& worker = Start(WorkerAt("a"));
  Listen({.probes = {{directory.path() / "none/probe", "x"}}});

  EXPECT_TRUE(
      Reaches([&] { return notices_.find("rejected") != notices_.npos; }));

  EXPECT_EQ(worker.Wait(), 2);
  EXPECT_THAT(worker.Said(), HasSubstr("none/probe"));
  EXPECT_THAT(notices_, HasSubstr("none/probe"));
  EXPECT_EQ(launcher_->FreeSlots(), 0);
}

TEST_F(WorkerTest, SlotsOfAnotherKindAreRefused) {
  StartedFollower& worker = Start(WorkerAt("a"));
  Listen({.gpus = true});

  EXPECT_TRUE(
      Reaches([&] { return notices_.find("rejected") != notices_.npos; }));

  EXPECT_EQ(worker.Wait(), 2);
  EXPECT_THAT(worker.Said(), HasSubstr("its slots are CPUs"));
}

TEST_F(WorkerTest, LosesTheRunner) {
  StartedFollower& worker = Start(WorkerAt("a"));
  Listen();
  ASSERT_TRUE(HasSlots(1)) << worker.Said();
  launcher_.reset();
  nodes_.reset();

  EXPECT_EQ(worker.Wait(), 1);
  EXPECT_THAT(worker.Said(), HasSubstr("lost the runner at 127.0.0.1"));
}

}  // namespace
}  // namespace dtrain
