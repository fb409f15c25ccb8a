#include "engine/nodes/worker.h"

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "engine/context/context_links.h"
#include "engine/nodes/nodes.h"
#include "engine/nodes/nodes_launcher.h"
#include "engine/os/sha256.h"
#include "engine/os/socket.h"
#include "engine/slots/slots.h"
#include "tests/engine/nodes/started_worker.h"
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
  StartedWorker& Start(WorkerOptions options) {
    const std::string output = directory.path() / ("said-" + options.name);
    workers_.push_back(
        std::make_unique<StartedWorker>(std::move(options), output));
    return *workers_.back();
  }
  // With the slots of the runner's own machine.
  void Listen(WorkerTask task = {}, SlotPlan here = {.count = 0}) {
    task.experiment = Experiment();
    if (task.store.empty()) task.store = Options().layout.root().string();
    nodes_.emplace(Nodes::Options{.place = {"127.0.0.1", port_},
                                  .version = kWorkerVersion,
                                  .secret = SecretFile(Options().layout),
                                  .host = host_,
                                  .notice = [this](const std::string& line) {
                                    notices_ += line + "\n";
                                  }});
    nodes_->SetTask(std::move(task));
    LocalLauncherOptions options = Options();
    options.slots = std::move(here);
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
  // Expects that a worker cannot join for that reason, which both ends name.
  void ExpectRefused(WorkerTask task, const std::string& why) {
    StartedWorker& worker = Start(WorkerAt("a"));
    Listen(std::move(task));
    EXPECT_TRUE(
        Reaches([&] { return notices_.find("rejected") != notices_.npos; }));
    EXPECT_EQ(worker.Wait(), 2);
    EXPECT_THAT(worker.Output(), HasSubstr(why));
    EXPECT_THAT(notices_, HasSubstr("worker a on host-a was rejected: "));
    EXPECT_THAT(notices_, HasSubstr(why));
    EXPECT_EQ(launcher_->FreeSlots(), 0);
  }

  const int port_ = GetPort(ListenAt({.host = "127.0.0.1"}).get());
  std::vector<std::unique_ptr<StartedWorker>> workers_;
  std::string host_ = "runner";
  std::string notices_;
  WorkerTable table_;
  std::optional<Nodes> nodes_;
  std::unique_ptr<Launcher> launcher_;
};

TEST_F(WorkerTest, RunsAWholeTrialAndSendsItsOutput) {
  StartedWorker& worker = Start(WorkerAt("a"));
  Listen();
  EXPECT_EQ(launcher_->FreeSlots(), 0);
  ASSERT_TRUE(HasSlots(1)) << worker.Output();
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
  EXPECT_EQ(worker.Wait(), 0) << worker.Output();
}

