#include "engine/slots/cgroup.h"

#include <fstream>

#include <gtest/gtest.h>

#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

class CgroupTest : public ::testing::Test {
 protected:
  void Write(const std::string& name, const std::string& text) {
    std::ofstream(directory_.path() / name) << text;
  }

  TemporaryDirectory directory_;
};

TEST_F(CgroupTest, ReadsTheLimitOfVersionTwo) {
  Write("cpu.max", "250000 100000\n");
  EXPECT_EQ(CpuLimit(directory_.path()), 3);
}

TEST_F(CgroupTest, MaxIsNoLimit) {
  Write("cpu.max", "max 100000\n");
  EXPECT_FALSE(CpuLimit(directory_.path()));
}

TEST_F(CgroupTest, ReadsTheLimitOfVersionOne) {
  Write("cpu.cfs_quota_us", "50000\n");
  Write("cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(CpuLimit(directory_.path()), 1);
}

TEST_F(CgroupTest, NegativeQuotaIsNoLimit) {
  Write("cpu.cfs_quota_us", "-1\n");
  Write("cpu.cfs_period_us", "100000\n");
  EXPECT_FALSE(CpuLimit(directory_.path()));
}

TEST_F(CgroupTest, NothingIsNoLimit) {
  EXPECT_FALSE(CpuLimit(directory_.path()));
}

TEST_F(CgroupTest, CountsKillsOfVersionTwo) {
  Write("memory.events", "low 0\nhigh 4\nmax 5\noom 3\noom_kill 2\n");
  EXPECT_EQ(OutOfMemoryCounter({directory_.path() / "memory.events"}).Read(),
            2);
}

TEST_F(CgroupTest, CountsKillsOfVersionOne) {
  Write("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 7\n");
  EXPECT_EQ(
      OutOfMemoryCounter({directory_.path() / "memory.oom_control"}).Read(), 7);
}

TEST_F(CgroupTest, CountsNothingWhereNothingCanBeRead) {
  EXPECT_EQ(OutOfMemoryCounter({directory_.path() / "none"}).Read(), 0);
}

}  // namespace
}  // namespace dtrain
