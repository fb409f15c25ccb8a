#include "searchers/search_plan.h"

#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace dtrain {
namespace {

using nlohmann::json;

TEST(SearchPlanTest, AddsUpTheBrackets) {
  const SearchPlan plan = PlanSearch({.name = "adaptive_asha",
                                      .max_length = 900,
                                      .max_trials = 10,
                                      .divisor = 3},
                                     json::object());

  EXPECT_EQ(plan.rows, (std::vector<PlanRow>{{5, 100}, {3, 300}, {2, 900}}));
  EXPECT_EQ(plan.total_length, 5 * 100 + 3 * 300 + 2 * 900);
  EXPECT_EQ(plan.brackets.size(), 2u);
}

class ModelBudgetTest : public testing::TestWithParam<std::int64_t> {};

TEST_P(ModelBudgetTest, IsTheCostOfHalvingWithTheSameKeys) {
  SearcherConfig config{.name = "async_halving",
                        .max_length = 64,
                        .max_trials = 40,
                        .num_rungs = GetParam()};
  const SearchPlan halving = PlanSearch(config, json::object());
  config.name = "bayesian_asha";

  const SearchPlan plan = PlanSearch(config, json::object());

  EXPECT_EQ(plan.total_length, halving.total_length);
  EXPECT_EQ(plan.max_trials, 40);
  EXPECT_TRUE(plan.rows.empty());
}

INSTANTIATE_TEST_SUITE_P(Rungs, ModelBudgetTest, testing::Values(0, 1, 4, 5));

TEST(SearchPlanTest, TakesTheBudgetOfTheConfiguration) {
  SearcherConfig config{.name = "bayesian_asha",
                        .max_length = 900,
                        .max_trials = 50,
                        .budget = 2000};
  EXPECT_EQ(PlanSearch(config, json::object()).total_length, 2000);
  config.budget = 0;
  config.budget_seconds = 60;

  const SearchPlan plan = PlanSearch(config, json::object());

  EXPECT_EQ(plan.total_length, 0);
  EXPECT_EQ(plan.max_seconds, 60);
}

TEST(SearchPlanTest, MergesRungsOfEqualLength) {
  const auto brackets = PlanBrackets({.name = "async_halving",
                                      .max_length = 5,
                                      .max_trials = 8,
                                      .num_rungs = 5,
                                      .divisor = 4});

  ASSERT_EQ(brackets.size(), 1u);
  EXPECT_EQ(brackets[0].rungs, (std::vector<std::int64_t>{1, 5}));
}

// Values of the largest bracket of adaptive_asha: with divisor 4, 10 epochs
// allow two rungs, 1000 epochs five, and 16 trials three.
TEST(SearchPlanTest, FindsTheNumberOfRungsItself) {
  const auto rungs = [](std::int64_t length, std::int64_t trials) {
    return PlanBrackets({.name = "async_halving",
                         .max_length = length,
                         .max_trials = trials,
                         .divisor = 4})
        .front()
        .rungs;
  };
  EXPECT_EQ(rungs(10, 16), (std::vector<std::int64_t>{2, 10}));
  EXPECT_EQ(rungs(1000, 16), (std::vector<std::int64_t>{62, 250, 1000}));
  EXPECT_EQ(rungs(1000, 100'000).size(), 5u);
  EXPECT_EQ(rungs(1, 1), (std::vector<std::int64_t>{1}));
}

struct ModelRungs {
  std::string name;
  SearcherConfig config;
  std::vector<std::int64_t> rungs;
  bool counts_time = false;
};

class ModelRungsTest : public testing::TestWithParam<ModelRungs> {};

TEST_P(ModelRungsTest, FollowFromLengthTrialsAndBudget) {
  SearcherConfig config = GetParam().config;
  config.name = "bayesian_asha";
  config.max_length = config.max_length > 0 ? config.max_length : 50;

  EXPECT_EQ(PlanBrackets(config).front().rungs, GetParam().rungs);
  EXPECT_EQ(CountsTime(config), GetParam().counts_time);
}

// 64 trials of at most 50 epochs are 9.8 full trainings, 128 are 19.5.
INSTANTIATE_TEST_SUITE_P(
    Searches, ModelRungsTest,
    testing::Values(
        ModelRungs{"Usual", {.max_trials = 64}, {3, 12, 50}},
        ModelRungs{"FewTrials", {.max_trials = 8}, {12, 50}},
        ModelRungs{"LargeBudget", {.max_trials = 128}, {1, 3, 12, 50}},
        ModelRungs{"LargeBudgetShortLength",
                   {.max_length = 20, .max_trials = 200},
                   {1, 5, 20}},
        ModelRungs{
            "GivenBudget", {.max_trials = 64, .budget = 750}, {1, 3, 12, 50}},
        ModelRungs{"GivenRungs", {.max_trials = 128, .num_rungs = 2}, {12, 50}},
        ModelRungs{"Duration",
                   {.max_trials = 64, .budget_seconds = 60},
                   {3, 12, 50},
                   /*counts_time=*/true},
        ModelRungs{
            "GivenCost", {.max_trials = 64, .cost = "time"}, {3, 12, 50}, true},
        ModelRungs{"DurationByLength",
                   {.max_trials = 64, .budget_seconds = 60, .cost = "length"},
                   {3, 12, 50}},
        ModelRungs{
            "Recorded", {.max_trials = 64, .rules = 1}, {1, 3, 12, 50}, true}),
    [](const auto& test) { return test.param.name; });

TEST(SearchPlanTest, KeepsRowsWithoutTrials) {
  const SearchPlan plan = PlanSearch({.name = "async_halving",
                                      .max_length = 16,
                                      .max_trials = 1,
                                      .num_rungs = 3,
                                      .divisor = 4},
                                     json::object());

  EXPECT_EQ(plan.rows, (std::vector<PlanRow>{{0, 1}, {0, 4}, {1, 16}}));
}

TEST(SearchPlanTest, TrainsEveryTrialOfTheOthersToTheEnd) {
  const json space = {{"lr", {{"type", "categorical"}, {"vals", {1, 2, 3}}}}};

  EXPECT_EQ(PlanSearch({.name = "grid", .max_length = 10}, space).rows,
            (std::vector<PlanRow>{{3, 10}}));
  EXPECT_EQ(
      PlanSearch({.name = "random", .max_length = 10, .max_trials = 7}, space)
          .rows,
      (std::vector<PlanRow>{{7, 10}}));
  EXPECT_EQ(PlanSearch({.name = "single", .max_length = 10}, space).rows,
            (std::vector<PlanRow>{{1, 10}}));
}

TEST(SearchPlanTest, DistributesTheConcurrency) {
  const auto brackets = PlanBrackets({.name = "adaptive_asha",
                                      .max_length = 900,
                                      .max_trials = 20,
                                      .max_concurrent_trials = 5,
                                      .divisor = 3,
                                      .bracket_rungs = {1, 3, 2}});

  ASSERT_EQ(brackets.size(), 3u);
  EXPECT_EQ(brackets[0].max_concurrent_trials, 2);
  EXPECT_EQ(brackets[1].max_concurrent_trials, 2);
  EXPECT_EQ(brackets[2].max_concurrent_trials, 1);
  EXPECT_EQ(brackets[0].rungs, (std::vector<std::int64_t>{100, 300, 900}));
}

TEST(SearchPlanTest, ComputesHowManyTrialsRunAtOnce) {
  const json space = {{"lr", {{"type", "categorical"}, {"vals", {1, 2, 3}}}}};

  EXPECT_EQ(TrialsAtOnce({.name = "grid", .max_length = 1}, space), 3);
  EXPECT_EQ(TrialsAtOnce({.name = "random",
                          .max_length = 1,
                          .max_trials = 50,
                          .max_concurrent_trials = 0},
                         space),
            50);
  EXPECT_EQ(TrialsAtOnce({.name = "async_halving",
                          .max_length = 64,
                          .max_trials = 50,
                          .max_concurrent_trials = 0,
                          .num_rungs = 3},
                         space),
            16);
}

TEST(SearchPlanTest, StaysFiniteForInfiniteWeights) {
  const SearchPlan plan = PlanSearch({.name = "adaptive_asha",
                                      .max_length = 1'000'000'000'000'000,
                                      .max_trials = 1'000'000,
                                      .divisor = 1'000'000,
                                      .bracket_rungs = {64, 1}},
                                     json::object());

  EXPECT_EQ(plan.brackets.at(0).max_trials, 1'000'000);
  EXPECT_EQ(plan.brackets.at(1).max_trials, 1);
}

TEST(SearchPlanTest, DoesNotOverflow) {
  const SearchPlan plan = PlanSearch({.name = "random",
                                      .max_length = 1'000'000'000'000'000,
                                      .max_trials = 1'000'000},
                                     json::object());

  EXPECT_EQ(plan.total_length, std::numeric_limits<std::int64_t>::max());
}

struct PlanShape {
  std::int64_t max_length;
  std::int64_t max_trials;
  double divisor;
  const char* mode;
};

class BracketPropertyTest : public testing::TestWithParam<PlanShape> {
 protected:
  SearchPlan plan() const {
    const PlanShape& shape = GetParam();
    return PlanSearch({.name = "adaptive_asha",
                       .max_length = shape.max_length,
                       .max_trials = shape.max_trials,
                       .divisor = shape.divisor,
                       .mode = shape.mode},
                      json::object());
  }
};

TEST_P(BracketPropertyTest, DistributesAllTrials) {
  std::int64_t in_brackets = 0;
  std::int64_t in_rows = 0;
  for (const Bracket& bracket : plan().brackets) {
    EXPECT_GE(bracket.max_trials, 1);
    EXPECT_GE(bracket.max_concurrent_trials, 1);
    in_brackets += bracket.max_trials;
  }
  for (const PlanRow& row : plan().rows) in_rows += row.trials;

  EXPECT_GE(in_brackets, GetParam().max_trials);
  EXPECT_EQ(in_rows, in_brackets);
}

TEST_P(BracketPropertyTest, RungsRiseToTheWholeLength) {
  for (const Bracket& bracket : plan().brackets) {
    const auto& rungs = bracket.rungs;

    EXPECT_GE(rungs.front(), 1);
    EXPECT_EQ(rungs.back(), GetParam().max_length);
    EXPECT_EQ(
        std::adjacent_find(rungs.begin(), rungs.end(), std::greater_equal<>()),
        rungs.end());
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, BracketPropertyTest,
    testing::Values(PlanShape{1, 1, 4, "standard"},
                    PlanShape{1000, 1000, 10, "conservative"},
                    PlanShape{64, 3, 4, "conservative"},
                    PlanShape{7, 100, 1.2, "conservative"},
                    PlanShape{900, 2, 3, "aggressive"},
                    PlanShape{1'000'000'000, 1'000'000, 4, "standard"}));

}  // namespace
}  // namespace dtrain
