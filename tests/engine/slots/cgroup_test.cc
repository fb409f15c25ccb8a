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

TEST_F(CgroupTest, MaxMeansUnlimited) {
  Write("cpu.max", "max 100000\n");
  EXPECT_FALSE(CpuLimit(directory_.path()));
}

TEST_F(CgroupTest, ReadsTheLimitOfVersionOne) {
  Write("cpu.cfs_quota_us", "50000\n");
  Write("cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(CpuLimit(directory_.path()), 1);
}

TEST_F(CgroupTest, NegativeQuotaMeansUnlimited) {
  Write("cpu.cfs_quota_us", "-1\n");
  Write("cpu.cfs_period_us", "100000\n");
  EXPECT_FALSE(CpuLimit(directory_.path()));
}

TEST_F(CgroupTest, MissingFilesMeanUnlimited) {
  EXPECT_FALSE(CpuLimit(directory_.path()));
}

// A machine whose control groups and /proc are files below the directory.
class MachineTest : public CgroupTest {
 protected:
  void Write(const std::string& name, const std::string& text) {
    const std::filesystem::path file = directory_.path() / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  std::string At(const std::string& name) const {
    return (directory_.path() / name).string();
  }
  OutOfMemoryCounter Counter() const { return OutOfMemoryCounter(At("proc")); }
  // This process is in the group `path` of version 2.
  void MakeVersionTwo(const std::string& path) {
    Write("proc/self/mounts", "tmpfs " + At("run") + " tmpfs rw 0 0\ncgroup2 " +
                                  At("cgroup") +
                                  " cgroup2 rw,nsdelegate 0 0\n");
    Write("proc/self/cgroup", "0::" + path + "\n");
    Write("proc/vmstat", "nr_free_pages 1\noom_kill 90\npgmajfault 3\n");
  }
  // This process is in `path` of version 1, where all but memory has another;
  // version 2 is there as well, and limits nothing.
  void MakeVersionOne(const std::string& path) {
    Write("proc/self/mounts",
          "cgroup " + At("cpu") + " cgroup rw,cpu,cpuacct 0 0\ncgroup " +
              At("memory") + " cgroup rw,memory 0 0\ncgroup2 " + At("unified") +
              " cgroup2 rw 0 0\n");
    Write("proc/self/cgroup",
          "9:cpu,cpuacct:/other\n4:memory:" + path + "\n0::" + path + "\n");
    Write("unified" + path + "/memory.pressure", "some avg10=0.00\n");
    Write("proc/vmstat", "nr_free_pages 1\noom_kill 90\n");
  }
};

TEST_F(MachineTest, CountsKillsOfVersionTwo) {
  MakeVersionTwo("/user/session");
  Write("cgroup/user/session/memory.events",
        "low 0\nhigh 4\nmax 5\noom 3\noom_kill 2\noom_group_kill 7\n");
  Write("cgroup/user/memory.events", "oom 30\noom_kill 20\n");
  const OutOfMemoryCounter counter = Counter();
  EXPECT_EQ(counter.Read(), 2);
  Write("cgroup/user/session/memory.events", "oom 4\noom_kill 3\n");
  EXPECT_EQ(counter.Read(), 3);
}

// Only groups that the memory controller is enabled for have such a file.
TEST_F(MachineTest, CountsInTheNearestGroupWithACounter) {
  MakeVersionTwo("/user/session");
  Write("cgroup/user/session/cgroup.procs", "1\n");
  Write("cgroup/user/memory.events", "oom 30\noom_kill 20\n");
  EXPECT_EQ(Counter().Read(), 20);
}

// In a container the path may be one of outside.
TEST_F(MachineTest, CountsInTheRootIfTheGroupIsHidden) {
  MakeVersionTwo("/outside/of/it");
  Write("cgroup/memory.events", "oom_kill 5\n");
  EXPECT_EQ(Counter().Read(), 5);
}

TEST_F(MachineTest, CountsOnTheMachineWithoutAGroupCounter) {
  MakeVersionTwo("/user");
  Write("cgroup/user/cgroup.procs", "1\n");
  EXPECT_EQ(Counter().Read(), 90);
}

TEST_F(MachineTest, CountsKillsOfVersionOne) {
  MakeVersionOne("/job");
  Write("memory/job/memory.oom_control",
        "oom_kill_disable 0\nunder_oom 0\noom_kill 7\n");
  Write("cpu/other/memory.oom_control", "oom_kill 70\n");
  EXPECT_EQ(Counter().Read(), 7);
}

TEST_F(MachineTest, CountsNothingIfNothingIsReadable) {
  EXPECT_EQ(Counter().Read(), 0);
}

TEST_F(MachineTest, FindsTheGroupsOfAControllerUpwards) {
  MakeVersionOne("/job/step");
  Write("memory/job/step/tasks", "");
  EXPECT_EQ(CgroupDirectories("memory", At("proc")),
            (std::vector<std::filesystem::path>{
                At("memory/job/step"), At("memory/job"), At("memory"),
                At("unified/job/step"), At("unified/job"), At("unified")}));
  EXPECT_EQ(CgroupDirectories("pids", At("proc")).size(), 3);
}

}  // namespace
}  // namespace dtrain
