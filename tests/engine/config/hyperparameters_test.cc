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
        BadConfig{"LogOfIntsFromZero",
                  kParameters + "  a: {type: int, minval: 0, maxval: 2, "
                                "log: true}\n",
                  4, 26, "hyperparameters.a.minval", "above 0 with log: true"},
        BadConfig{"LogOfCategories",
                  kParameters + "  a: {type: categorical, vals: [1], "
                                "log: true}\n",
                  4, 37, "hyperparameters.a.log",
                  "unknown key; type: int, double and normal have log"},
        BadConfig{"StepOfLog",
                  kParameters + "  a: {type: log, minval: 1, maxval: 2, "
                                "step: 1}\n",
                  4, 40, "hyperparameters.a.step",
                  "unknown key; type: int and double have step"},
        BadConfig{"StepOfZero",
                  kParameters + "  a: {type: int, minval: 1, maxval: 2, "
                                "step: 0}\n",
                  4, 46, "hyperparameters.a.step", "an integer of at least 1"},
        BadConfig{"FractionalStepOfInt",
                  kParameters + "  a: {type: int, minval: 1, maxval: 2, "
                                "step: 0.5}\n",
                  4, 46, "hyperparameters.a.step", "an integer of at least 1"},
        BadConfig{"NegativeStep",
                  kParameters + "  a: {type: double, minval: 1, maxval: 2, "
                                "step: -0.5}\n",
                  4, 49, "hyperparameters.a.step", "a number above 0"},
        BadConfig{"StepLargerThanTheRange",
                  kParameters + "  a: {type: double, minval: 1, maxval: 2, "
                                "step: 1.5}\n",
                  4, 49, "hyperparameters.a.step",
                  "is larger than the range from 1 to 2"},
        BadConfig{"TinyStep",
                  kParameters + "  a: {type: double, minval: 1, maxval: 2, "
                                "step: 1e-20}\n",
                  4, 49, "hyperparameters.a.step", "is too small"},
        BadConfig{"StepWithCount",
                  kParameters + "  a: {type: int, minval: 1, maxval: 9, "
                                "step: 2, count: 3}\n",
                  4, 56, "hyperparameters.a.count", "combined with step"},
        BadConfig{"StepWithLog",
                  kParameters + "  a: {type: double, minval: 1, maxval: 9, "
                                "step: 2, log: true}\n",
                  4, 49, "hyperparameters.a.step", "combined with log: true"},
        BadConfig{"QForStep",
                  kParameters + "  a: {type: double, minval: 1, maxval: 9, "
                                "q: 2}\n",
                  4, 43, "hyperparameters.a.q", "unknown key; write step"},
        BadConfig{"NoDeviation", kParameters + "  a: {type: normal, mean: 1}\n",
                  4, 6, "hyperparameters.a.std", "required but missing"},
        BadConfig{"DeviationOfZero",
                  kParameters + "  a: {type: normal, mean: 1, std: 0}\n", 4, 35,
                  "hyperparameters.a.std", "above 0, got 0"},
        BadConfig{"WandbsNames",
                  kParameters + "  a: {type: normal, mean: 1, std: 1, "
                                "sigma: 1}\n",
                  4, 38, "hyperparameters.a.sigma", "unknown key; write std"},
        BadConfig{"ReversedTruncation",
                  kParameters + "  a: {type: normal, mean: 1, std: 1, "
                                "minval: 2, maxval: 1}\n",
                  4, 57, "hyperparameters.a.maxval", "above minval (2)"},
        BadConfig{"EmptyTruncation",
                  kParameters + "  a: {type: normal, mean: 0, std: 1, "
                                "minval: 50}\n",
                  4, 46, "hyperparameters.a.minval", "leaves no values"},
        BadConfig{"LognormalBelowZero",
                  kParameters + "  a: {type: normal, mean: 0, std: 1, "
                                "log: true, minval: -1}\n",
                  4, 57, "hyperparameters.a.minval", "above 0 with log: true"},
        BadConfig{"HugeLognormal",
                  kParameters + "  a: {type: normal, mean: 900, std: 1, "
                                "log: true}\n",
                  4, 37, "hyperparameters.a.std",
                  "mean and std are those of the natural logarithm"},
        BadConfig{"OrderedText",
                  kParameters + "  a: {type: categorical, vals: [1, 2, 4], "
                                "ordered: 'false'}\n",
                  4, 52, "hyperparameters.a.ordered", "true or false"},
        BadConfig{"OrderedNumber",
                  kParameters + "  a: {type: categorical, vals: [1, 2, 4], "
                                "ordered: 0}\n",
                  4, 52, "hyperparameters.a.ordered", "true or false"},
        BadConfig{"OrderedInt",
                  kParameters + "  a: {type: int, minval: 1, maxval: 9, "
                                "ordered: false}\n",
                  4, 40, "hyperparameters.a.ordered",
                  "unknown key; type: categorical has ordered"},
        BadConfig{"OrderedConst",
                  kParameters + "  a: {type: const, val: [1, 2, 3], "
                                "ordered: false}\n",
                  4, 36, "hyperparameters.a.ordered",
                  "unknown key; type: categorical has ordered"},
        BadConfig{"ZeroCount",
                  kParameters + "  a: {type: int, minval: 1, maxval: 2, count: "
                                "0}\n",
                  4, 47, "hyperparameters.a.count", "at least 1"}),
    CaseName);

