#include "engine/train/training_state.h"

#include <cmath>

#include <gtest/gtest.h>

namespace dtrain {

namespace {

TEST(TrainingStateTest, RemembersOccasionalMetricsOfEarlierReports) {
  TrainingState state;
  state.RememberTraining(10, {{"epoch_loss", 4}, {"loss", 3}, {"lr", 1}}, {});
  state.RememberTraining(20, {{"loss", 2}}, {"epoch_loss"});
  EXPECT_EQ(state.last_training->metrics,
            (MetricValues{{"loss", 2}, {"epoch_loss", 4}}));
  // A second report of the same batch adds to the first.
  state.RememberTraining(20, {{"late", 1}}, {});
  EXPECT_EQ(state.last_training->metrics,
            (MetricValues{{"late", 1}, {"loss", 2}, {"epoch_loss", 4}}));
  EXPECT_EQ(state.KnownMetrics({"lr"}),
            (std::set<std::string>{"epoch_loss", "late", "loss", "lr"}));
}

TEST(TrainingStateTest, RoundTripsThroughJson) {
  TrainingState state;
  state.batches = 150;
  state.sums["loss"] = {.total = 0.1 + 0.2, .weight = 3};
  state.sums["bad"] = {.total = INFINITY, .weight = 1};
  state.last_validation = {100, {{"val_loss", 1.0 / 3}}};
  state.best_validation = 0.7 - 0.6;
  state.ended = "enough";
  const auto text = state.ToJson().dump();
  const auto back = TrainingState::FromJson(nlohmann::json::parse(text));
  EXPECT_EQ(back.batches, 150);
  EXPECT_EQ(back.sums.at("loss").total, 0.1 + 0.2);
  EXPECT_EQ(back.sums.at("bad").total, INFINITY);
  EXPECT_FALSE(back.last_training);
  ASSERT_TRUE(back.last_validation);
  EXPECT_EQ(back.last_validation->batches, 100);
  EXPECT_EQ(back.last_validation->metrics, state.last_validation->metrics);
  EXPECT_EQ(back.best_validation, 0.7 - 0.6);
  EXPECT_EQ(back.ended, "enough");
}

TEST(TrainingStateTest, OlderStateHasNoBestValidation) {
  nlohmann::json json = TrainingState{.batches = 7}.ToJson();
  json.erase("best_validation");
  const TrainingState back = TrainingState::FromJson(json);
  EXPECT_EQ(back.batches, 7);
  EXPECT_FALSE(back.best_validation);
}

TEST(TrainingStateTest, CarriesReportsButNoCompletedOperations) {
  TrainingState state;
  state.unacknowledged = {
      TrainingReport{.seq = 3, .batches = 100, .metrics = {{"loss", NAN}}},
      ProfileReport{.seq = 4, .batches = 100, .samples = 640},
      OperationCompleted{.seq = 5, .length = {100}, .batches = 100}};
  const auto back = TrainingState::FromJson(state.ToJson());
  ASSERT_EQ(back.unacknowledged.size(), 2u);
  const auto& report = std::get<TrainingReport>(back.unacknowledged[0]);
  EXPECT_EQ(report.batches, 100);
  EXPECT_TRUE(std::isnan(report.metrics.at(0).second));
  EXPECT_EQ(std::get<ProfileReport>(back.unacknowledged[1]).samples, 640);
}

TEST(EarlyStopTest, EndsAfterPatienceWithoutImprovement) {
  EarlyStop stop({.metric = "loss", .patience = 2});
  EXPECT_FALSE(stop.Observe(1.0));
  EXPECT_FALSE(stop.Observe(1.0));
  EXPECT_TRUE(stop.Observe(1.5));
}

TEST(EarlyStopTest, ImprovementResetsTheCount) {
  EarlyStop stop({.metric = "loss", .patience = 2});
  EXPECT_FALSE(stop.Observe(1.0));
  EXPECT_FALSE(stop.Observe(2.0));
  EXPECT_FALSE(stop.Observe(0.5));
  EXPECT_FALSE(stop.Observe(0.6));
  EXPECT_TRUE(stop.Observe(0.6));
}

TEST(EarlyStopTest, LessThanMinDeltaIsNotAnImprovement) {
  EarlyStop stop({.metric = "accuracy",
                  .smaller_is_better = false,
                  .patience = 1,
                  .min_delta = 0.1});
  EXPECT_FALSE(stop.Observe(0.5));
  EXPECT_FALSE(stop.Observe(0.625));
  EXPECT_TRUE(stop.Observe(0.65));
}

TEST(EarlyStopTest, NanIsNotAnImprovement) {
  EarlyStop stop({.metric = "loss", .patience = 2});
  EXPECT_FALSE(stop.Observe(NAN));
  EXPECT_FALSE(stop.Observe(3.0));
  EXPECT_FALSE(stop.Observe(NAN));
  EXPECT_TRUE(stop.Observe(NAN));
}

TEST(EarlyStopTest, ContinuesFromSavedState) {
  EarlyStop stop({.metric = "loss", .patience = 2});
  EXPECT_FALSE(stop.Observe(1.0));
  EXPECT_FALSE(stop.Observe(2.0));
  EarlyStop restored({.metric = "loss", .patience = 2});
  restored.Load(stop.Save());
  EXPECT_TRUE(restored.Observe(2.0));
}

}  // namespace

}  // namespace dtrain
