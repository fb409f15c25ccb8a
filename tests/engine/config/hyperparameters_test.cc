#include "engine/config/hyperparameters.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/config/bad_config.h"

namespace dtrain {
namespace {

// Additions start at line 4, column 3.
const std::string kParameters = kValid + "hyperparameters:\n";

// A grid search; additions start at line 4, column 3.
const std::string kGrid =
    "entrypoint: a:B\n"
    "searcher: {name: grid, metric: loss, max_length: 100}\n"
    "hyperparameters:\n";

class BadParameterTest : public testing::TestWithParam<BadConfig> {};

TEST_P(BadParameterTest, IsRefusedWithItsPlace) { ExpectRefused(GetParam()); }

INSTANTIATE_TEST_SUITE_P(
    Ranges, BadParameterTest,
    testing::Values(
        BadConfig{"NoMap", kValid + "hyperparameters: [1]\n", 3, 18,
                  "hyperparameters", "expected a map"},
        BadConfig{"UnknownType", kParameters + "  a: {type: duble}\n", 4, 13,
                  "hyperparameters.a.type", "did you mean 'double'?"},
        BadConfig{"NestedTypeKey", kParameters + "  a: {type: adam, b: 1}\n", 4,
                  13, "hyperparameters.a.type", "a nested map cannot"},
        BadConfig{"MinAboveMax",
                  kParameters + "  a: {type: int, minval: 5, maxval: 4}\n", 4,
                  37, "hyperparameters.a.maxval", "above minval (5)"},
        BadConfig{"MinEqualsMax",
                  kParameters + "  a: {type: double, minval: 1, maxval: 1.0}\n",
                  4, 40, "hyperparameters.a.maxval", "above minval (1)"},
        BadConfig{"NoMaxval", kParameters + "  a: {type: int, minval: 5}\n", 4,
                  6, "hyperparameters.a.maxval", "required but missing"},
        BadConfig{"FractionalInt",
                  kParameters + "  a: {type: int, minval: 0.5, maxval: 4}\n", 4,
                  26, "hyperparameters.a.minval", "expected an integer"},
        BadConfig{"HugeInt",
                  kParameters + "  a: {type: int, minval: 0, maxval: "
                                "9223372036854775807}\n",
                  4, 37, "hyperparameters.a.maxval", "1000000000000000"},
        BadConfig{
            "NanDouble",
            kParameters + "  a: {type: double, minval: .nan, maxval: 1}\n", 4,
            29, "hyperparameters.a.minval", "a finite number"},
        BadConfig{
            "InfiniteDouble",
            kParameters + "  a: {type: double, minval: 0, maxval: .inf}\n", 4,
            40, "hyperparameters.a.maxval", "a finite number"},
        BadConfig{"TooWideDouble",
                  kParameters +
                      "  a: {type: double, minval: -1e308, maxval: 1e308}\n",
                  4, 45, "hyperparameters.a.maxval", "too far from minval"},
        BadConfig{"UnknownKey",
                  kParameters + "  a: {type: int, minval: 1, maxval: 2, cont: "
                                "3}\n",
                  4, 40, "hyperparameters.a.cont", "did you mean 'count'?"},
        BadConfig{"LogOfZero",
                  kParameters + "  a: {type: double, minval: 0, maxval: 1, "
                                "log: true}\n",
                  4, 29, "hyperparameters.a.minval", "above 0 with log: true"},
        BadConfig{"LogOfText",
                  kParameters + "  a: {type: double, minval: 1, maxval: 2, "
                                "log: ten}\n",
                  4, 48, "hyperparameters.a.log", "true or false"},
        BadConfig{"LogOfInt",
                  kParameters + "  a: {type: int, minval: 1, maxval: 2, "
                                "log: true}\n",
                  4, 40, "hyperparameters.a.log",
                  "unknown key; only type: double has log, so list the values"},
        BadConfig{"StepOfInt",
                  kParameters + "  a: {type: int, minval: 1, maxval: 2, "
                                "step: 2}\n",
                  4, 40, "hyperparameters.a.step", "there are no steps, so"},
        BadConfig{"ZeroCount",
                  kParameters + "  a: {type: int, minval: 1, maxval: 2, count: "
                                "0}\n",
                  4, 47, "hyperparameters.a.count", "at least 1"}),
    CaseName);

INSTANTIATE_TEST_SUITE_P(
    Others, BadParameterTest,
    testing::Values(
        BadConfig{
            "LogBaseOne",
            kParameters + "  a: {type: log, base: 1, minval: 1, maxval: 2}\n",
            4, 24, "hyperparameters.a.base", "above 0 that is not 1"},
        BadConfig{
            "LogBaseNegative",
            kParameters + "  a: {type: log, base: -2, minval: 1, maxval: 2}\n",
            4, 24, "hyperparameters.a.base", "above 0"},
        BadConfig{"LogOverflow",
                  kParameters + "  a: {type: log, minval: 1, maxval: 400}\n", 4,
                  37, "hyperparameters.a.maxval", "are exponents"},
        BadConfig{"LogUnderflow",
                  kParameters + "  a: {type: log, minval: -400, maxval: 1}\n",
                  4, 26, "hyperparameters.a.minval", "are exponents"},
        BadConfig{"NoVals", kParameters + "  a: {type: categorical}\n", 4, 6,
                  "hyperparameters.a.vals", "required but missing"},
        BadConfig{"EmptyVals",
                  kParameters + "  a: {type: categorical, vals: []}\n", 4, 32,
                  "hyperparameters.a.vals", "is empty"},
        BadConfig{"ScalarVals",
                  kParameters + "  a: {type: categorical, vals: x}\n", 4, 32,
                  "hyperparameters.a.vals", "expected a list"},
        BadConfig{"NanVal",
                  kParameters + "  a: {type: categorical, vals: [1, .nan]}\n",
                  4, 36, "hyperparameters.a.vals[1]", "a finite number"},
        BadConfig{"NoVal", kParameters + "  a: {type: const}\n", 4, 6,
                  "hyperparameters.a.val", "required but missing"},
        BadConfig{"NanConstant", kParameters + "  lr: .nan\n", 4, 7,
                  "hyperparameters.lr", "a finite number"},
        BadConfig{"HugeConstant", kParameters + "  lr: 1e999\n", 4, 7,
                  "hyperparameters.lr", "too large"},
        BadConfig{"NestedRange",
                  kParameters + "  a:\n    b: {type: int, minval: 2, maxval: "
                                "1}\n",
                  5, 39, "hyperparameters.a.b.maxval", "above minval"},
        BadConfig{"ZeroBatchSize", kParameters + "  global_batch_size: 0\n", 4,
                  22, "hyperparameters.global_batch_size", "at least 1"},
        BadConfig{"TextBatchSize", kParameters + "  global_batch_size: big\n",
                  4, 22, "hyperparameters.global_batch_size", "an integer"},
        BadConfig{"BatchSizeFromZero",
                  kParameters + "  global_batch_size: {type: int, minval: 0, "
                                "maxval: 9}\n",
                  4, 42, "hyperparameters.global_batch_size.minval",
                  "at least 1"}),
    CaseName);

INSTANTIATE_TEST_SUITE_P(
    Grids, BadParameterTest,
    testing::Values(
        BadConfig{"DoubleWithoutCount",
                  kGrid + "  a: {type: double, minval: 0, maxval: 1}\n", 4, 6,
                  "hyperparameters.a.count", "required by the grid"},
        BadConfig{"LogWithoutCount",
                  kGrid + "  a: {type: log, minval: 0, maxval: 1}\n", 4, 6,
                  "hyperparameters.a.count", "required by the grid"},
        BadConfig{"WideIntWithoutCount",
                  kGrid + "  a: {type: int, minval: 1, maxval: 200000}\n", 4, 6,
                  "hyperparameters.a.count", "required by the grid"},
        BadConfig{"TooManyPoints",
                  kGrid + "  a: {type: int, minval: 1, maxval: 1001}\n"
                          "  b: {type: double, minval: 0, maxval: 1, count: "
                          "100}\n",
                  3, 1, "hyperparameters", "the grid has 100100 points"},
        BadConfig{"BillionPoints",
                  kGrid + "  a: {type: double, minval: 0, maxval: 1, count: "
                          "1000000000}\n",
                  3, 1, "hyperparameters", "the grid has 1000000000 points"},
        BadConfig{"Overflow",
                  kGrid + "  a: {type: double, minval: 0, maxval: 1, count: "
                          "1000000000000}\n"
                          "  b: {type: double, minval: 0, maxval: 1, count: "
                          "1000000000000}\n",
                  3, 1, "hyperparameters",
                  "the grid has more than 9223372036854775807 points"}),
    CaseName);

class HyperparametersTest : public testing::Test {
 protected:
  nlohmann::json Read(const std::string& added) {
    const auto result = ReadConfig(kParameters + added, {});
    return result.config ? result.config->hyperparameters : nlohmann::json();
  }
};

TEST_F(HyperparametersTest, KeepsConstantsWithTheirTypes) {
  EXPECT_EQ(Read("  start-epoch: 0\n  weight_decay: 1e-4\n  pretrained: True\n"
                 "  word: yes\n  list: [1, {a: 2}]\n  none: ~\n")
                .dump(),
            R"({"list":[1,{"a":2}],"none":null,"pretrained":true,)"
            R"("start-epoch":0,"weight_decay":0.0001,"word":"yes"})");
}

TEST_F(HyperparametersTest, GivesLogsABase) {
  EXPECT_EQ(Read("  lr: {type: log, minval: -4, maxval: -1}\n")["lr"]["base"],
            10);
}

TEST_F(HyperparametersTest, TakesMapsWithoutATypeAsNested) {
  EXPECT_EQ(Read("  optimizer: {name: sgd, deep: {lr: 0.1}}\n").dump(),
            R"({"optimizer":{"deep":{"lr":0.1},"name":"sgd"}})");
}

TEST_F(HyperparametersTest, WarnsOfRangesUnderSingle) {
  const Diagnostics warnings =
      ReadFindings(kParameters +
                       "  a: 1\n"
                       "  b: {type: const, val: 2}\n"
                       "  c: {d: {type: int, minval: 1, maxval: 2}}\n",
                   Severity::kWarning);

  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0].key, "hyperparameters.c.d");
  EXPECT_EQ(warnings[0].line, 6);
}

