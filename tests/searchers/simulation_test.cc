#include "searchers/simulation.h"

#include <gtest/gtest.h>

#include "searchers/registry.h"
#include "searchers/search_plan.h"

namespace dtrain {
namespace {

using nlohmann::json;

const json kOneDimension = {
    {"x", {{"type", "double"}, {"minval", 0}, {"maxval", 1}}}};

Simulation PlayRandom(std::int64_t trials, const SimulationOptions& options) {
  const auto searcher =
      MakeSearcher({.name = "random", .max_length = 10, .max_trials = trials},
                   kOneDimension, 1);
  return Simulate(*searcher, options);
}

TEST(SimulationTest, ComputesTheSimulatedMetrics) {
  EXPECT_EQ(FindSimulatedMetric("constant")(3, 100), 1);
  EXPECT_EQ(FindSimulatedMetric("trial_index")(3, 100), 3);
  EXPECT_EQ(FindSimulatedMetric("neg_trial_index")(3, 100), -3);
  EXPECT_DOUBLE_EQ(FindSimulatedMetric("hash")(1, 100), 649.0 / 1009);
  EXPECT_DOUBLE_EQ(FindSimulatedMetric("hash_step")(0, 100), 875.0 / 1009);
  EXPECT_EQ(FindSimulatedMetric("loss"), nullptr);
}

TEST(SimulationTest, NamesItsMetrics) {
  EXPECT_EQ(SimulatedMetricNames(),
            (std::vector<std::string>{"constant", "trial_index",
                                      "neg_trial_index", "hash", "hash_step"}));
}

TEST(SimulationTest, TrainsAndClosesEveryTrial) {
  const Simulation played =
      PlayRandom(3, {.metric = FindSimulatedMetric("hash")});

  ASSERT_EQ(played.trials.size(), 3u);
  EXPECT_EQ(played.trials[2].lengths, std::vector<std::int64_t>{10});
  EXPECT_EQ(played.trials[2].final_length(), 10);
  EXPECT_FALSE(played.trials[2].exit);
  EXPECT_FALSE(played.failed);
}

TEST(SimulationTest, MakesATrialExitEarly) {
  const Simulation played = PlayRandom(
      2, {.metric = FindSimulatedMetric("hash"),
          .exits = {{.trial = 0, .after = 0}, {.trial = 1, .after = 1}}});

  EXPECT_EQ(played.trials[0].exit, ExitReason::kErrored);
  EXPECT_EQ(played.trials[0].final_length(), 0);
  // It had only a Close left.
  EXPECT_FALSE(played.trials[1].exit);
}

TEST(SimulationTest, FailsIfEveryTrialErrored) {
  const Simulation played = PlayRandom(
      1, {.metric = FindSimulatedMetric("hash"), .exits = {{.trial = 0}}});

  EXPECT_TRUE(played.failed);
}

TEST(SimulationTest, PlaysALargeSearch) {
  const auto searcher = MakeSearcher({.name = "async_halving",
                                      .max_length = 81,
                                      .max_trials = 20'000,
                                      .num_rungs = 5,
                                      .divisor = 3},
                                     kOneDimension, 1);

  const Simulation played =
      Simulate(*searcher, {.metric = FindSimulatedMetric("hash_step")});

  EXPECT_EQ(played.trials.size(), 20'000u);
}

TEST(SimulationTest, PlaysDeferredTrialsWithTheOthers) {
  const auto play = [](std::int64_t creates_ahead) {
    const auto searcher = MakeSearcher({.name = "adaptive_asha",
                                        .max_length = 64,
                                        .max_trials = 200,
                                        .max_concurrent_trials = 0,
                                        .creates_ahead = creates_ahead},
                                       kOneDimension, 1);
    json trials = json::array();
    for (const SimulatedTrial& trial :
         Simulate(*searcher, {.metric = FindSimulatedMetric("hash_step")})
             .trials) {
      trials.push_back({ToJson(Operation(trial.created)), trial.lengths});
    }
    return trials;
  };

  EXPECT_EQ(play(1), play(1024));
}

SearcherConfig ThreeRungs(std::int64_t max_trials) {
  return {.name = "async_halving",
          .metric = "loss",
          .max_length = 9,
          .max_trials = max_trials,
          .num_rungs = 3,
          .divisor = 3};
}

TEST(SimulationTest, ExpectsARangeIfThePlanIsIdeal) {
  const auto expected = ExpectSearch(ThreeRungs(6), kOneDimension);

  ASSERT_TRUE(expected);
  EXPECT_EQ(expected->simulations, 40);
  EXPECT_EQ(expected->trials.at(9), (ExpectedRange{0, 1}));
  EXPECT_GT(expected->trials.at(3).max, 1);
  EXPECT_LT(expected->total_length.min, expected->total_length.max);
  EXPECT_EQ(ExpectSearch(ThreeRungs(6), kOneDimension)->trials,
            expected->trials);
}

TEST(SimulationTest, ExpectsATrialInTheTopRungIfThereAreEnough) {
  EXPECT_EQ(TrialsForTop(PlanBrackets(ThreeRungs(9)).front(), 3), 9);
  EXPECT_GE(ExpectSearch(ThreeRungs(9), kOneDimension)->trials.at(9).min, 1);
}

TEST(SimulationTest, ExpectsNothingOfAVeryLargeSearch) {
  EXPECT_FALSE(ExpectSearch(ThreeRungs(20'000), kOneDimension));
  SearcherConfig by_model = ThreeRungs(2'000);
  by_model.name = "bayesian_asha";
  EXPECT_FALSE(ExpectSearch(by_model, kOneDimension));
  by_model.max_trials = 9;
  by_model.budget_seconds = 60;
  EXPECT_FALSE(ExpectSearch(by_model, kOneDimension));
}

// Its last decision may exceed the budget by less than the longest rung.
TEST(SimulationTest, ExpectsTheBudgetOfASearchByAModel) {
  SearcherConfig by_model = ThreeRungs(16);
  by_model.name = "bayesian_asha";
  by_model.max_concurrent_trials = 1;

  const auto expected = ExpectSearch(by_model, kOneDimension);

  ASSERT_TRUE(expected);
  EXPECT_EQ(expected->simulations, 4);
  EXPECT_GE(expected->total_length.min, SearchBudget(by_model));
  EXPECT_LT(expected->total_length.max, SearchBudget(by_model) + 6);
  EXPECT_EQ(expected->trials.size(), 3u);
  EXPECT_GE(expected->trials.at(9).max, 1);
}

TEST(SimulationTest, ExpectsThePlanOfASearchWithoutRungs) {
  const auto expected = ExpectSearch(
      {.name = "random", .max_length = 5, .max_trials = 7}, kOneDimension);

  EXPECT_EQ(expected->simulations, 0);
  EXPECT_EQ(expected->trials.at(5), (ExpectedRange{7, 7}));
  EXPECT_EQ(expected->total_length, (ExpectedRange{35, 35}));
}

}  // namespace
}  // namespace dtrain