// Additions start at line 5.
const std::string kConditional =
    kParameters + "  o: {type: categorical, vals: [adam, sgd]}\n";

INSTANTIATE_TEST_SUITE_P(
    Conditions, BadParameterTest,
    testing::Values(
        BadConfig{"NoMap",
                  kConditional + "  a: {type: const, val: 1, when: sgd}\n", 5,
                  34, "hyperparameters.a.when", "such as {optimizer: sgd}"},
        BadConfig{"EmptyMap",
                  kConditional + "  a: {type: const, val: 1, when: {}}\n", 5,
                  34, "hyperparameters.a.when", "such as {optimizer: sgd}"},
        BadConfig{"UnknownName",
                  kConditional + "  a: {type: const, val: 1, when: {0: sgd}}\n",
                  5, 35, "hyperparameters.a.when.0",
                  "there is no hyperparameter '0'"},
        BadConfig{"NearName",
                  kConditional + "  opt: 1\n"
                                 "  a: {type: const, val: 1, when: {opp: "
                                 "sgd}}\n",
                  6, 35, "hyperparameters.a.when.opp", "did you mean 'opt'?"},
        BadConfig{"NameOfAMap",
                  kConditional + "  net: {n: 1}\n"
                                 "  a: {type: const, val: 1, when: {net: "
                                 "1}}\n",
                  6, 35, "hyperparameters.a.when.net", "such as net.n"},
        BadConfig{"Itself",
                  kConditional + "  a: {type: int, minval: 1, maxval: 2, when: "
                                 "{a: 1}}\n",
                  5, 47, "hyperparameters.a.when.a", "its own hyperparameter"},
        BadConfig{"PartOfItself",
                  kConditional + "  a: {type: categorical, vals: [{b: 1}, {b: "
                                 "2}], when: {a.b: 1}}\n",
                  5, 57, "hyperparameters.a.when.a.b",
                  "its own hyperparameter"},
        BadConfig{"Cycle",
                  kConditional + "  a: {type: const, val: 1, when: {b: 1}}\n"
                                 "  b: {type: const, val: 1, when: {c: 1}}\n"
                                 "  c: {type: const, val: 1, when: {a: 1}}\n",
                  5, 34, "hyperparameters.a.when",
                  "depend on each other: a, b, c, a"},
        BadConfig{"NoValues",
                  kConditional + "  a: {type: const, val: 1, when: {o: []}}\n",
                  5, 38, "hyperparameters.a.when.o", "is empty"},
        BadConfig{
            "UnknownBound",
            kConditional + "  a: {type: const, val: 1, when: {o: {min: 1}}}\n",
            5, 39, "hyperparameters.a.when.o.min", "minval"},
        BadConfig{"TextBound",
                  kConditional +
                      "  a: {type: const, val: 1, when: {o: {minval: a}}}\n",
                  5, 47, "hyperparameters.a.when.o.minval", "a finite number"},
        BadConfig{"ReversedBounds",
                  kConditional +
                      "  a: {type: const, val: 1, when: {o: {minval: "
                      "2, maxval: 1}}}\n",
                  5, 38, "hyperparameters.a.when.o", "holds for no value"},
        BadConfig{"ElseWithoutWhen",
                  kConditional + "  a: {type: const, val: 1, else: 2}\n", 5, 34,
                  "hyperparameters.a.else", "add when, or remove else"},
        BadConfig{
            "AbsentSeed",
            kConditional + "  seed: {type: const, val: 1, when: {o: sgd}}\n", 5,
            37, "hyperparameters.seed.when", "must not be absent"},
        BadConfig{"GroupWithoutCondition",
                  kConditional + "  g: {type: map, of: {a: 1}}\n", 5, 6,
                  "hyperparameters.g.when", "required but missing"},
        BadConfig{"GroupWithATextAsCondition",
                  kConditional + "  g: {type: map, when: sgd, of: {a: 1}}\n", 5,
                  24, "hyperparameters.g.when", "such as {optimizer: sgd}"},
        BadConfig{"GroupWithAnEmptyCondition",
                  kConditional + "  g: {type: map, when: {}, of: {a: 1, b: "
                                 "2}}\n",
                  5, 24, "hyperparameters.g.when", "such as {optimizer: sgd}"},
        BadConfig{"EmptyGroup",
                  kConditional + "  g: {type: map, when: {o: sgd}, of: {}}\n",
                  5, 38, "hyperparameters.g.of", "a map of hyperparameters"},
        BadConfig{"GroupWithElse",
                  kConditional + "  g: {type: map, when: {o: sgd}, of: {a: 1}, "
                                 "else: 1}\n",
                  5, 46, "hyperparameters.g.else", "a group has no else"},
        BadConfig{"UnknownNameInAGroup",
                  kConditional + "  g: {type: map, when: {p: sgd}, of: {a: 1, "
                                 "b: 2}}\n",
                  5, 25, "hyperparameters.g.a.when.p",
                  "there is no hyperparameter 'p'"}),
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
        BadConfig{"NormalWithoutCount",
                  kGrid + "  a: {type: normal, mean: 0, std: 1}\n", 4, 6,
                  "hyperparameters.a.count", "required by the grid"},
        BadConfig{"ManySteps",
                  kGrid + "  a: {type: int, minval: 0, maxval: 200000, step: "
                          "1}\n",
                  3, 1, "hyperparameters", "the grid has 200001 points"},
        BadConfig{"WideIntWithoutCount",
                  kGrid + "  a: {type: int, minval: 1, maxval: 200000}\n", 4, 6,
                  "hyperparameters.a.count", "required by the grid"},
        BadConfig{"TooManyPoints",
                  kGrid + "  a: {type: int, minval: 1, maxval: 1001}\n"
                          "  b: {type: double, minval: 0, maxval: 1, count: "
                          "100}\n",
                  3, 1, "hyperparameters", "the grid has 100100 points"},
        BadConfig{"TooManyConditionalPoints",
                  kGrid + "  a: {type: int, minval: 1, maxval: 2}\n"
                          "  b: {type: int, minval: 1, maxval: 1000, when: "
                          "{a: 1}}\n"
                          "  c: {type: int, minval: 1, maxval: 1000}\n",
                  3, 1, "hyperparameters",
                  "the grid has more than 100000 points"},
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

TEST_F(HyperparametersTest, CountsOnlyWhatExistsInAGrid) {
  // 2 · 50,000 points exist, not 50,000².
  EXPECT_TRUE(ReadConfig(kGrid + "  a: {type: categorical, vals: [x, y]}\n"
                                 "  b: {type: int, minval: 1, maxval: 50000, "
                                 "when: {a: x}}\n"
                                 "  c: {type: int, minval: 1, maxval: 50000, "
                                 "when: {a: y}}\n",
                         {})
                  .config);
}

TEST_F(HyperparametersTest, GivesEachOfAGroupItsCondition) {
  const nlohmann::json read = Read(
      "  o: {type: categorical, vals: [adam, sgd]}\n"
      "  g:\n"
      "    type: map\n"
      "    when: {o: sgd}\n"
      "    of:\n"
      "      a: 1\n"
      "      b: {type: int, minval: 1, maxval: 3}\n"
      "      c: {type: const, val: 2, when: {g.b: [2, 3]}}\n"
      "      d: {e: [1, 2]}\n"
      "      h: {type: map, when: {g.b: {minval: 2}}, of: {i: x}}\n"
      "  when: 5\n"
      "  plain: {when: 1, else: 2, of: 3}\n");

  EXPECT_EQ(read.at("g"), nlohmann::json::parse(R"({
    "a": {"type": "const", "val": 1, "when": {"o": ["sgd"]}},
    "b": {"type": "int", "minval": 1, "maxval": 3, "when": {"o": ["sgd"]}},
    "c": {"type": "const", "val": 2,
          "when": [{"g.b": [2, 3]}, {"o": ["sgd"]}]},
    "d": {"e": {"type": "const", "val": [1, 2], "when": {"o": ["sgd"]}}},
    "h": {"i": {"type": "const", "val": "x",
                "when": [{"g.b": {"minval": 2}}, {"o": ["sgd"]}]}}})"));
  // In a map without a type they are names.
  EXPECT_EQ(read.at("when"), 5);
  EXPECT_EQ(read.at("plain"),
            nlohmann::json({{"when", 1}, {"else", 2}, {"of", 3}}));
  // What was read is read as the same.
  nlohmann::json again;
  const auto result =
      ReadConfig(kValid + "hyperparameters: " + read.dump() + "\n", {});
  ASSERT_TRUE(result.config);
  EXPECT_EQ(result.config->hyperparameters, read);
}

// Each hyperparameter of a group gets a copy of its condition.
TEST_F(HyperparametersTest, RefusesAGroupThatWouldFillTheMemory) {
  std::string values;
  std::string names;
  for (int i = 0; i < 2000; ++i) {
    values += "a,";
    names += "n" + std::to_string(i) + ": 1,";
  }
  const Diagnostics errors =
      ReadFindings(kParameters + "  o: {type: categorical, vals: [a, b]}\n" +
                       "  g: {type: map, when: {o: [" + values + "]}, of: {" +
                       names + "}}\n",
                   Severity::kError);

  ASSERT_EQ(errors.size(), 1u);
  EXPECT_THAT(errors[0].message, testing::HasSubstr("make several groups"));
}

TEST_F(HyperparametersTest, WarnsOfConditionsThatNeverHold) {
  const Diagnostics warnings =
      ReadFindings(kGrid +
                       "  o: {type: categorical, vals: [adam, sgd]}\n"
                       "  a: {type: const, val: 1, when: {o: [sdg, sgd]}}\n"
                       "  p: adam\n"
                       "  b: {type: const, val: 1, when: {p: sgd}}\n",
                   Severity::kWarning);

  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0].line, 5);
  EXPECT_EQ(warnings[0].message,
            "'o' is never the string 'sdg'; did you mean 'sgd'?");
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