TEST_F(HyperparametersTest, WarnsOfARangeWithoutAType) {
  const Diagnostics warnings =
      ReadFindings(kParameters +
                       "  lr: {minval: 0.1, maxval: 0.9}\n"
                       "  opt: {vals: [adam, sgd]}\n"
                       "  window: {minval: 3}\n",
                   Severity::kWarning);

  ASSERT_EQ(warnings.size(), 2u);
  EXPECT_EQ(warnings[0].key, "hyperparameters.lr");
  EXPECT_THAT(warnings[0].message, testing::HasSubstr("add type: int, double"));
  EXPECT_EQ(warnings[1].line, 5);
  EXPECT_THAT(warnings[1].message, testing::HasSubstr("categorical"));
}

TEST_F(HyperparametersTest, CountsAGridWithinItsRanges) {
  // 2 · 3 · 4 points: a count beyond an integer's range is clamped to it.
  EXPECT_TRUE(ReadConfig(kGrid + "  a: {type: int, minval: 1, maxval: 2}\n"
                                 "  b: {type: int, minval: 1, maxval: 3, "
                                 "count: 1000000}\n"
                                 "  c: {type: categorical, vals: [1, 2, 3, "
                                 "4]}\n",
                         {})
                  .config);
}

TEST_F(HyperparametersTest, AllowsAGridOfAHundredThousandPoints) {
  EXPECT_TRUE(ReadConfig(kGrid + "  a: {type: double, minval: 0, maxval: 1, "
                                 "count: 100000}\n",
                         {})
                  .config);
}

