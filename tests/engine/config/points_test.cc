#include "engine/config/points.h"

#include <string>

#include <gtest/gtest.h>

#include "tests/engine/config/bad_config.h"

namespace dtrain {
namespace {

// A random search; the points are in line 9.
const std::string kRandom =
    "entrypoint: a:B\n"
    "hyperparameters:\n"
    "  fixed: 5\n"
    "  lr: {type: log, minval: -3, maxval: -1}\n"
    "  n: {type: int, minval: 1, maxval: 4}\n"
    "  deep: {kind: {type: categorical, vals: [a, b]}}\n"
    "searcher: {name: random, metric: loss, max_length: 1, max_trials: 2,\n"
    "  points: [\n";

class BadPointTest : public testing::TestWithParam<BadConfig> {};

TEST_P(BadPointTest, IsRefusedWithItsPlace) { ExpectRefused(GetParam()); }

INSTANTIATE_TEST_SUITE_P(
    Values, BadPointTest,
    testing::Values(
        BadConfig{"NoMap", kRandom + "5]}\n", 9, 1, "searcher.points[0]",
                  "expected a map"},
        BadConfig{"UnknownName",
                  kRandom + "{lr: 0.1, n: 1, deep: {kind: a}, nn: 2}]}\n", 9,
                  34, "searcher.points[0].nn", "did you mean 'n'?"},
        BadConfig{"Missing", kRandom + "{lr: 0.1, deep: {kind: a}}]}\n", 9, 1,
                  "searcher.points[0].n", "required but missing"},
        BadConfig{"MissingNested", kRandom + "{lr: 0.1, n: 1}]}\n", 9, 1,
                  "searcher.points[0].deep.kind", "required but missing"},
        BadConfig{"NestedAsScalar", kRandom + "{lr: 0.1, n: 1, deep: 5}]}\n", 9,
                  23, "searcher.points[0].deep", "expected a map"},
        BadConfig{"ExponentForLog",
                  kRandom + "{lr: -2, n: 1, deep: {kind: a}}]}\n", 9, 6,
                  "searcher.points[0].lr", "from base^-3 to base^-1"},
        BadConfig{"OutOfRange",
                  kRandom + "{lr: 0.1, n: 5, deep: {kind: a}}]}\n", 9, 14,
                  "searcher.points[0].n", "from 1 to 4"},
        BadConfig{"FractionForInt",
                  kRandom + "{lr: 0.1, n: 2.5, deep: {kind: a}}]}\n", 9, 14,
                  "searcher.points[0].n", "an integer"},
        BadConfig{"NotAmongVals",
                  kRandom + "{lr: 0.1, n: 1, deep: {kind: c}}]}\n", 9, 30,
                  "searcher.points[0].deep.kind", "one of the vals"},
        BadConfig{"OtherConstant",
                  kRandom + "{lr: 0.1, n: 1, deep: {kind: a}, fixed: 6}]}\n", 9,
                  41, "searcher.points[0].fixed", "the constant"},
        BadConfig{"TooMany",
                  kRandom + "{lr: 0.1, n: 1, deep: {kind: a}},\n"
                            "{lr: 0.1, n: 2, deep: {kind: a}},\n"
                            "{lr: 0.1, n: 3, deep: {kind: a}}]}\n",
                  8, 11, "searcher.points", "more points than max_trials"}),
    CaseName);

TEST(PointsTest, KeepsPointsInTheirOrder) {
  const auto result =
      ReadConfig(kRandom +
                     "{lr: 0.1, n: 4, deep: {kind: b}, fixed: 5},\n"
                     "{lr: 1e-3, n: 1, deep: {kind: a}}]}\n",
                 {});

  ASSERT_TRUE(result.config);
  const auto& points = result.config->searcher.points;
  ASSERT_EQ(points.size(), 2u);
  EXPECT_EQ(points[0]["n"], 4);
  EXPECT_EQ(points[1]["deep"]["kind"], "a");
}

}  // namespace
}  // namespace dtrain
