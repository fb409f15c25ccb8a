#include "engine/analysis/search_axes.h"

#include <cmath>

#include <gtest/gtest.h>

namespace dtrain {
namespace {

using nlohmann::json;

SearchAxis OnlyAxis(const json& range, bool grid = false) {
  const auto axes = SearchAxes({{"h", range}}, grid);
  return axes.size() == 1 ? axes[0] : SearchAxis{.name = "not one axis"};
}

TEST(SearchAxesTest, LeavesOutConstants) {
  const json space = {{"a", 3},
                      {"b", {{"type", "const"}, {"val", 4}}},
                      {"c", {1, 2}},
                      {"d", {{"inner", "text"}}}};
  EXPECT_TRUE(SearchAxes(space, false).empty());
}

TEST(SearchAxesTest, NamesNestedHparamsByTheirPath) {
  const json range = {{"type", "double"}, {"minval", 0}, {"maxval", 1}};
  const auto axes = SearchAxes(
      {{"z", range}, {"opt", {{"lr", range}, {"wd", range}}}}, false);
  ASSERT_EQ(axes.size(), 3u);
  EXPECT_EQ(axes[0].name, "opt.lr");
  EXPECT_EQ(axes[1].name, "opt.wd");
  EXPECT_EQ(axes[2].name, "z");
}

TEST(SearchAxesTest, TakesTheLimitsOfLogAsExponents) {
  const auto axis =
      OnlyAxis({{"type", "log"}, {"minval", -3}, {"maxval", 4}, {"base", 2.0}});
  EXPECT_TRUE(axis.log);
  EXPECT_DOUBLE_EQ(axis.low, 0.125);
  EXPECT_DOUBLE_EQ(axis.high, 16);
}

TEST(SearchAxesTest, TakesTheLimitsOfALogDoubleAsValues) {
  const auto axis = OnlyAxis(
      {{"type", "double"}, {"minval", 0.5}, {"maxval", 8}, {"log", true}});
  EXPECT_TRUE(axis.log);
  EXPECT_DOUBLE_EQ(axis.low, 0.5);
  EXPECT_DOUBLE_EQ(axis.high, 8);
}

TEST(SearchAxesTest, CountsLimitTheValuesOfAGridOnly) {
  const json range = {
      {"type", "double"}, {"minval", 0}, {"maxval", 3}, {"count", 4}};
  EXPECT_EQ(OnlyAxis(range, true).step, 1.0);
  EXPECT_EQ(OnlyAxis(range, false).step, std::nullopt);
}

TEST(SearchAxesTest, IntegersAreAtLeastOneApart) {
  const json range = {
      {"type", "int"}, {"minval", 1}, {"maxval", 9}, {"count", 3}};
  EXPECT_EQ(OnlyAxis(range, false).step, 1.0);
  EXPECT_EQ(OnlyAxis(range, true).step, 4.0);
}

TEST(SearchAxesTest, EndAtTheLastStep) {
  const auto integers =
      OnlyAxis({{"type", "int"}, {"minval", 16}, {"maxval", 65}, {"step", 16}});
  EXPECT_EQ(integers.step, 16);
  EXPECT_EQ(integers.high, 64);
  const auto numbers = OnlyAxis(
      {{"type", "double"}, {"minval", 0}, {"maxval", 0.35}, {"step", 0.1}},
      /*grid=*/true);
  EXPECT_EQ(numbers.step, 0.1);
  EXPECT_EQ(numbers.high, 0.3);
  const auto log =
      OnlyAxis({{"type", "int"}, {"minval", 1}, {"maxval", 64}, {"log", true}});
  EXPECT_TRUE(log.log);
  EXPECT_EQ(log.step, std::nullopt);
}

TEST(SearchAxesTest, HoldNearlyAllOfANormalDistribution) {
  const auto whole = OnlyAxis({{"type", "normal"}, {"mean", 5}, {"std", 2}});
  EXPECT_NEAR(whole.low, -3, 0.01);
  EXPECT_NEAR(whole.high, 13, 0.01);
  const auto cut = OnlyAxis({{"type", "normal"},
                             {"mean", 0},
                             {"std", 1},
                             {"log", true},
                             {"maxval", 2}});
  EXPECT_TRUE(cut.log);
  EXPECT_NEAR(cut.low, 0.01719, 0.0001);
  EXPECT_EQ(cut.high, 2);
}

TEST(SearchAxesTest, OneValueIsConstant) {
  EXPECT_TRUE(
      OnlyAxis({{"type", "int"}, {"minval", 2}, {"maxval", 2}}).constant());
  EXPECT_TRUE(
      OnlyAxis({{"type", "categorical"}, {"vals", {"adam"}}}).constant());
  EXPECT_FALSE(
      OnlyAxis({{"type", "categorical"}, {"vals", {"a", "b"}}}).constant());
}

TEST(PlaceOnTest, FindsNestedAndDottedNames) {
  const SearchAxis axis{.name = "opt.lr", .high = 1};
  EXPECT_EQ(PlaceOn(axis, {{"opt", {{"lr", 0.5}}}}), 0.5);
  EXPECT_EQ(PlaceOn(axis, {{"opt.lr", 0.25}}), 0.25);
}

TEST(PlaceOnTest, IsTheIndexOfAChoice) {
  const SearchAxis axis{.name = "o", .high = 1, .choices = {"adam", "sgd"}};
  EXPECT_EQ(PlaceOn(axis, {{"o", "sgd"}}), 1);
}

TEST(PlaceOnTest, IsNanForWhatIsNotOnTheAxis) {
  const SearchAxis numbers{.name = "h", .high = 1};
  const SearchAxis choices{.name = "h", .high = 1, .choices = {"a", "b"}};
  EXPECT_TRUE(std::isnan(PlaceOn(numbers, {{"other", 1}})));
  EXPECT_TRUE(std::isnan(PlaceOn(numbers, {{"h", "text"}})));
  EXPECT_TRUE(std::isnan(PlaceOn(numbers, 3)));
  EXPECT_TRUE(std::isnan(PlaceOn(choices, {{"h", "c"}})));
}

// The value of `else` is none of the range.
TEST(PlaceOnTest, IsNanWhereTheConditionDoesNotHold) {
  const auto axes = SearchAxes(json::parse(R"({
        "m": {"type": "double", "minval": 0, "maxval": 1,
              "when": {"o": ["sgd"]}, "else": 0.5},
        "o": {"type": "categorical", "vals": ["adam", "sgd"]}})"),
                               /*grid=*/false);
  EXPECT_EQ(PlaceOn(axes.at(0), {{"o", "sgd"}, {"m", 0.25}}), 0.25);
  EXPECT_TRUE(std::isnan(PlaceOn(axes[0], {{"o", "adam"}, {"m", 0.5}})));
  EXPECT_TRUE(std::isnan(PlaceOn(axes[0], {{"o", "sgd"}})));
}

TEST(SearchAxesTest, CategoriesThatAreMapsHaveAxesOfTheirParts) {
  const json space = {{"opt",
                       {{"type", "categorical"},
                        {"vals",
                         {{{"name", "adam"}, {"lr", 0.1}, {"deep", {{"b", 1}}}},
                          {{"name", "sgd"}, {"lr", 0.2}},
                          "none"}}}},
                      {"x", {{"type", "int"}, {"minval", 1}, {"maxval", 2}}}};
  std::vector<std::string> names, parts;
  for (const SearchAxis& axis : SearchAxes(space, /*grid=*/false)) {
    (axis.is_part ? parts : names).push_back(axis.name);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"opt", "x"}));
  EXPECT_EQ(parts,
            (std::vector<std::string>{"opt.deep.b", "opt.lr", "opt.name"}));
  const SearchAxis lr = SearchAxes(space, /*grid=*/false).at(2);
  EXPECT_EQ(PlaceOn(lr, {{"opt", {{"lr", 0.2}}}}), 1);
  EXPECT_TRUE(std::isnan(PlaceOn(lr, {{"opt", "none"}})));
}

}  // namespace
}  // namespace dtrain
