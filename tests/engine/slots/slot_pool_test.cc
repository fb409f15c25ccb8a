#include "engine/slots/slot_pool.h"

#include <csignal>
#include <cstdlib>
#include <fstream>

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>

#include "engine/base/error.h"
#include "engine/os/file_lock.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class SlotPoolTest : public ::testing::Test {
 protected:
  SlotPoolTest() {
    ::setenv("DTRAIN_RUNTIME_DIR", runtime_.c_str(), /*replace=*/1);
  }
  ~SlotPoolTest() override { ::unsetenv("DTRAIN_RUNTIME_DIR"); }

  static SlotPool CpuPool(std::int64_t tokens, std::int64_t per_trial) {
    return SlotPool({.cpu_tokens_per_trial = per_trial, .cpu_tokens = tokens},
                    Clock::System());
  }
  static SlotPool GpuPool(std::vector<std::int64_t> indexes,
                          std::int64_t per_trial = 1) {
    SlotPlan plan{.slots_per_trial = per_trial};
    for (const std::int64_t index : indexes) {
      plan.gpus.push_back({.index = index, .uuid = "GPU-x"});
    }
    return SlotPool(std::move(plan), Clock::System());
  }
  // Whether the pool is told within five seconds that it may try again.
  static bool IsWoken(const SlotPool& pool) {
    pollfd entry{.fd = pool.wake_fd(), .events = POLLIN, .revents = 0};
    return ::poll(&entry, 1, 60'000) == 1;
  }
  static std::string Refusal() {
    try {
      CpuPool(1, 1);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kResources);
      return error.what();
    }
    return "";
  }

  TemporaryDirectory directory_;
  std::filesystem::path runtime_ = directory_.path() / "runtime";
};

TEST_F(SlotPoolTest, AssignsEachSlotOnce) {
  SlotPool pool = CpuPool(2, 1);
  const auto first = pool.TryTake();
  const auto second = pool.TryTake();
  ASSERT_TRUE(first && second);
  EXPECT_THAT(first->slots, ElementsAre("cpu:0"));
  EXPECT_THAT(second->slots, ElementsAre("cpu:1"));
  EXPECT_FALSE(pool.TryTake());
}

TEST_F(SlotPoolTest, SlotIsFreedWithTheLastCopyOfItsLock) {
  SlotPool mine = CpuPool(1, 1);
  SlotPool other = CpuPool(1, 1);
  auto lease = mine.TryTake();
  const UniqueFd copy(::dup(lease->locks[0].get()));
  lease.reset();
  EXPECT_FALSE(other.TryTake());
}

TEST_F(SlotPoolTest, WakesWaiters) {
  SlotPool mine = CpuPool(1, 1);
  SlotPool other = CpuPool(1, 1);
  auto lease = mine.TryTake();
  ASSERT_FALSE(other.TryTake());
  lease.reset();
  ASSERT_TRUE(IsWoken(other));
  other.OnWake();
  EXPECT_LE(other.retry_at(), Clock::System().monotonic());
  EXPECT_TRUE(other.TryTake());
  EXPECT_FALSE(other.waiting());
}

TEST_F(SlotPoolTest, FailedAttemptsWakeNoWaiter) {
  SlotPool mine = CpuPool(2, 2);
  SlotPool other = CpuPool(2, 2);
  const auto lease = mine.TryTake();
  ASSERT_FALSE(other.TryTake());
  ASSERT_FALSE(mine.TryTake());
  other.OnWake();  // the ticket of `mine`
  ASSERT_FALSE(other.TryTake());
  const Duration retry_at = other.retry_at();
  ASSERT_FALSE(mine.TryTake());
  other.OnWake();
  EXPECT_EQ(other.retry_at(), retry_at);
}

TEST_F(SlotPoolTest, TakesAllTokensOrNone) {
  SlotPool small = CpuPool(3, 2);
  SlotPool wide = CpuPool(3, 3);
  const auto two = small.TryTake();
  ASSERT_TRUE(two);
  EXPECT_FALSE(wide.TryTake());
  wide.StopWaiting();
  SlotPool one = CpuPool(3, 1);
  EXPECT_TRUE(one.TryTake()) << "the third token is still there";
}

TEST_F(SlotPoolTest, TakesAllGpusOfATrialOrNone) {
  SlotPool one = GpuPool({1});
  SlotPool two = GpuPool({0, 1, 2}, /*per_trial=*/2);
  SlotPool three = GpuPool({0, 1, 2}, /*per_trial=*/3);
  const auto single = one.TryTake();
  EXPECT_FALSE(three.TryTake());
  three.StopWaiting();
  const auto pair = two.TryTake();
  ASSERT_TRUE(pair);
  EXPECT_THAT(pair->slots, ElementsAre("gpu:0", "gpu:2"));
  ASSERT_EQ(pair->gpus.size(), 2u);
  EXPECT_EQ(pair->gpus[0].index, 0);
  EXPECT_EQ(pair->gpus[1].index, 2);
}

