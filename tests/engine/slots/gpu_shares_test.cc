// Shares of GPUs, as several runners take them.
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <optional>

#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>

#include "engine/slots/slot_directory.h"
#include "engine/slots/slot_pool.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class GpuSharesTest : public ::testing::Test {
 protected:
  GpuSharesTest() {
    ::setenv("DTRAIN_RUNTIME_DIR", runtime_.c_str(), /*replace=*/1);
  }
  ~GpuSharesTest() override { ::unsetenv("DTRAIN_RUNTIME_DIR"); }

  /// A runner that may use GPUs 0 to `gpus` − 1, for trials of that share.
  static SlotPool Runner(double share, std::int64_t gpus = 1) {
    return SlotPool({.gpus = Gpus(gpus), .gpu_share = share}, Clock::System());
  }
  static std::vector<Gpu> Gpus(std::int64_t count) {
    std::vector<Gpu> gpus;
    for (std::int64_t index = 0; index < count; ++index) {
      gpus.push_back({.index = index, .uuid = "GPU-x"});
    }
    return gpus;
  }
  /// The GPU of a trial that takes its share now; −1: it has to wait.
  std::int64_t AcquireShare(SlotPool& runner) {
    auto lease = runner.TryTake();
    if (!lease) return -1;
    leases_.push_back(*std::move(lease));
    return leases_.back().gpus.at(0).index;
  }
  /// The first lock on GPU 0 as versions without shares take it.
  bool OldRunnerGets() {
    const SlotDirectory directory = SlotDirectory::Open();
    return FileLock(directory.OpenFile(GpuFile(0))).TryLock();
  }

  /// A runner in a process of its own whose trials, ten in a row, have that
  /// share. Its exit code is 0 if a GPU was enough for all who had one of it:
  /// `quarters` counts those.
  static pid_t StartRunner(double share, std::atomic<int>& quarters) {
    const pid_t runner = ::fork();
    if (runner != 0) return runner;
    SlotPool pool = Runner(share);
    const int own = static_cast<int>(ToQuarters(share));
    for (int trial = 0; trial < 10; ++trial) {
      std::optional<SlotLease> lease;
      while (!(lease = pool.TryTake())) ::poll(nullptr, 0, 1);
      if (quarters.fetch_add(own) + own > kQuarters) ::_exit(1);
      ::poll(nullptr, 0, /*milliseconds=*/1);
      quarters.fetch_sub(own);
    }
    ::_exit(0);
  }

  TemporaryDirectory directory_;
  std::filesystem::path runtime_ = directory_.path() / "runtime";
  std::vector<SlotLease> leases_;
};

TEST_F(GpuSharesTest, SkipsAGpuThatIsSetAside) {
  SlotPool runner = Runner(0.5, 2);
  runner.SetAside(0);
  EXPECT_EQ(AcquireShare(runner), 1);
  EXPECT_EQ(AcquireShare(runner), 1);
  EXPECT_EQ(AcquireShare(runner), -1);
  runner.Restore(0);
  EXPECT_EQ(AcquireShare(runner), 0);
}

TEST_F(GpuSharesTest, CountsTrialsWithoutGpusThatAreSetAside) {
  SlotPool pool({.count = 8, .gpus = Gpus(2), .gpu_share = 0.25},
                Clock::System());
  EXPECT_EQ(pool.trials(), 8);
  pool.SetAside(1);
  EXPECT_EQ(pool.trials(), 4);
  pool.SetAside(0);
  EXPECT_EQ(pool.trials(), 0);
}

TEST_F(GpuSharesTest, FourQuartersAreAGpu) {
  SlotPool runner = Runner(0.25);
  EXPECT_EQ(AcquireShare(runner), 0);
  EXPECT_EQ(AcquireShare(runner), 0);
  EXPECT_EQ(AcquireShare(runner), 0);
  EXPECT_EQ(AcquireShare(runner), 0);
  EXPECT_EQ(AcquireShare(runner), -1);
}

TEST_F(GpuSharesTest, TrialSeesItsGpuByName) {
  SlotPool runner = Runner(0.5);
  const auto lease = runner.TryTake();
  ASSERT_TRUE(lease);
  EXPECT_THAT(lease->slots, ElementsAre("gpu:0"));
  EXPECT_EQ(lease->gpus.at(0).uuid, "GPU-x");
}