TEST_F(HyperparametersTest, TakesADoubleOnALogScale) {
  EXPECT_EQ(
      Read("  lr: {type: double, minval: 1e-4, maxval: 1, log: true}\n")["lr"]
          .dump(),
      R"({"log":true,"maxval":1,"minval":0.0001,"type":"double"})");
  EXPECT_FALSE(
      Read("  lr: {type: double, minval: 0, maxval: 1, log: false}\n")["lr"]
          .contains("log"));
}

TEST_F(HyperparametersTest, TakesTheKeysOfARangeAsNames) {
  const auto read = Read("  type: sgd\n  minval: 1\n  vals: [1]\n");

  EXPECT_EQ(read.dump(), R"({"minval":1,"type":"sgd","vals":[1]})");
}

TEST_F(HyperparametersTest, WarnsOfExponentsThatLookLikeValues) {
  const Diagnostics fractions = ReadFindings(
      kGrid +
          "  a: {type: log, minval: 0.0001, maxval: 0.1, count: 3}\n"
          "  b: {type: log, minval: -4, maxval: 0.5, count: 3}\n"
          "  c: {type: log, base: 2, minval: 4, maxval: 10, count: 3}\n",
      Severity::kWarning);
  ASSERT_EQ(fractions.size(), 1u);
  EXPECT_EQ(fractions[0].line, 4);
  EXPECT_THAT(fractions[0].message,
              testing::AllOf(
                  testing::HasSubstr("the values are from 1.0002 to 1.259"),
                  testing::HasSubstr("{type: double, minval: 0.0001, maxval: "
                                     "0.1, log: true}")));

  const Diagnostics huge = ReadFindings(
      kGrid + "  a: {type: log, minval: 16, maxval: 256, count: 3}\n",
      Severity::kWarning);
  ASSERT_EQ(huge.size(), 1u);
  EXPECT_THAT(huge[0].message, testing::HasSubstr("from 1e+16 to 1e+256"));
}

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
                  "searcher.points[0].deep.kind", "one of vals"},
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