// A random search; the points are in line 11.
const std::string kRandom =
    "entrypoint: a:B\n"
    "hyperparameters:\n"
    "  fixed: 5\n"
    "  lr: {type: log, minval: -3, maxval: -1}\n"
    "  n: {type: int, minval: 1, maxval: 4}\n"
    "  deep: {kind: {type: categorical, vals: [a, b]}}\n"
    "  m: {type: int, minval: 1, maxval: 4, when: {deep.kind: a}}\n"
    "  never: {type: int, minval: 1, maxval: 4, when: {fixed: 6}}\n"
    "searcher: {name: random, metric: loss, max_length: 1, max_trials: 2,\n"
    "  points: [\n";

TEST_F(HyperparametersTest, SaysWhichStepIsTheLast) {
  const Diagnostics warnings = ReadFindings(
      kGrid +
          "  a: {type: int, minval: 16, maxval: 65, step: 16}\n"
          "  b: {type: double, minval: 0, maxval: 0.3, step: 0.1}\n"
          "  c: {type: double, minval: 0.1, maxval: 1, step: 0.2}\n",
      Severity::kWarning);

  ASSERT_EQ(warnings.size(), 2u);
  EXPECT_EQ(warnings[0].key, "hyperparameters.a.maxval");
  EXPECT_THAT(warnings[0].message,
              testing::HasSubstr("not a step of 16 from 16; the largest value "
                                 "is 64"));
  EXPECT_THAT(warnings[1].message, testing::HasSubstr("largest value is 0.9"));
}

