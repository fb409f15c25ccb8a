#include "engine/base/json.h"

#include <cmath>
#include <limits>
#include <string>

#include <gtest/gtest.h>

#include "engine/base/error.h"

namespace dtrain {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(JsonNumberTest, FiniteNumbersAreNumbers) {
  EXPECT_EQ(JsonNumber(0.1).dump(), "0.1");
  EXPECT_EQ(NumberFromJson(JsonNumber(-1e300)), -1e300);
  EXPECT_EQ(NumberFromJson(3), 3);
}

TEST(JsonNumberTest, NanAndInfinitiesAreStrings) {
  EXPECT_EQ(JsonNumber(std::nan("")), "NaN");
  EXPECT_EQ(JsonNumber(kInfinity), "Infinity");
  EXPECT_EQ(JsonNumber(-kInfinity), "-Infinity");
  EXPECT_TRUE(std::isnan(NumberFromJson("NaN")));
  EXPECT_EQ(NumberFromJson("Infinity"), kInfinity);
  EXPECT_EQ(NumberFromJson("-Infinity"), -kInfinity);
}

TEST(JsonNumberTest, OtherValuesAreRefused) {
  EXPECT_THROW(NumberFromJson("1"), Error);
  EXPECT_THROW(NumberFromJson(nullptr), Error);
  EXPECT_THROW(NumberFromJson(true), Error);
}

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

TEST(FlattenNamesTest, JoinsNestedNamesByDots) {
  const json nested = {{"a", {{"b", 1}, {"c", {{"d", "x"}}}}},
                       {"e", json::object()},
                       {"f", {1, 2}}};
  EXPECT_EQ(
      FlattenNames(nested),
      (std::map<std::string, json>{
          {"a.b", 1}, {"a.c.d", "x"}, {"e", json::object()}, {"f", {1, 2}}}));
}

TEST(FlattenNamesTest, IsEmptyForWhatIsNoObject) {
  EXPECT_TRUE(FlattenNames(3).empty());
  EXPECT_TRUE(FlattenNames(nullptr).empty());
  EXPECT_TRUE(FlattenNames(json::object()).empty());
}

TEST(FindMemberTest, FollowsDotsToNestedMembers) {
  const json nested = {{"a", {{"b", {{"c", 1}}}}}, {"d", 2}};
  EXPECT_EQ(*FindMember(nested, "a.b.c"), 1);
  EXPECT_EQ(*FindMember(nested, "d"), 2);
  EXPECT_EQ(FindMember(nested, "a.c"), nullptr);
  EXPECT_EQ(FindMember(nested, "d.e"), nullptr);
  EXPECT_EQ(FindMember(3, "d"), nullptr);
}

TEST(FindMemberTest, FindsAMemberBelowANameWithADot) {
  const json below = {{"a.b", {{"c.d", {{"e", 1}}}}}, {"a", {{"b", 2}}}};
  EXPECT_EQ(*FindMember(below, "a.b.c.d.e"), 1);
  EXPECT_EQ(FindMember(below, "a.b.c.e"), nullptr);
}

TEST(FindMemberTest, PrefersANameWithADot) {
  const json both = {{"a", {{"b", 1}}}, {"a.b", 2}};
  EXPECT_EQ(*FindMember(both, "a.b"), 2);
}

}  // namespace
}  // namespace dtrain