// The machine has three slots of two CPUs each for parts of trials of four.
TEST_F(SlotPoolTest, TakesTheSlotsOfAPart) {
  SlotPool pool({.count = 0,
                 .slots_per_trial = 4,
                 .part_slots = 3,
                 .cpu_tokens_per_trial = 8,
                 .cpu_tokens = 6},
                Clock::System());
  EXPECT_EQ(pool.trials(), 3);
  const auto first = pool.TryTake({.part = 2});
  ASSERT_TRUE(first);
  EXPECT_EQ(first->slots.size(), 4);
  EXPECT_FALSE(pool.TryTake({.part = 2}));
  EXPECT_TRUE(pool.TryTake({.part = 1}));
}

TEST_F(SlotPoolTest, PartOfAllGpusNeedsAllOfThem) {
  SlotPool pool({.count = 0,
                 .slots_per_trial = 4,
                 .part_slots = 2,
                 .gpus = {{.index = 0}, {.index = 1}}},
                Clock::System());
  EXPECT_TRUE(pool.usable());
  pool.SetAside(1);
  EXPECT_FALSE(pool.usable());
  EXPECT_EQ(pool.trials(), 1);
  const auto rest = pool.TryTake({.part = 1});
  ASSERT_TRUE(rest);
  EXPECT_THAT(rest->slots, ElementsAre("gpu:0"));
}

TEST_F(SlotPoolTest, ServesTheLongestWaiterFirst) {
  SlotPool holder = CpuPool(2, 1);
  SlotPool wide = CpuPool(2, 2);
  SlotPool narrow = CpuPool(2, 1);
  auto lease = holder.TryTake();
  ASSERT_FALSE(wide.TryTake());
  EXPECT_FALSE(narrow.TryTake()) << "one is free, but wide came first";
  lease.reset();
  EXPECT_FALSE(narrow.TryTake());
  EXPECT_TRUE(wide.TryTake());
}

TEST_F(SlotPoolTest, WaitersForOtherSlotsDoNotBlock) {
  SlotPool first = GpuPool({0});
  SlotPool second = GpuPool({0});
  SlotPool third = GpuPool({1});
  const auto lease = first.TryTake();
  ASSERT_FALSE(second.TryTake());
  const auto other = third.TryTake();
  ASSERT_TRUE(other);
  EXPECT_THAT(other->slots, ElementsAre("gpu:1"));
  EXPECT_EQ(other->gpus.at(0).uuid, "GPU-x");
}

TEST_F(SlotPoolTest, ForgetsDeadWaiters) {
  SlotPool mine = CpuPool(1, 1);
  auto lease = mine.TryTake();
  const pid_t waiter = ::fork();
  if (waiter == 0) {
    SlotPool theirs = CpuPool(1, 1);
    static_cast<void>(theirs.TryTake());
    std::raise(SIGKILL);
  }
  ::waitpid(waiter, nullptr, 0);
  // The child had a copy of the lock; it is gone with it.
  lease.reset();
  EXPECT_TRUE(mine.TryTake());
}

TEST_F(SlotPoolTest, SkipsStoppedWaiters) {
  SlotPool holder = CpuPool(1, 1);
  SlotPool stopped = CpuPool(1, 1);
  auto lease = holder.TryTake();
  ASSERT_FALSE(stopped.TryTake());
  lease.reset();
  EXPECT_FALSE(holder.TryTake());
  holder.StopWaiting();
  const timespec long_ago[2] = {{.tv_sec = 1000, .tv_nsec = 0},
                                {.tv_sec = 1000, .tv_nsec = 0}};
  const auto ticket = runtime_ / "wait-000000000000000001";
  ASSERT_EQ(::utimensat(AT_FDCWD, ticket.c_str(), long_ago, 0), 0);
  EXPECT_TRUE(holder.TryTake());
}

TEST_F(SlotPoolTest, RetriesABusyQueueSoon) {
  SlotPool pool = CpuPool(1, 1);
  FileLock queue = FileLock::Open(runtime_ / "queue");
  ASSERT_TRUE(queue.TryLock());
  EXPECT_FALSE(pool.TryTake());
  EXPECT_TRUE(pool.waiting());
  EXPECT_LT(pool.retry_at() - Clock::System().monotonic(),
            std::chrono::milliseconds(10));
}

