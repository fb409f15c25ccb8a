#include "models/optimizers.h"

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
  // The rate after so many batches, where it began with 1.
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
}

TEST_F(OptimizersTest, CallsAnUnknownOptimizerInvalid) {
  EXPECT_THAT(
      [&] {
        Optimizer({{"optimizer", "lamb"}});
      },
      ThrowsMessage<InvalidHyperparameters>(
          "hyperparameter 'optimizer': 'lamb' is unknown; say sgd, "
          "adam or adamw"));
}

TEST_F(OptimizersTest, CallsWhatTorchRefusesInvalid) {
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
  EXPECT_NEAR(RateAfter(10, {{"schedule", "exponential"}, {"gamma", 0.5}}), 0.5,
              1e-12);
  EXPECT_NEAR(RateAfter(10, {{"schedule", "cosine"}, {"schedule_epochs", 2}}),
              0.5, 1e-12);
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

TEST_F(OptimizersTest, CallsAnUnknownScheduleInvalid) {
  EXPECT_THAT(
      [&] {
        Schedule({{"schedule", "linear"}});
      },
      ThrowsMessage<InvalidHyperparameters>(
          HasSubstr("'linear' is unknown; say none, step")));
}

TEST_F(OptimizersTest, CallsAScheduleThatMakesNoSenseInvalid) {
  EXPECT_THROW(Schedule({{"schedule", "step"}, {"gamma", -1}}),
               InvalidHyperparameters);
}

}  // namespace
}  // namespace dtrain