TEST_F(GpuSharesTest, HalfOfAGpuWaitsForTwoQuarters) {
  SlotPool quarters = Runner(0.25);
  SlotPool half = Runner(0.5);
  AcquireShare(quarters);
  AcquireShare(quarters);
  AcquireShare(quarters);
  EXPECT_EQ(AcquireShare(half), -1);
  leases_.erase(leases_.begin());
  EXPECT_EQ(AcquireShare(half), 0);
}

TEST_F(GpuSharesTest, ShareIsOnOneGpu) {
  SlotPool half = Runner(0.5, 2);
  SlotPool large = Runner(0.75, 2);
  EXPECT_EQ(AcquireShare(large), 0);
  EXPECT_EQ(AcquireShare(half), 1);
  EXPECT_EQ(AcquireShare(large), -1)
      << "a quarter of 0 and a half of 1 are free";
  EXPECT_EQ(leases_.size(), 2U);
}

TEST_F(GpuSharesTest, WholeGpuHasNoShares) {
  SlotPool quarter = Runner(0.25, 2);
  SlotPool whole = Runner(1, 2);
  EXPECT_EQ(AcquireShare(quarter), 0);
  EXPECT_EQ(AcquireShare(whole), 1);
  EXPECT_EQ(AcquireShare(whole), -1);
  leases_.erase(leases_.begin());
  EXPECT_EQ(AcquireShare(whole), 0);
  EXPECT_EQ(AcquireShare(quarter), -1);
}

TEST_F(GpuSharesTest, TakesTheFullestGpuWithRoom) {
  SlotPool first = Runner(0.25, 1);
  SlotPool quarter = Runner(0.25, 3);
  SlotPool half = Runner(0.5, 3);
  EXPECT_EQ(AcquireShare(quarter), 0) << "of those that are empty the first";
  EXPECT_EQ(AcquireShare(first), 0);
  EXPECT_EQ(AcquireShare(first), 0);
  EXPECT_EQ(AcquireShare(half), 1) << "it has no room on 0";
  EXPECT_EQ(AcquireShare(half), 1) << "2 stays whole";
  EXPECT_EQ(AcquireShare(half), 2);
  EXPECT_EQ(AcquireShare(quarter), 0);
  EXPECT_EQ(AcquireShare(quarter), 2);
}

TEST_F(GpuSharesTest, FailedAttemptLeavesNothingLocked) {
  SlotPool three = Runner(0.75);
  SlotPool half = Runner(0.5);
  SlotPool quarter = Runner(0.25);
  EXPECT_EQ(AcquireShare(three), 0);
  EXPECT_EQ(AcquireShare(half), -1);
  half.StopWaiting();
  EXPECT_EQ(AcquireShare(quarter), 0);
  leases_.clear();
  SlotPool whole = Runner(1);
  EXPECT_EQ(AcquireShare(whole), 0);
}

TEST_F(GpuSharesTest, ServesTheLongestWaiterFirst) {
  SlotPool quarter = Runner(0.25);
  SlotPool whole = Runner(1);
  AcquireShare(quarter);
  EXPECT_EQ(AcquireShare(whole), -1);
  EXPECT_EQ(AcquireShare(quarter), -1)
      << "three are free, but whole came first";
  leases_.clear();
  EXPECT_EQ(AcquireShare(quarter), -1);
  EXPECT_EQ(AcquireShare(whole), 0);
  leases_.clear();
  EXPECT_EQ(AcquireShare(quarter), 0);
}

TEST_F(GpuSharesTest, WaitersForOtherGpusDoNotBlock) {
  SlotPool whole = Runner(1, 1);
  SlotPool next = Runner(1, 1);
  AcquireShare(whole);
  EXPECT_EQ(AcquireShare(next), -1);
  SlotPool other({.gpus = {{.index = 1}}, .gpu_share = 0.25}, Clock::System());
  EXPECT_EQ(AcquireShare(other), 1);
}

