#include <gtest/gtest.h>

#include "searchers/hparam_space.h"
#include "tests/support/golden.h"

namespace dtrain {
namespace {

using nlohmann::json;

class RecordedGridTest : public testing::TestWithParam<int> {};

TEST_P(RecordedGridTest, HasTheSamePoints) {
  const json golden = ReadGolden("hparams_0.37.0.json").at(GetParam());
  const HparamGrid grid(golden.at("case").at("hyperparameters"));

  json points = json::array();
  for (std::int64_t i = 0; i < grid.size(); ++i) points.push_back(grid.At(i));

  EXPECT_TRUE(Near(points, golden.at("grid"))) << points;
}

// Of the others no grid was recorded.
INSTANTIATE_TEST_SUITE_P(All, RecordedGridTest,
                         testing::Values(2, 3, 4, 5, 6, 7, 9));

TEST(HparamGridTest, HasOnePointWhereNothingIsSearched) {
  const HparamGrid grid(json::object());

  EXPECT_EQ(grid.size(), 1);
  EXPECT_EQ(grid.At(0), json::object());
}

TEST(HparamGridTest, ClampsTheCountOfAnInt) {
  const json values =
      GridValues({{"type", "int"}, {"minval", 2}, {"maxval", 4}, {"count", 9}});

  EXPECT_EQ(values, json({2, 3, 4}));
}

TEST(HparamGridTest, TakesEveryIntWithoutACount) {
  const json values =
      GridValues({{"type", "int"}, {"minval", -1}, {"maxval", 1}});

  EXPECT_EQ(values, json({-1, 0, 1}));
}

TEST(HparamGridTest, RoundsHalfAwayFromZero) {
  const json values = GridValues(
      {{"type", "int"}, {"minval", -4}, {"maxval", -1}, {"count", 1}});

  EXPECT_EQ(values, json({-3}));
}

TEST(HparamGridTest, SpreadsADoubleInItsLogarithm) {
  json range = {{"type", "double"},
                {"minval", 1e-4},
                {"maxval", 1},
                {"log", true},
                {"count", 5}};

  const json values = GridValues(range);
  range["count"] = 1;

  EXPECT_EQ(values.at(0), 1e-4);
  EXPECT_DOUBLE_EQ(values.at(1).get<double>(), 1e-3);
  EXPECT_DOUBLE_EQ(values.at(3).get<double>(), 0.1);
  EXPECT_EQ(values.at(4), 1);
  EXPECT_DOUBLE_EQ(GridValues(range).at(0).get<double>(), 1e-2);
}

TEST(HparamGridTest, TakesTheKeysOfARangeAsNames) {
  const HparamGrid grid(json::parse(
      R"({"type": "x", "a": {"type": "categorical", "vals": [1, 2]}})"));

  ASSERT_EQ(grid.size(), 2);
  EXPECT_EQ(grid.At(1), json({{"type", "x"}, {"a", 2}}));
}

TEST(HparamGridTest, TakesTheMiddleOfALogInTheExponent) {
  const json values = GridValues(
      {{"type", "log"}, {"minval", -4}, {"maxval", -2}, {"count", 1}});

  EXPECT_DOUBLE_EQ(values.at(0).get<double>(), 1e-3);
}

TEST(HparamGridTest, NestedAxesComeInByteOrderDepthFirst) {
  const HparamGrid grid(json::parse(R"({
    "b": {"type": "categorical", "vals": [1, 2]},
    "a": {"z": {"type": "categorical", "vals": ["x", "y"]}, "k": 5}})"));

  ASSERT_EQ(grid.size(), 4);
  EXPECT_EQ(grid.At(0), json::parse(R"({"a": {"k": 5, "z": "x"}, "b": 1})"));
  EXPECT_EQ(grid.At(1), json::parse(R"({"a": {"k": 5, "z": "x"}, "b": 2})"));
  EXPECT_EQ(grid.At(2), json::parse(R"({"a": {"k": 5, "z": "y"}, "b": 1})"));
}

}  // namespace
}  // namespace dtrain
