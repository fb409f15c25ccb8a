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
