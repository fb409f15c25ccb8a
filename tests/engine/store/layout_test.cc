#include "engine/store/layout.h"

#include <gtest/gtest.h>

namespace dtrain {
namespace {

TEST(StoreLayoutTest, PathsAreMadeOfIntegersAndUuids) {
  const StoreLayout layout("/s");

  EXPECT_EQ(layout.Database(), "/s/dtrain.db");
  EXPECT_EQ(layout.WriteLock(), "/s/dtrain.db.lock");
  EXPECT_EQ(layout.Experiment(3), "/s/experiments/3");
  EXPECT_EQ(layout.RunnerLock(3), "/s/experiments/3/runner.lock");
  EXPECT_EQ(layout.RunnerLog(3), "/s/experiments/3/runner.log");
  EXPECT_EQ(layout.Trial({3, 7}), "/s/experiments/3/trials/7");
  EXPECT_EQ(layout.TrialLog({3, 7}), "/s/experiments/3/trials/7/log");
  EXPECT_EQ(layout.Checkpoint({3, 7}, "ab"),
            "/s/experiments/3/trials/7/checkpoints/ab");
}

}  // namespace
}  // namespace dtrain
