#include "engine/run/points.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/store/store.h"

namespace dtrain {
namespace {

using testing::ElementsAre;

struct RepeatResult {
  State state = State::kCompleted;
  std::optional<double> best;
};

// The trials of points of three repeats.
std::vector<TrialRow> MakePoints(const std::vector<RepeatResult>& repeats) {
  std::vector<TrialRow> trials;
  for (const RepeatResult& repeat : repeats) {
    const auto number = static_cast<std::int64_t>(trials.size()) + 1;
    TrialRow trial{.id = {1, number}, .state = repeat.state};
    if (repeat.best) trial.best = BestValidation{*repeat.best, number};
    trial.point = (number - 1) / 3 + 1;
    trial.repeat = (number - 1) % 3 + 1;
    trials.push_back(trial);
  }
  return trials;
}

TEST(PointsTest, HaveTheValuesOfRepeatsThatDidNotFail) {
  using enum State;
  const auto points = ListPoints(MakePoints({{kCompleted, 0.5},
                                             {kError, 0.1},
                                             {kStopped, 0.3},
                                             {kCanceled, 0.2},
                                             {kInvalid, {}},
                                             {kCompleted, {}}}),
                                 "mean", /*smaller_is_better=*/true);

  ASSERT_EQ(points.size(), 2u);
  EXPECT_THAT(points[0].values, ElementsAre(0.5, 0.3));
  EXPECT_DOUBLE_EQ(*points[0].value, 0.4);
  EXPECT_DOUBLE_EQ(points[0].mean(), 0.4);
  EXPECT_DOUBLE_EQ(points[0].sd(), std::sqrt(0.02));
  EXPECT_EQ(points[0].best_trial, 3);
  EXPECT_EQ(points[0].best.batches, 3);
  EXPECT_EQ(PointText(points[0], {3, "mean"}),
            "point 1, mean 0.4 of 2 of 3 repeats, sd 0.141");
  EXPECT_EQ(points[1].value, std::nullopt);
  EXPECT_EQ(PointText(points[1], {3, "mean"}), "point 2, 0 of 3 repeats");
}

TEST(ConfirmedTrialTest, AreInTheOrderOfTheirMeans) {
  using enum State;
  ExperimentDetail experiment;
  experiment.provenance[kConfirms] = {{"experiment", 3},
                                      {"trials",
                                       {{{"trial", "3.7"}, {"value", 0.1}},
                                        {{"trial", "3.2"}, {"value", 0.2}},
                                        {{"trial", "3.9"}, {"value", 0.3}}}}};
  const auto trials = MakePoints({{kCompleted, 0.5},
                                  {kCompleted, 0.7},
                                  {kCompleted, 0.6},
                                  {kError, {}},
                                  {kError, {}},
                                  {kError, {}},
                                  {kCompleted, 0.4},
                                  {kError, {}},
                                  {kError, {}}});

  const auto confirmed = ListConfirmed(trials, experiment);

  std::vector<std::string> texts;
  for (const ConfirmedTrial& one : confirmed) texts.push_back(one.Text());
  EXPECT_THAT(
      texts,
      ElementsAre("3.9 reported 0.3, again 0.4 of 1",
                  "3.7 reported 0.1, again 0.6 ± 0.0577 (standard error) of 3",
                  "3.2 reported 0.2, no result again"));
  EXPECT_EQ(confirmed[1].ToJson()["n"], 3);
  EXPECT_TRUE(ListConfirmed(trials, ExperimentDetail()).empty());
}

TEST(PointsTest, TheBestHasAllItsRepeats) {
  using enum State;
  const auto trials = MakePoints({{kCompleted, 0.5},
                                  {kCompleted, 0.4},
                                  {kCompleted, 0.6},
                                  {kCompleted, 0.4},
                                  {kRunning, 0.1},
                                  {kCompleted, 0.4},
                                  {kCompleted, 0.1}});
  const auto points = ListPoints(trials, "median", /*smaller_is_better=*/true);

  const PointRow* best = FindBestPoint(points, 3, /*over=*/false, true);
  ASSERT_NE(best, nullptr);
  EXPECT_EQ(best->point, 1) << "of the others a repeat runs or is to come";
  EXPECT_EQ(best->value, 0.5);
  EXPECT_EQ(best->best_trial, 2);
  EXPECT_EQ(FindBestPoint(points, 3, /*over=*/true, true)->point, 3);
  const auto larger = ListPoints(trials, "max", /*smaller_is_better=*/false);
  EXPECT_EQ(FindBestPoint(larger, 3, /*over=*/false, false)->best_trial, 3);
  EXPECT_EQ(FindBestPoint({}, 3, /*over=*/true, true), nullptr);
}

TEST(PointsTest, EqualRepeatsSuggestAProgramWithoutItsSeed) {
  using enum State;
  const auto points = ListPoints(MakePoints({{kCompleted, 0.5},
                                             {kCompleted, 0.5},
                                             {kCompleted, 0.5},
                                             {kCompleted, 0.5},
                                             {kCompleted, 0.25},
                                             {kCompleted, 0.5},
                                             {kCompleted, 0.5}}),
                                 "mean", /*smaller_is_better=*/true);

  ASSERT_EQ(points.size(), 3u);
  EXPECT_EQ(PointText(points[0], {3, "mean"}),
            "point 1, mean 0.5 of 3 repeats, sd 0, all equal: the program may "
            "not use its seed");
  EXPECT_EQ(points[1].EqualityRemark(), "");
  EXPECT_EQ(points[2].EqualityRemark(), "") << "one value tells nothing";
}

TEST(PointsTest, OfEqualPointsTheFirstIsBest) {
  const auto points = ListPoints(
      MakePoints(std::vector<RepeatResult>(6, {State::kCompleted, 0.5})),
      "mean", /*smaller_is_better=*/true);

  EXPECT_EQ(FindBestPoint(points, 3, /*over=*/true, true)->point, 1);
}

TEST(PointsTest, TheStoreHasTheBestThatItIsTold) {
  Store store = Store::OpenForWriting(StoreLayout(":memory:"));
  store.Write([](StoreWriter& writer) {
    writer.AddExperiment({.name = "test",
                          .searcher = "random",
                          .metric = "loss",
                          .config = {{"searcher", {{"repeats", 2}}}},
                          .provenance = nlohmann::json::object()});
    for (std::int64_t number = 1; number <= 3; ++number) {
      writer.AddTrial({.id = {1, number}});
    }
    writer.AddValidation({1, 1}, 0.5, 10, /*smaller_is_better=*/true);
    writer.AddValidation({1, 2}, 0.3, 20, /*smaller_is_better=*/true);
    writer.AddValidation({1, 2}, 0.4, 20, /*smaller_is_better=*/true);
  });
  EXPECT_FALSE(store.Experiment(1)->row.best);
  EXPECT_EQ(store.Trial({1, 2})->best->value, 0.4);
  EXPECT_EQ(store.Trial({1, 3})->point, 2);
  EXPECT_EQ(store.Trials(1)[1].repeat, 2);

  store.Write([](StoreWriter& writer) {
    writer.SetExperimentBest(1, 2, BestValidation{0.45, 20});
  });
  EXPECT_EQ(store.Experiment(1)->row.best->value, 0.45);
  EXPECT_EQ(store.Experiment(1)->row.best_trial, 2);

  store.Write([](StoreWriter& writer) {
    writer.SetExperimentBest(1, 0, std::nullopt);
  });
  EXPECT_FALSE(store.Experiment(1)->row.best);
  EXPECT_EQ(store.Experiment(1)->row.best_trial, 0);
}

// Oracle of `confirm --top 3 --repeats 5`: 64 trials whose noise is as large as
// the spread of the ten best, in 200 simulated searches.
TEST(ConfirmedTrialTest, AreTrulyBetterThanTheReportedBest) {
  constexpr int kTrials = 64;
  constexpr double kStep = 0.01;  // trial i has the true value i * kStep
  std::mt19937_64 random(1);
  std::normal_distribution<double> noise(0, 9 * kStep);
  double reported_regret = 0;
  double confirmed_regret = 0;
  int different = 0;
  int better = 0;
  for (int search = 0; search < 200; ++search) {
    std::vector<std::pair<double, int>> reported;
    for (int i = 0; i < kTrials; ++i) {
      reported.emplace_back(i * kStep + noise(random), i);
    }
    std::ranges::sort(reported);
    nlohmann::json sources = nlohmann::json::array();
    std::vector<TrialRow> trials;
    for (const auto& [value, i] : std::span(reported).first(3)) {
      sources.push_back(
          {{"trial", "3." + std::to_string(i)}, {"value", value}});
      for (int repeat = 1; repeat <= 5; ++repeat) {
        const auto number = std::ssize(trials) + 1;
        trials.push_back({.id = {4, number}, .state = State::kCompleted});
        trials.back().best =
            BestValidation{i * kStep + noise(random), /*batches=*/1};
        trials.back().point = std::ssize(sources);
        trials.back().repeat = repeat;
      }
    }
    ExperimentDetail experiment;
    experiment.row.smaller_is_better = true;
    experiment.provenance[kConfirms] = {{"experiment", 3}, {"trials", sources}};
    const int first = reported.front().second;
    const int confirmed =
        std::stoi(ListConfirmed(trials, experiment).front().trial.substr(2));
    reported_regret += first * kStep;
    confirmed_regret += confirmed * kStep;
    different += static_cast<int>(confirmed != first);
    better += static_cast<int>(confirmed < first);
  }
  EXPECT_LT(confirmed_regret, reported_regret);
  EXPECT_GT(better, 0.6 * different);
  RecordProperty("mean regret", std::to_string(reported_regret / 200) + " to " +
                                    std::to_string(confirmed_regret / 200));
  RecordProperty("better",
                 std::to_string(better) + " of " + std::to_string(different));
}

}  // namespace
}  // namespace dtrain
