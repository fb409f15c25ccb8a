#include "engine/base/json_depth.h"

#include <string>

#include <gtest/gtest.h>

namespace dtrain {
namespace {

using nlohmann::json;

TEST(JsonDepthTest, ScalarsDoNotNest) {
  EXPECT_FALSE(NestsDeeperThan(json("text"), 0));
  EXPECT_FALSE(NestsDeeperThan(json(nullptr), 0));
}

TEST(JsonDepthTest, CountsListsAndMaps) {
  const json two = json::parse(R"([1, {"a": 2}])");
  EXPECT_TRUE(NestsDeeperThan(two, 1));
  EXPECT_FALSE(NestsDeeperThan(two, 2));
}

TEST(JsonDepthTest, EmptyOnesCountToo) {
  EXPECT_TRUE(NestsDeeperThan(json::array(), 0));
  EXPECT_FALSE(NestsDeeperThan(json::array(), 1));
}

TEST(JsonDepthTest, ManyMoreLevelsThanAStackHolds) {
  const std::string open(500'000, '[');
  const std::string close(500'000, ']');
  EXPECT_TRUE(NestsDeeperThan(json::parse(open + close)));
}

}  // namespace
}  // namespace dtrain
