#include "tests/support/slurm_cluster.h"

#include <chrono>
#include <string>

#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/os/process.h"
#include "engine/os/spawn.h"

namespace dtrain {
namespace {

using testing::HasSubstr;

// As in many containers. slurmd ends at once and says why.
TEST(SlurmClusterTest, RepeatsTheWordsOfADaemonThatCannotStart) {
  std::optional<SlurmCluster> cluster;
  if (const std::string why = StartSlurm(cluster); !why.empty()) {
    GTEST_SKIP() << why;
  }
  cluster.reset();
  if (RunCaptured({"unshare", "--mount", "true"}, EnvironmentWith({}),
                  std::chrono::minutes(1))
          .status.code != 0) {
    GTEST_SKIP() << "mounting is not permitted";
  }

  const CapturedRun run =
      RunCaptured({"unshare", "--mount", "sh", "-c",
                   "mount -t tmpfs none /sys/fs/cgroup || exit 1; exec \"$0\"",
                   DTRAIN_SLURM_CLUSTER},
                  EnvironmentWith({}), std::chrono::minutes(4));

  EXPECT_EQ(run.status.code, 77) << run.errors;
  EXPECT_THAT(run.errors, HasSubstr("slurmd1 has ended: "));
  EXPECT_THAT(run.errors, HasSubstr("cgroup"));
}

}  // namespace
}  // namespace dtrain