TEST_F(SlotPoolTest, SlotOfARemovedFileIsMadeAgain) {
  SlotPool pool = CpuPool(1, 1);
  ASSERT_TRUE(pool.TryTake());
  const auto held = pool.TryTake();
  ASSERT_TRUE(held);
  EXPECT_FALSE(pool.TryTake());
  std::filesystem::remove(runtime_ / "cpu-0");
  EXPECT_TRUE(pool.TryTake());
}

TEST_F(SlotPoolTest, ShowsTheHolderOfEachSlot) {
  SlotPool pool = CpuPool(2, 1);
  const auto lease = pool.TryTake();
  DescribeHolder(*lease, {.experiment = 3, .number = 7}, 4242, "/a/store");
  const auto uses = SlotsInUse({{.index = 0}}, 2);
  ASSERT_EQ(uses.size(), 3U);
  EXPECT_EQ(uses[0].slot, "gpu:0");
  EXPECT_TRUE(uses[0].free());
  EXPECT_EQ(uses[0].free_share(), 1);
  EXPECT_EQ(uses[1].slot, "cpu:0");
  ASSERT_EQ(uses[1].holders.size(), 1U);
  EXPECT_EQ(uses[1].holders[0].pid, 4242);
  EXPECT_EQ(uses[1].holders[0].trial, "3.7");
  EXPECT_EQ(uses[1].holders[0].store, "/a/store");
  EXPECT_EQ(uses[1].free_share(), 0);
  EXPECT_TRUE(uses[2].free());
}

TEST_F(SlotPoolTest, QueriesCreateNoFiles) {
  EXPECT_TRUE(SlotsInUse({}, 1).at(0).free());
  EXPECT_FALSE(std::filesystem::exists(runtime_));
}

TEST_F(SlotPoolTest, DirectoryIsPrivate) {
  std::filesystem::create_directory(runtime_);
  std::filesystem::permissions(runtime_, std::filesystem::perms::all);
  SlotPool pool = CpuPool(1, 1);
  // It may be /tmp: what dtrain did not make keeps its mode.
  EXPECT_EQ(std::filesystem::status(runtime_).permissions(),
            std::filesystem::perms::all);
  const auto own = runtime_ / ("dtrain-" + std::to_string(::geteuid()));
  EXPECT_EQ(std::filesystem::status(own).permissions(),
            std::filesystem::perms::owner_all);
  ASSERT_TRUE(pool.TryTake());
  EXPECT_TRUE(std::filesystem::exists(own / "cpu-0"));
}

TEST_F(SlotPoolTest, RefusesAnotherUsersDirectory) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root makes what is of another";
  std::filesystem::create_directory(runtime_);
  std::filesystem::permissions(runtime_, std::filesystem::perms::all);
  const auto own = runtime_ / "dtrain-0";
  std::filesystem::create_directory(own);
  ASSERT_EQ(::chown(own.c_str(), 65534, 65534), 0);
  EXPECT_THAT(Refusal(), HasSubstr("dtrain-0: belongs to another user"));
}

TEST_F(SlotPoolTest, FollowsNoSymlink) {
  std::filesystem::create_directory(directory_.path() / "elsewhere");
  std::filesystem::create_symlink(directory_.path() / "elsewhere", runtime_);
  EXPECT_THAT(Refusal(), HasSubstr("is not a directory"));
}

TEST_F(SlotPoolTest, NamesADirectoryThatCannotBeCreated) {
  ::setenv("DTRAIN_RUNTIME_DIR", "/proc/none", /*replace=*/1);
  EXPECT_THAT(Refusal(), HasSubstr("/proc/none: cannot be created"));
}

TEST_F(SlotPoolTest, NamesLongerWaiters) {
  SlotPool a = CpuPool(2, 1);
  SlotPool b = CpuPool(2, 2);
  SlotPool c = CpuPool(2, 1);
  const auto lease = a.TryTake({.trials = {"1.1"}, .store = "/s"});
  ASSERT_TRUE(lease);
  DescribeHolder(*lease, {1, 1}, ::getpid(), "/s");
  EXPECT_FALSE(b.TryTake({.trials = {"2.1"}, .store = "/s"}));
  // One slot is free, and is for the one that came before.
  EXPECT_FALSE(c.TryTake({.trials = {"3.1"}, .store = "/t"}));

  const std::vector<SlotWait> waits = SlotWaits();
  ASSERT_EQ(waits.size(), 2u);
  EXPECT_EQ(waits[0].ToString(), "waiting for 2 of 2 cores, held by 1.1");
  EXPECT_EQ(waits[1].ToString(),
            "waiting for 1 of 2 cores, held by 1.1 of /s, after 2.1 of /s, "
            "which waits longer");
}

}  // namespace
}  // namespace dtrain