// The worker, which another process is, inherits the period.
TEST_F(WorkerTest, SamplesItsTrialsIfTheTaskSaysSo) {
  ::setenv("DTRAIN_SYSTEM_PERIOD", "20ms", /*replace=*/1);
  StartedWorker& worker = Start(WorkerAt("a"));
  ::unsetenv("DTRAIN_SYSTEM_PERIOD");
  Listen({.system = true});
  ASSERT_TRUE(HasSlots(1)) << worker.Output();
  launcher_->Start(Spec("hang"));

  const auto sampled = Await<SystemSampled>(*launcher_);

  EXPECT_EQ(sampled.trial.number, 1);
  EXPECT_EQ(sampled.rank, 0);
  EXPECT_EQ(sampled.sample.processes, 1);
  EXPECT_GT(sampled.sample.memory_bytes, 100'000);
  launcher_->Kill({Experiment(), 1});
  Await<TrialExited>(*launcher_);
}

TEST_F(WorkerTest, MessagesGoBothWays) {
  StartedWorker& worker = Start(WorkerAt("a"));
  Listen();
  ASSERT_TRUE(HasSlots(1)) << worker.Output();
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
  StartedWorker& worker = Start(WorkerAt("a"));
  Listen();
  ASSERT_TRUE(HasSlots(1)) << worker.Output();
  launcher_->Start(Spec("echo"));
  Await<TrialStarted>(*launcher_);

  worker.Signal(SIGUSR2);

  EXPECT_EQ(AwaitMessage<Finished>(*launcher_).reason, EndReason::kStopped);
  EXPECT_TRUE(Await<TrialExited>(*launcher_).preempted);
  EXPECT_EQ(launcher_->FreeSlots(), 0);
  EXPECT_TRUE(Reaches([&] { return table_.workers.empty(); }));
  EXPECT_EQ(worker.Wait(), 0) << worker.Output();
  EXPECT_THAT(notices_, AllOf(HasSubstr("takes no more trials: it received "
                                        "SIGUSR2"),
                              testing::Not(HasSubstr("lost"))));
}

TEST_F(WorkerTest, IdleTimeCountsFromTheEndOfItsLastTrial) {
  constexpr Duration kIdle = std::chrono::seconds(1);
  WorkerOptions options = WorkerAt("a");
  options.limits.idle_timeout = kIdle;
  StartedWorker& worker = Start(std::move(options));
  Listen();
  ASSERT_TRUE(HasSlots(1)) << worker.Output();
  launcher_->Start(Spec("hang"));
  Await<TrialStarted>(*launcher_);
  const Duration started = Clock::System().monotonic();
  Reaches([&] { return Clock::System().monotonic() >= started + 2 * kIdle; });
  EXPECT_EQ(notices_.find("takes no more trials"), notices_.npos) << notices_;
  const Duration ended = Clock::System().monotonic();
  launcher_->Kill(Spec("hang").id);
  EXPECT_FALSE(Await<TrialExited>(*launcher_).preempted);

  EXPECT_TRUE(Reaches([&] {
    return notices_.find("takes no more trials: it had no trial for 1.0s") !=
           notices_.npos;
  })) << notices_;

  EXPECT_GE(Clock::System().monotonic() - ended, kIdle);
  EXPECT_EQ(worker.Wait(), 0) << worker.Output();
}

TEST_F(WorkerTest, WithoutAnIdleTimeoutItStays) {
  StartedWorker& worker = Start(WorkerAt("a"));
  Listen();
  ASSERT_TRUE(HasSlots(1)) << worker.Output();
  const Duration joined = Clock::System().monotonic();
  Reaches([&] {
    return Clock::System().monotonic() >= joined + std::chrono::seconds(2);
  });
  EXPECT_EQ(launcher_->FreeSlots(), 1);
  nodes_->SendShutdown();
  EXPECT_EQ(worker.Wait(), 0);
}

// Its trials are to end before its time does.
TEST_F(WorkerTest, DrainsItsGraceBeforeTheEndOfItsTime) {
  const Timestamp now = Clock::System().now();
  WorkerOptions early = WorkerAt("a");
  early.limits = {.until = now + std::chrono::hours(1),
                  .grace = std::chrono::hours(2)};
  StartedWorker& worker = Start(std::move(early));
  WorkerOptions later = WorkerAt("b");
  later.limits = {.until = now + std::chrono::hours(2),
                  .grace = std::chrono::hours(1)};
  StartedWorker& other = Start(std::move(later));
  Listen();

  EXPECT_TRUE(Reaches([&] {
    return notices_.find(
               "worker a on host-a takes no more trials: its time "
               "ends in ") != notices_.npos;
  })) << notices_;
  EXPECT_EQ(worker.Wait(), 0) << worker.Output();
  EXPECT_TRUE(HasSlots(1)) << other.Output();
  ASSERT_TRUE(Reaches([&] {
    return table_.workers.size() == 1 && table_.workers[0].name == "b";
  }));
  EXPECT_EQ(table_.workers[0].until, now + std::chrono::hours(2));
}

TEST_F(WorkerTest, LossIsACrashOfItsTrial) {
  StartedWorker& worker = Start(WorkerAt("a"));
  Listen();
  ASSERT_TRUE(HasSlots(1)) << worker.Output();
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

// A plan of `part` slots for parts of trials of two, of as many on the machine,
// which all processes of a test share.
SlotPlan PartOfTwo(std::int64_t part, std::int64_t on_machine = 4) {
  return {.count = 0,
          .slots_per_trial = 2,
          .part_slots = part,
          .cpu_tokens_per_trial = 2,
          .cpu_tokens = on_machine};
}

// Trials take two slots, and the workers "a" and "b" have one each.
class DividedTrialTest : public WorkerTest {
 protected:
  void StartTwo(std::int64_t on_machine = 4) {
    for (const char* const name : {"b", "a"}) {
      WorkerOptions options = WorkerAt(name);
      options.plan = [on_machine](const WorkerTask&) {
        return PartOfTwo(1, on_machine);
      };
      Start(std::move(options));
    }
  }
  void ListenForParts(std::int64_t part_here = 0) {
    Listen({.slots_per_trial = 2}, PartOfTwo(part_here));
  }
  // True if a process of a trial has the machine's first slot.
  static bool HasARank() {
    const std::vector<SlotUse> uses = SlotsInUse({}, /*cpus=*/1);
    return !uses.front().free() && uses.front().holders.front().pid != 0;
  }
  StartedWorker& WorkerB() { return *workers_.front(); }
  StartedWorker& WorkerA() { return *workers_.back(); }
};

TEST_F(DividedTrialTest, RanksOfBothWorkersConnect) {
  StartTwo();
  ListenForParts();
  ASSERT_TRUE(HasSlots(1)) << WorkerA().Output();
  EXPECT_EQ(launcher_->Capacity(), 1);
  launcher_->Start(TwoRanks("meet"));
  EXPECT_EQ(launcher_->FreeSlots(), 0);

  const auto started = Await<TrialStarted>(*launcher_);
  const auto exited = Await<TrialExited>(*launcher_);

  EXPECT_THAT(started.slots,
              ElementsAre(HasSubstr("a/cpu:"), HasSubstr("b/cpu:")))
      << "in the order of the names of machines";
  EXPECT_EQ(started.pid, 0);
  EXPECT_EQ(exited.exit_code, 0);
  EXPECT_THAT(Log(exited.trial),
              AllOf(HasSubstr("met 0 of 2"), HasSubstr("met 1 of 2")));
  ASSERT_TRUE(HasSlots(1));
  EXPECT_THAT(notices_, HasSubstr("with 1 of the 2 slots of a trial"));
}

// "host-a" comes before "z", so rank 0 is remote.
TEST_F(DividedTrialTest, RunnersMachineTakesAPart) {
  WorkerOptions options = WorkerAt("a");
  options.plan = [](const WorkerTask&) { return PartOfTwo(1); };
  Start(std::move(options));
  host_ = "z";
  ListenForParts(/*part_here=*/1);
  ASSERT_TRUE(HasSlots(1)) << WorkerA().Output();
  launcher_->Start(TwoRanks("meet"));

  EXPECT_THAT(Await<TrialStarted>(*launcher_).slots,
              ElementsAre(HasSubstr("a/cpu:"), HasSubstr("cpu:")));
  EXPECT_EQ(Await<TrialExited>(*launcher_).exit_code, 0);
  EXPECT_THAT(Log(TwoRanks("meet").id),
              AllOf(HasSubstr("met 0 of 2"), HasSubstr("met 1 of 2")));
}

TEST_F(DividedTrialTest, Rank0MayBeOnTheRunnersMachine) {
  WorkerOptions options = WorkerAt("a");
  options.plan = [](const WorkerTask&) { return PartOfTwo(1); };
  Start(std::move(options));
  host_ = "a";
  ListenForParts(/*part_here=*/1);
  ASSERT_TRUE(HasSlots(1)) << WorkerA().Output();
  launcher_->Start(TwoRanks("meet"));

  const auto started = Await<TrialStarted>(*launcher_);
  EXPECT_GT(started.pid, 0);
  EXPECT_THAT(started.slots,
              ElementsAre(HasSubstr("cpu:"), HasSubstr("a/cpu:")));
  EXPECT_EQ(Await<TrialExited>(*launcher_).exit_code, 0);
}

TEST_F(DividedTrialTest, IsListedOnBothWorkers) {
  StartTwo();
  ListenForParts();
  ASSERT_TRUE(HasSlots(1)) << WorkerA().Output();
  launcher_->SetDemand(3);
  launcher_->Start(TwoRanks("hang"));

  EXPECT_TRUE(Reaches([&] {
    return table_.workers.size() == 2 && table_.workers[0].used == 1 &&
           table_.workers[1].used == 1;
  }));
  EXPECT_THAT(table_.workers[0].trials, SizeIs(1));
  EXPECT_EQ(table_.workers[0].trials, table_.workers[1].trials);
  EXPECT_EQ(table_.workers[0].slots, 1);
  EXPECT_TRUE(Reaches([&] { return table_.demand == 6; }));
}

TEST_F(DividedTrialTest, LossOfAWorkerIsACrash) {
  StartTwo();
  ListenForParts();
  ASSERT_TRUE(HasSlots(1)) << WorkerA().Output();
  launcher_->Start(TwoRanks("hang"));
  Await<TrialStarted>(*launcher_);

  WorkerB().Signal(SIGKILL);

  const auto exited = Await<TrialExited>(*launcher_);
  EXPECT_EQ(exited.exit_code, 1);
  EXPECT_EQ(exited.rank, 1);
  EXPECT_FALSE(exited.preempted);
  EXPECT_THAT(exited.last_lines,
              ElementsAre(HasSubstr("lost worker b on host-b")));
  EXPECT_EQ(launcher_->FreeSlots(), 0);
}

TEST_F(DividedTrialTest, DrainOfAWorkerStopsAllRanks) {
  StartTwo();
  ListenForParts();
  ASSERT_TRUE(HasSlots(1)) << WorkerA().Output();
  launcher_->Start(TwoRanks("echo"));
  Await<TrialStarted>(*launcher_);

  WorkerB().Signal(SIGUSR2);

  EXPECT_EQ(AwaitMessage<Finished>(*launcher_).reason, EndReason::kStopped);
  const auto exited = Await<TrialExited>(*launcher_);
  EXPECT_TRUE(exited.preempted);
  EXPECT_FALSE(exited.killed_by_us);
  EXPECT_EQ(WorkerB().Wait(), 0) << WorkerB().Output();
  EXPECT_TRUE(Reaches([&] { return table_.workers.size() == 1; }));
}

// There is one slot on the machine: rank 0 has it, and rank 1 waits for it.
TEST_F(DividedTrialTest, DrainBeforeAllHaveStartedIsNoFailure) {
  StartTwo(/*on_machine=*/1);
  ListenForParts();
  ASSERT_TRUE(HasSlots(1)) << WorkerA().Output();
  launcher_->Start(TwoRanks("hang"));
  ASSERT_TRUE(Reaches(HasARank));

  WorkerB().Signal(SIGUSR2);

  const auto exited = Await<TrialExited>(*launcher_);
  EXPECT_TRUE(exited.preempted);
  EXPECT_EQ(exited.not_started, "");
  EXPECT_FALSE(exited.killed_by_us);
}

TEST_F(DividedTrialTest, StopBeforeAllHaveStarted) {
  StartTwo(/*on_machine=*/1);
  ListenForParts();
  ASSERT_TRUE(HasSlots(1)) << WorkerA().Output();
  launcher_->Start(TwoRanks("echo"));
  ASSERT_TRUE(Reaches(HasARank));

  launcher_->RequestStop(TwoRanks("echo").id);

  EXPECT_FALSE(Await<TrialExited>(*launcher_).preempted);
}

TEST_F(WorkerTest, AnotherVersionIsRefused) {
  StartedWorker& worker = Start(WorkerAt("a", /*trials=*/1, "2"));
  Listen();

  EXPECT_TRUE(
      Reaches([&] { return notices_.find("rejected") != notices_.npos; }));

  EXPECT_EQ(worker.Wait(), 2);
  EXPECT_THAT(worker.Output(), HasSubstr("install the same version"));
}

TEST_F(WorkerTest, WithoutTheRunnersFilesIsRefused) {
  ExpectRefused({.probes = {{directory.path() / "none/probe", "x"}}},
                "none/probe: is not on the worker's machine");
}

TEST_F(WorkerTest, WithAnotherStoreIsRefused) {
  ExpectRefused({.store = "/another/store"},
                "start the worker with --store /another");
}

TEST_F(WorkerTest, OtherNameOfTheStoreIsTheStore) {
  const auto link = directory.path() / "link";
  std::filesystem::create_directory_symlink(Options().layout.root(), link);
  StartedWorker& worker = Start(WorkerAt("a"));
  Listen({.store = link.string()});
  EXPECT_TRUE(HasSlots(1)) << worker.Output();
}

TEST_F(WorkerTest, ModelOutsideItsDirectoriesIsRefused) {
  ExpectRefused({.library = "/another/cache/model.so"},
                "/another/cache/model.so: the compiled model is not in the "
                "worker's cache");
}

TEST_F(WorkerTest, OtherCompiledModelIsRefused) {
  const auto file = Options().layout.root() / "model.so";
  std::ofstream(file) << "x";
  ExpectRefused({.library = file.string(), .library_sha256 = "0"},
                "model.so: the compiled model is not on the worker's machine "
                "as on the runner's");
}

TEST_F(WorkerTest, SameCompiledModelIsAccepted) {
  const auto file = Options().layout.root() / "model.so";
  std::ofstream(file) << "x";
  StartedWorker& worker = Start(WorkerAt("a"));
  Listen({.library = file.string(), .library_sha256 = Sha256OfFile(file)});
  EXPECT_TRUE(HasSlots(1)) << worker.Output();
}

TEST_F(WorkerTest, WithoutTheDirectoryOfTheProgramIsRefused) {
  ExpectRefused({.command = true, .context = "/no/such/directory"},
                "/no/such/directory: the directory of the program");
}

TEST_F(WorkerTest, WithoutALinkedDirectoryIsRefused) {
  const auto context = directory.path() / "context";
  std::filesystem::create_directory(context);
  ContextOrigin origin{.directory = directory.path() / "proj"};
  origin.Add("data", true);
  std::ofstream(ContextOriginPath(context)) << origin.Text();
  ExpectRefused({.command = true, .context = context.string()},
                "proj/data: is not a directory on the worker's machine, but "
                "'data' of each trial is a link to it");
}

TEST_F(WorkerTest, WithoutTheProgramIsRefused) {
  ExpectRefused(
      {.command = true,
       .cpu_environment = {{"PATH", "/no/such/bin"}},
       .context = directory.path().string(),
       .words = {"true"}},
      "entrypoint: there is no program 'true' in PATH (/no/such/bin)");
}

TEST_F(WorkerTest, SlotsOfAnotherKindAreRefused) {
  StartedWorker& worker = Start(WorkerAt("a"));
  Listen({.gpus = true});

  EXPECT_TRUE(
      Reaches([&] { return notices_.find("rejected") != notices_.npos; }));

  EXPECT_EQ(worker.Wait(), 2);
  EXPECT_THAT(worker.Output(), HasSubstr("its slots are CPUs"));
}

TEST_F(WorkerTest, LosesTheRunner) {
  StartedWorker& worker = Start(WorkerAt("a"));
  Listen();
  ASSERT_TRUE(HasSlots(1)) << worker.Output();
  launcher_.reset();
  nodes_.reset();

  EXPECT_EQ(worker.Wait(), 1);
  EXPECT_THAT(worker.Output(), HasSubstr("lost the runner at 127.0.0.1"));
}

}  // namespace
}  // namespace dtrain
