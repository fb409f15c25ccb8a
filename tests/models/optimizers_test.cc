#include "models/optimizers.h"

#include <cmath>
#include <tuple>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/optim.h>

#include "engine/train/trainer_context.h"

namespace dtrain {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class OptimizersTest : public ::testing::Test {
 protected:
  std::shared_ptr<torch::optim::Optimizer> Optimizer(nlohmann::json hparams) {
    spec_.hparams = std::move(hparams);
    return MakeOptimizer(context_, {torch::zeros({1}, torch::requires_grad())});
  }
  std::optional<LrSchedule> Schedule(nlohmann::json hparams) {
    spec_.hparams = std::move(hparams);
    return MakeSchedule(context_, /*epoch_batches=*/10);
  }
  // Learning rate after `batches` batches, from an initial rate of 1.
  double RateAfter(int batches, nlohmann::json hparams) {
    LrSchedule schedule = Schedule(std::move(hparams)).value();
    for (int i = 0; i < batches; ++i) schedule.Step();
    return schedule.Rate(1);
  }

  TrialSpec spec_;
  TrainerContext context_{spec_, torch::kCPU};
};

TEST_F(OptimizersTest, MakesSgdByDefault) {
  const auto optimizer = Optimizer({{"weight_decay", 0.25}});
  const auto* sgd = dynamic_cast<torch::optim::SGD*>(optimizer.get());
  ASSERT_NE(sgd, nullptr);
  const auto& options =
      static_cast<const torch::optim::SGDOptions&>(optimizer->defaults());
  EXPECT_EQ(options.lr(), 0.05);
  EXPECT_EQ(options.momentum(), 0.9);
  EXPECT_EQ(options.weight_decay(), 0.25);
}

TEST_F(OptimizersTest, MakesTheOptimizerAskedFor) {
  EXPECT_NE(dynamic_cast<torch::optim::Adam*>(
                Optimizer({{"optimizer", "adam"}}).get()),
            nullptr);
  EXPECT_NE(dynamic_cast<torch::optim::AdamW*>(
                Optimizer({{"optimizer", "adamw"}}).get()),
            nullptr);
  const auto rmsprop = Optimizer(
      {{"optimizer", "rmsprop"}, {"alpha", 0.9}, {"weight_decay", 0.25}});
  ASSERT_NE(dynamic_cast<torch::optim::RMSprop*>(rmsprop.get()), nullptr);
  const auto& averaged =
      static_cast<const torch::optim::RMSpropOptions&>(rmsprop->defaults());
  EXPECT_EQ(averaged.alpha(), 0.9);
  EXPECT_EQ(averaged.eps(), 1e-8);
  EXPECT_EQ(averaged.weight_decay(), 0.25);
  const auto adagrad =
      Optimizer({{"optimizer", "adagrad"}, {"lr", 0.5}, {"eps", 1e-10}});
  ASSERT_NE(dynamic_cast<torch::optim::Adagrad*>(adagrad.get()), nullptr);
  const auto& summed =
      static_cast<const torch::optim::AdagradOptions&>(adagrad->defaults());
  EXPECT_EQ(summed.lr(), 0.5);
  EXPECT_EQ(summed.eps(), 1e-10);
}

TEST_F(OptimizersTest, RefusesAnUnknownOptimizer) {
  EXPECT_THAT(
      [&] {
        Optimizer({{"optimizer", "lamb"}});
      },
      ThrowsMessage<InvalidHyperparameters>(
          "hyperparameter 'optimizer': 'lamb' is unknown; expected sgd, "
          "adam, adamw, rmsprop or adagrad"));
}

TEST_F(OptimizersTest, RefusesOptionsThatTorchRefuses) {
  EXPECT_THAT(
      [&] {
        Optimizer({{"lr", -1.0}});
      },
      ThrowsMessage<InvalidHyperparameters>(HasSubstr("learning rate")));
}

TEST_F(OptimizersTest, MakesNoScheduleByDefault) {
  EXPECT_EQ(Schedule(nlohmann::json::object()), std::nullopt);
}

TEST_F(OptimizersTest, CountsSchedulesInEpochs) {
  EXPECT_NEAR(RateAfter(19, {{"schedule", "step"}, {"step_epochs", 2}}), 1,
              1e-12);
  EXPECT_NEAR(RateAfter(20, {{"schedule", "step"}, {"step_epochs", 2}}), 0.1,
              1e-12);
  // Like ExponentialLR stepped at the end of each epoch.
  EXPECT_NEAR(RateAfter(9, {{"schedule", "exponential"}, {"gamma", 0.5}}), 1,
              1e-12);
  EXPECT_NEAR(RateAfter(10, {{"schedule", "exponential"}, {"gamma", 0.5}}), 0.5,
              1e-12);
  EXPECT_NEAR(RateAfter(29, {{"schedule", "exponential"}, {"gamma", 0.5}}),
              0.25, 1e-12);
  EXPECT_NEAR(RateAfter(10, {{"schedule", "cosine"}, {"schedule_epochs", 2}}),
              0.5, 1e-12);
  // The second is twice as long: 40 batches from the 20th on.
  EXPECT_NEAR(RateAfter(40, {{"schedule", "cosine_restarts"},
                             {"schedule_epochs", 2},
                             {"restart_factor", 2}}),
              0.5, 1e-12);
  EXPECT_NEAR(RateAfter(10, {{"schedule", "polynomial"},
                             {"schedule_epochs", 2},
                             {"power", 2}}),
              0.25, 1e-12);
  EXPECT_NEAR(RateAfter(20, {{"schedule", "cyclic"}, {"schedule_epochs", 2}}),
              0.1, 1e-12);
  EXPECT_NEAR(RateAfter(25, {{"schedule", "cyclic"}, {"schedule_epochs", 2}}),
              0.55, 1e-12);
}

// The smooth decay of versions before 2 of the state.
TEST_F(OptimizersTest, ContinuesAnOlderExponentialAsItWas) {
  LrSchedule schedule =
      Schedule({{"schedule", "exponential"}, {"gamma", 0.5}}).value();
  schedule.Load({{"steps", 5}, {"bad", 0}, {"scale", 1.0}});
  EXPECT_NEAR(schedule.Rate(1), std::sqrt(0.5), 1e-12);
}

TEST_F(OptimizersTest, PlateauFollowsTheSearchersMetric) {
  spec_.settings.searcher_metric = "val_accuracy";
  spec_.settings.smaller_is_better = false;
  LrSchedule schedule =
      Schedule({{"schedule", "plateau"}, {"plateau_patience", 0}}).value();
  schedule.Observe("val_accuracy", 0.5);
  schedule.Observe("val_accuracy", 0.6);
  EXPECT_EQ(schedule.Rate(1), 1);
  schedule.Observe("val_accuracy", 0.6);
  EXPECT_EQ(schedule.Rate(1), 0.1);
}

TEST_F(OptimizersTest, PlateauFollowsAnotherMetricInItsUsualDirection) {
  spec_.settings.searcher_metric = "val_accuracy";
  spec_.settings.smaller_is_better = false;
  LrSchedule schedule = Schedule({{"schedule", "plateau"},
                                  {"plateau_patience", 0},
                                  {"plateau_metric", "val_loss"}})
                            .value();
  schedule.Observe("val_loss", 0.5);
  schedule.Observe("val_loss", 0.4);
  EXPECT_EQ(schedule.Rate(1), 1);
  EXPECT_THAT(
      [&] {
        Schedule({{"schedule", "plateau"}, {"plateau_metric", "margin"}});
      },
      ThrowsMessage<InvalidHyperparameters>(
          HasSubstr("'plateau_smaller_is_better' is missing")));
  LrSchedule margin = Schedule({{"schedule", "plateau"},
                                {"plateau_patience", 0},
                                {"plateau_metric", "margin"},
                                {"plateau_smaller_is_better", false}})
                          .value();
  margin.Observe("margin", 1);
  margin.Observe("margin", 0.5);
  EXPECT_EQ(margin.Rate(1), 0.1);
}

TEST_F(OptimizersTest, PassesOtherOptionsToTorch) {
  const auto sgd = Optimizer({{"nesterov", true}});
  EXPECT_TRUE(
      static_cast<const torch::optim::SGDOptions&>(sgd->defaults()).nesterov());
  const auto damped = Optimizer({{"dampening", 0.5}});
  EXPECT_EQ(static_cast<const torch::optim::SGDOptions&>(damped->defaults())
                .dampening(),
            0.5);
  const auto adam = Optimizer({{"optimizer", "adam"},
                               {"betas", {0.8, 0.95}},
                               {"eps", 1e-6},
                               {"amsgrad", true}});
  const auto& options =
      static_cast<const torch::optim::AdamOptions&>(adam->defaults());
  EXPECT_EQ(options.betas(), std::make_tuple(0.8, 0.95));
  EXPECT_EQ(options.eps(), 1e-6);
  EXPECT_TRUE(options.amsgrad());
}

TEST_F(OptimizersTest, RefusesOptionsThatPyTorchRefuses) {
  const auto fault = [&](nlohmann::json hparams) -> std::string {
    try {
      Optimizer(std::move(hparams));
      return "";
    } catch (const InvalidHyperparameters& error) {
      return error.what();
    }
  };
  EXPECT_THAT(fault({{"nesterov", true}, {"dampening", 0.1}}),
              HasSubstr("'nesterov' needs 'momentum' above 0"));
  EXPECT_THAT(fault({{"nesterov", true}, {"momentum", 0}}),
              HasSubstr("'nesterov' needs"));
  EXPECT_THAT(fault({{"optimizer", "adam"}, {"betas", {0.9, 1.0}}}),
              HasSubstr("beta"));
  EXPECT_THAT(fault({{"optimizer", "adam"}, {"betas", {0.9}}}),
              HasSubstr("expected two numbers"));
  EXPECT_THAT(fault({{"optimizer", "adamw"}, {"eps", -1.0}}),
              HasSubstr("epsilon"));
}

TEST_F(OptimizersTest, TakesOneCycleUpToTheLearningRate) {
  // The peak is at 0.3 of the cycle, one step before the 30th of 100 counts.
  const nlohmann::json hparams = {
      {"schedule", "one_cycle"}, {"schedule_epochs", 10}, {"lr", 0.4}};
  EXPECT_NEAR(RateAfter(0, hparams), 0.4 / 25, 1e-12);
  EXPECT_NEAR(RateAfter(29, hparams), 0.4, 1e-12);
}

TEST_F(OptimizersTest, WarmsUpWithoutASchedule) {
  const nlohmann::json hparams = {{"warmup_epochs", 1}};
  EXPECT_NEAR(RateAfter(0, hparams), 0.1, 1e-12);
  EXPECT_NEAR(RateAfter(5, hparams), 0.55, 1e-12);
  EXPECT_NEAR(RateAfter(500, hparams), 1, 1e-12);
}

TEST_F(OptimizersTest, RefusesAnUnknownSchedule) {
  EXPECT_THAT(
      [&] {
        Schedule({{"schedule", "linear"}});
      },
      ThrowsMessage<InvalidHyperparameters>(
          HasSubstr("'linear' is unknown; expected none, step")));
}

TEST_F(OptimizersTest, RefusesAnInvalidSchedule) {
  EXPECT_THROW(Schedule({{"schedule", "step"}, {"gamma", -1}}),
               InvalidHyperparameters);
}

}  // namespace
}  // namespace dtrain