TEST_F(GpuSharesTest, FreesSharesOfDeadProcesses) {
  const pid_t holder = ::fork();
  if (holder == 0) {
    SlotPool runner = Runner(0.75);
    const auto lease = runner.TryTake();
    std::raise(lease ? SIGKILL : SIGTERM);
  }
  int status = 0;
  ::waitpid(holder, &status, 0);
  ASSERT_EQ(WTERMSIG(status), SIGKILL) << "it had no share";
  SlotPool whole = Runner(1);
  EXPECT_EQ(AcquireShare(whole), 0);
}

TEST_F(GpuSharesTest, ShareLastsAsLongAsAnyCopyOfItsLocks) {
  SlotPool large = Runner(0.75);
  auto lease = large.TryTake();
  ASSERT_TRUE(lease);
  std::vector<UniqueFd> copies;
  for (const UniqueFd& lock : lease->locks) {
    copies.emplace_back(::dup(lock.get()));
  }
  lease.reset();
  EXPECT_EQ(AcquireShare(large), -1);
  copies.clear();
  EXPECT_EQ(AcquireShare(large), 0);
}

TEST_F(GpuSharesTest, ManyRunnersNeverExceedTheGpus) {
  void* memory =
      ::mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto& quarters = *new (memory) std::atomic<int>(0);
  std::vector<pid_t> runners;
  for (const double share : {0.25, 0.5, 0.25, 1.0, 0.75, 0.25, 1.0}) {
    runners.push_back(StartRunner(share, quarters));
  }
  for (const pid_t runner : runners) {
    int status = -1;
    ::waitpid(runner, &status, 0);
    EXPECT_EQ(status, 0);
  }
  ::munmap(memory, sizeof(std::atomic<int>));
}

TEST_F(GpuSharesTest, OlderRunnersAvoidSharedGpus) {
  SlotPool quarter = Runner(0.25);
  EXPECT_TRUE(OldRunnerGets());
  AcquireShare(quarter);
  EXPECT_FALSE(OldRunnerGets());
  AcquireShare(quarter);
  leases_.erase(leases_.begin());
  EXPECT_FALSE(OldRunnerGets());
  leases_.clear();
  EXPECT_TRUE(OldRunnerGets());
}

TEST_F(GpuSharesTest, GivesNoSharesOfAGpuOfAnOlderRunner) {
  const SlotDirectory directory = SlotDirectory::Open();
  FileLock file(directory.OpenFile(GpuFile(0)));
  ASSERT_TRUE(file.TryLock());
  SlotPool quarter = Runner(0.25);
  EXPECT_EQ(AcquireShare(quarter), -1);
  EXPECT_FALSE(SlotsInUse(Gpus(1), 0).at(0).free());
}

TEST_F(GpuSharesTest, ShowsTheHolderOfEachShare) {
  SlotPool quarter = Runner(0.25);
  SlotPool half = Runner(0.5);
  AcquireShare(quarter);
  AcquireShare(half);
  DescribeHolder(leases_[0], {.experiment = 3, .number = 7}, 4242, "/a");
  DescribeHolder(leases_[1], {.experiment = 1, .number = 2}, 4343, "/b");
  const SlotUse use = SlotsInUse(Gpus(1), 0).at(0);
  EXPECT_EQ(use.slot, "gpu:0");
  ASSERT_EQ(use.holders.size(), 2U);
  EXPECT_EQ(use.holders[0].trial, "3.7");
  EXPECT_EQ(use.holders[0].pid, 4242);
  EXPECT_EQ(use.holders[0].share, 0.25);
  EXPECT_EQ(use.holders[1].trial, "1.2");
  EXPECT_EQ(use.holders[1].store, "/b");
  EXPECT_EQ(use.holders[1].share, 0.5);
  EXPECT_EQ(use.free_share(), 0.25);
}

TEST_F(GpuSharesTest, ShowsAWholeGpuAsOneHolders) {
  SlotPool whole = Runner(1);
  AcquireShare(whole);
  const SlotUse use = SlotsInUse(Gpus(1), 0).at(0);
  ASSERT_EQ(use.holders.size(), 1U);
  EXPECT_EQ(use.holders[0].share, 1);
  EXPECT_EQ(use.free_share(), 0);
  leases_.clear();
  EXPECT_THAT(SlotsInUse(Gpus(1), 0).at(0).holders, IsEmpty());
}

}  // namespace
}  // namespace dtrain