class BadPointTest : public testing::TestWithParam<BadConfig> {};

TEST_P(BadPointTest, IsRefusedWithItsPlace) { ExpectRefused(GetParam()); }

INSTANTIATE_TEST_SUITE_P(
    Values, BadPointTest,
    testing::Values(
        BadConfig{"NoMap", kRandom + "5]}\n", 11, 1, "searcher.points[0]",
                  "expected a map"},
        BadConfig{"UnknownName",
                  kRandom + "{lr: 0.1, n: 1, deep: {kind: a}, nn: 2}]}\n", 11,
                  34, "searcher.points[0].nn", "did you mean 'n'?"},
        BadConfig{"UnknownNestedName", kRandom + "{deep: {kinds: a}}]}\n", 11,
                  9, "searcher.points[0].deep.kinds", "did you mean 'kind'?"},
        BadConfig{"NestedAsScalar", kRandom + "{lr: 0.1, n: 1, deep: 5}]}\n",
                  11, 23, "searcher.points[0].deep", "expected a map"},
        BadConfig{"ExponentForLog",
                  kRandom + "{lr: -2, n: 1, deep: {kind: a}}]}\n", 11, 6,
                  "searcher.points[0].lr", "from base^-3 to base^-1"},
        BadConfig{"OutOfRange",
                  kRandom + "{lr: 0.1, n: 5, deep: {kind: a}}]}\n", 11, 14,
                  "searcher.points[0].n", "from 1 to 4"},
        BadConfig{"FractionForInt",
                  kRandom + "{lr: 0.1, n: 2.5, deep: {kind: a}}]}\n", 11, 14,
                  "searcher.points[0].n", "an integer"},
        BadConfig{"NotAmongVals",
                  kRandom + "{lr: 0.1, n: 1, deep: {kind: c}}]}\n", 11, 30,
                  "searcher.points[0].deep.kind", "one of vals"},
        BadConfig{"OtherConstant",
                  kRandom + "{lr: 0.1, n: 1, deep: {kind: a}, fixed: 6}]}\n",
                  11, 41, "searcher.points[0].fixed", "the constant"},
        BadConfig{"AbsentByThePoint",
                  kRandom + "{lr: 0.1, deep: {kind: b}, m: 1}]}\n", 11, 31,
                  "searcher.points[0].m", "is absent where deep.kind is \"b\""},
        BadConfig{"AbsentByAConstant", kRandom + "{lr: 0.1, never: 1}]}\n", 11,
                  18, "searcher.points[0].never", "is absent where fixed is 5"},
        BadConfig{"TooMany",
                  kRandom + "{lr: 0.1, n: 1, deep: {kind: a}},\n"
                            "{lr: 0.1, n: 2, deep: {kind: a}},\n"
                            "{lr: 0.1, n: 3, deep: {kind: a}}]}\n",
                  10, 11, "searcher.points", "more points than max_trials"}),
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

// --- Constraints ---

// The constraints are in line 11, from column 16 on.
std::string ConstrainedText(const std::string& constraints,
                            const std::string& more = "") {
  return "entrypoint: a:B\n"
         "hyperparameters:\n"
         "  width: {type: int, minval: 1, maxval: 1000}\n"
         "  layers: {type: int, minval: 1, maxval: 1000}\n"
         "  opt: {type: categorical, vals: [adam, sgd]}\n"
         "searcher:\n"
         "  name: random\n"
         "  metric: loss\n"
         "  max_length: 100\n"
         "  max_trials: 4\n"
         "  constraints: " +
         constraints + "\n" + more;
}

// A grid, with its constraints in line 3.
const std::string kConstrainedGrid =
    "entrypoint: a:B\n"
    "searcher: {name: grid, metric: loss, max_length: 100,\n"
    "  constraints: [a > 3]}\n"
    "hyperparameters:\n";

class BadConstraintTest : public testing::TestWithParam<BadConfig> {};

TEST_P(BadConstraintTest, IsRefusedWithItsPlace) { ExpectRefused(GetParam()); }

INSTANTIATE_TEST_SUITE_P(
    Constraints, BadConstraintTest,
    testing::Values(
        BadConfig{"NoList", ConstrainedText("width < 3"), 11, 16,
                  "searcher.constraints",
                  "expected a list of strings, got the string 'width < 3'; put "
                  "it in brackets"},
        BadConfig{"NoString", ConstrainedText("[width > 1, 3]"), 11, 28,
                  "searcher.constraints[1]",
                  "expected a string such as 'width * layers <= 4096', got the "
                  "integer 3; quote it"},
        BadConfig{"Map", ConstrainedText("[{width: 3}]"), 11, 17,
                  "searcher.constraints[0]", "got a map"},
        BadConfig{"Empty", ConstrainedText("[\"\"]"), 11, 17,
                  "searcher.constraints[0]",
                  "'': expected a name at character 1"},
        BadConfig{"Unknown", ConstrainedText("[widht < 3]"), 11, 17,
                  "searcher.constraints[0]",
                  "'widht < 3': at character 1: there is no hyperparameter "
                  "'widht'; did you mean 'width'?"},
        BadConfig{"Syntax", ConstrainedText("[width * < 3]"), 11, 17,
                  "searcher.constraints[0]",
                  "'width * < 3': expected a number or name at character 9"},
        BadConfig{"TextAsNumber", ConstrainedText("[width * opt < 3]"), 11, 17,
                  "searcher.constraints[0]", "'opt' is a text"},
        BadConfig{"NeverMet", ConstrainedText("[width > 1, width > 1000]"), 11,
                  16, "searcher.constraints",
                  "none of 10,000 drawn points meets the constraints; relax "
                  "'width > 1000'"},
        BadConfig{"Point",
                  ConstrainedText("[width * layers < 1000]",
                                  "  points: [{width: 9}, {width: 50, "
                                  "layers: 30}]\n"),
                  12, 24, "searcher.points[1]",
                  "violates the constraint 'width * layers < 1000'"},
        BadConfig{"PartOfAPoint",
                  ConstrainedText("[width * layers < 1000]",
                                  "  points: [{width: 1000}]\n"),
                  12, 12, "searcher.points[0]", "violates the constraint"},
        BadConfig{"EmptyGrid",
                  kConstrainedGrid + "  a: {type: int, minval: 1, maxval: 3}\n",
                  3, 16, "searcher.constraints", "leave no point of the grid"},
        BadConfig{"LargeGrid",
                  kConstrainedGrid +
                      "  a: {type: int, minval: 1, maxval: 1000}\n"
                      "  b: {type: int, minval: 1, maxval: 1000}\n",
                  4, 1, "hyperparameters",
                  "too many combinations to find the points that meet "
                  "searcher.constraints"}),
    CaseName);

TEST(ConstraintTest, AreReadIntoTheConfiguration) {
  const ConfigResult result = ReadConfig(
      ConstrainedText("[width * layers <= 500000, opt == adam or layers > 2]"),
      {});
  ASSERT_TRUE(result.config);
  EXPECT_THAT(result.config->searcher.constraints,
              testing::ElementsAre("width * layers <= 500000",
                                   "opt == adam or layers > 2"));
  EXPECT_EQ(result.diagnostics.size(), 0u);
  EXPECT_TRUE(ReadConfig(ConstrainedText("[]"), {}).config);
}

TEST(ConstraintTest, WarnIfFewPointsMeetThem) {
  const Diagnostics warnings =
      ReadFindings(ConstrainedText("[width % 200 == 0]"), Severity::kWarning);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_THAT(warnings[0].message,
              testing::ContainsRegex("only [0-9]+ of 10,000 drawn points meet "
                                     "the constraints"));
  EXPECT_EQ(
      ReadFindings(ConstrainedText("[width % 50 == 0]"), Severity::kWarning)
          .size(),
      0u);
}

TEST(ConstraintTest, AreGivenByOverrides) {
  const std::vector<std::string> overrides = {
      "searcher.constraints=[width < 300, wide < 3]"};
  const ConfigResult result =
      ReadConfig(ConstrainedText("[]"), {.overrides = overrides});
  ASSERT_EQ(result.diagnostics.size(), 1u);
  EXPECT_THAT(result.diagnostics[0].ToString(),
              testing::HasSubstr("searcher.constraints[1]: 'wide < 3': at "
                                 "character 1: there is no hyperparameter"));
}

}  // namespace

}  // namespace dtrain
