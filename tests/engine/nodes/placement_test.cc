#include "engine/nodes/placement.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dtrain {
namespace {

using Machines = std::vector<NodeSlots>;

TEST(PlacementTest, CountsWholeTrials) {
  EXPECT_EQ(RoomForTrials(Machines{}, 2), 0);
  EXPECT_EQ(RoomForTrials(Machines{{1, 8, 5}, {2, 8, 1}, {3, 2, 2}}, 2), 3);
}

TEST(PlacementTest, PrefersTheRunnersMachine) {
  EXPECT_EQ(PlaceTrial(Machines{{0, 4, 4}, {1, 4, 2}}, 2), (ShardPlace{0, 2}));
  EXPECT_EQ(PlaceTrial(Machines{{0, 4, 1}, {1, 4, 2}}, 2), (ShardPlace{1, 2}));
}

TEST(PlacementTest, FillsTheBusiestMachineThatHasRoom) {
  EXPECT_EQ(PlaceTrial(Machines{{1, 8, 8}, {2, 8, 3}, {3, 8, 1}}, 2),
            (ShardPlace{2, 2}));
  EXPECT_EQ(PlaceTrial(Machines{{1, 8, 8}, {2, 8, 8}}, 2), (ShardPlace{1, 2}));
}

TEST(PlacementTest, WaitsWithoutRoom) {
  EXPECT_EQ(PlaceTrial(Machines{}, 1), std::nullopt);
  EXPECT_EQ(PlaceTrial(Machines{{0, 4, 1}, {1, 4, 1}}, 2), std::nullopt);
}

}  // namespace
}  // namespace dtrain
