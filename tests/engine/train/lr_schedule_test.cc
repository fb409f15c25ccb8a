#include "engine/train/lr_schedule.h"

#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace dtrain {

namespace {

using testing::DoubleNear;
using testing::ElementsAre;

// The rates of steps 0 to `steps` for an initial rate of `initial`.
std::vector<double> Rates(LrSchedule schedule, double initial, int steps) {
  std::vector<double> rates = {schedule.Rate(initial)};
  while (static_cast<int>(rates.size()) <= steps) {
    schedule.Step();
    rates.push_back(schedule.Rate(initial));
  }
  return rates;
}

auto Near(double value) { return DoubleNear(value, 1e-12); }

TEST(LrScheduleTest, StepMultipliesEveryStepSize) {
  const LrSchedule schedule(StepLr{.step_size = 2, .gamma = 0.5});
  EXPECT_THAT(Rates(schedule, 0.8, 5),
              ElementsAre(Near(0.8), Near(0.8), Near(0.4), Near(0.4), Near(0.2),
                          Near(0.2)));
}

TEST(LrScheduleTest, MultiStepMultipliesAtMilestones) {
  const LrSchedule schedule(MultiStepLr{.milestones = {1, 3}, .gamma = 0.1});
  EXPECT_THAT(Rates(schedule, 1, 3),
              ElementsAre(Near(1), Near(0.1), Near(0.1), Near(0.01)));
}

TEST(LrScheduleTest, ExponentialMultipliesEveryStep) {
  const LrSchedule schedule(ExponentialLr{.gamma = 0.5});
  EXPECT_THAT(Rates(schedule, 1, 3),
              ElementsAre(Near(1), Near(0.5), Near(0.25), Near(0.125)));
}

// torch.optim.lr_scheduler.CosineAnnealingLR(T_max=4, eta_min=0.1), lr 1.
TEST(LrScheduleTest, CosineFallsAndStaysAtItsMinimum) {
  const LrSchedule schedule(CosineLr{.steps = 4, .minimum = 0.1});
  EXPECT_THAT(Rates(schedule, 1, 5),
              ElementsAre(Near(1), Near(0.8681980515339464), Near(0.55),
                          Near(0.23180194846605365), Near(0.1), Near(0.1)));
}

// torch.optim.lr_scheduler.CosineAnnealingWarmRestarts: T_0=3, eta_min=0.1, and
// T_0=2, T_mult=2.
TEST(LrScheduleTest, CosineRestarts) {
  EXPECT_THAT(
      Rates(LrSchedule(CosineRestartsLr{.steps = 3, .minimum = 0.1}), 1, 6),
      ElementsAre(Near(1), Near(0.775), Near(0.325), Near(1), Near(0.775),
                  Near(0.325), Near(1)));
  EXPECT_THAT(
      Rates(LrSchedule(CosineRestartsLr{.steps = 2, .factor = 2}), 1, 9),
      ElementsAre(Near(1), Near(0.5), Near(1), Near(0.8535533905932737),
                  Near(0.5), Near(0.14644660940672627), Near(1),
                  Near(0.9619397662556434), Near(0.8535533905932737),
                  Near(0.6913417161825449)));
}

// torch.optim.lr_scheduler.PolynomialLR(total_iters=4) with power=1 and 2.
TEST(LrScheduleTest, PolynomialFallsToZero) {
  EXPECT_THAT(Rates(LrSchedule(PolynomialLr{.steps = 4}), 1, 5),
              ElementsAre(Near(1), Near(0.75), Near(0.5), Near(0.25), Near(0),
                          Near(0)));
  EXPECT_THAT(Rates(LrSchedule(PolynomialLr{.steps = 4, .power = 2}), 1, 5),
              ElementsAre(Near(1), Near(0.5625), Near(0.25), Near(0.0625),
                          Near(0), Near(0)));
}

// torch.optim.lr_scheduler.CyclicLR(base_lr=0.1, max_lr=1, step_size_up=2,
// step_size_down=3).
TEST(LrScheduleTest, CyclicRisesAndFalls) {
  EXPECT_THAT(Rates(LrSchedule(CyclicLr{.up = 2, .down = 3}), 1, 6),
              ElementsAre(Near(0.1), Near(0.55), Near(1), Near(0.7), Near(0.4),
                          Near(0.1), Near(0.55)));
}

// torch.optim.lr_scheduler.OneCycleLR(max_lr=1, total_steps=10).
TEST(LrScheduleTest, OneCycleRisesToItsMaximumAndFalls) {
  const LrSchedule schedule(OneCycleLr{.maximum = 1, .steps = 10});
  EXPECT_THAT(
      Rates(schedule, 0.5, 10),
      ElementsAre(Near(0.04), Near(0.52), Near(1), Near(0.9504846320134737),
                  Near(0.8117456539497631), Near(0.6112620219362892),
                  Near(0.3887419780637108), Near(0.18825834605023694),
                  Near(0.04951936798652635), Near(4e-06), Near(4e-06)));
}

TEST(LrScheduleTest, PlateauLowersAfterPatienceWithoutImprovement) {
  LrSchedule schedule(
      ReduceOnPlateau{.metric = "loss", .factor = 0.5, .patience = 1});
  schedule.Observe("loss", 1.0);
  schedule.Observe("loss", 1.0);
  EXPECT_EQ(schedule.Rate(0.8), 0.8);
  schedule.Observe("loss", 0.99999);  // within the threshold
  EXPECT_EQ(schedule.Rate(0.8), 0.4);
}

TEST(LrScheduleTest, PlateauIgnoresOtherMetricsAndSteps) {
  LrSchedule schedule(ReduceOnPlateau{.metric = "loss", .patience = 0});
  schedule.Observe("loss", 1.0);
  schedule.Observe("accuracy", 1.0);
  schedule.Step();
  EXPECT_EQ(schedule.Rate(0.8), 0.8);
}

TEST(LrScheduleTest, PlateauStopsAtItsMinimum) {
  LrSchedule schedule(ReduceOnPlateau{.metric = "accuracy",
                                      .smaller_is_better = false,
                                      .patience = 0,
                                      .minimum = 0.5});
  schedule.Observe("accuracy", 0.5);
  schedule.Observe("accuracy", 0.4);
  EXPECT_EQ(schedule.Rate(0.8), 0.5);
}

// ReduceLROnPlateau sets max(lr · factor, min_lr), and only if that is lower.
TEST(LrScheduleTest, PlateauNeverRaisesARate) {
  LrSchedule schedule(
      ReduceOnPlateau{.metric = "loss", .patience = 0, .minimum = 0.01});
  schedule.Observe("loss", 0.5);
  schedule.Observe("loss", 0.5);
  EXPECT_EQ(schedule.Rate(0.001), 0.001);
  EXPECT_EQ(schedule.Rate(0.05), 0.01);
}

TEST(LrScheduleTest, AStateWithoutVersionContinuesAsTheOlderKind) {
  LrSchedule schedule(StepLr{.step_size = 10, .gamma = 0.25});
  schedule.SetOlderKind(ExponentialLr{.gamma = 0.5});
  schedule.Load({{"steps", 1}, {"bad", 0}, {"scale", 1.0}});
  EXPECT_EQ(schedule.Rate(1), 0.5);
  const nlohmann::json saved = schedule.Save();
  LrSchedule again(StepLr{.step_size = 10, .gamma = 0.25});
  again.SetOlderKind(ExponentialLr{.gamma = 0.5});
  again.Load(saved);
  again.Step();
  EXPECT_EQ(again.Rate(1), 0.25);
  LrSchedule current(StepLr{.step_size = 10, .gamma = 0.25});
  current.SetOlderKind(ExponentialLr{.gamma = 0.5});
  current.Step();
  const nlohmann::json state = current.Save();
  current.Load(state);
  EXPECT_EQ(current.Rate(1), 1);
}

TEST(LrScheduleTest, WarmupRisesLinearlyInFrontOfTheSchedule) {
  const LrSchedule schedule(StepLr{.step_size = 1, .gamma = 0.5},
                            {.steps = 2, .start = 0.5});
  EXPECT_THAT(Rates(schedule, 1, 4), ElementsAre(Near(0.5), Near(0.75), Near(1),
                                                 Near(0.5), Near(0.25)));
}

TEST(LrScheduleTest, ContinuesFromSavedState) {
  LrSchedule schedule(ReduceOnPlateau{.metric = "loss", .patience = 1},
                      {.steps = 10});
  schedule.Step();
  schedule.Observe("loss", 1.0);
  schedule.Observe("loss", 2.0);
  LrSchedule restored(ReduceOnPlateau{.metric = "loss", .patience = 1},
                      {.steps = 10});
  restored.Load(schedule.Save());
  schedule.Observe("loss", 2.0);
  restored.Observe("loss", 2.0);
  EXPECT_EQ(restored.Rate(1), schedule.Rate(1));
  EXPECT_LT(restored.Rate(1), 0.02);
}

TEST(LrScheduleTest, PlateauKeepsItsLoweredRateInASavedState) {
  const ReduceOnPlateau plateau{.metric = "loss", .factor = 0.5, .patience = 0};
  LrSchedule schedule(plateau);
  schedule.Observe("loss", 1.0);
  schedule.Observe("loss", 1.0);
  ASSERT_EQ(schedule.Rate(0.8), 0.4);

  LrSchedule restored(plateau);
  restored.Load(schedule.Save());

  EXPECT_EQ(restored.Rate(0.8), 0.4);
}

TEST(LrScheduleTest, RefusesInvalidOptions) {
  EXPECT_THROW(LrSchedule(StepLr{.step_size = 0}), std::invalid_argument);
  EXPECT_THROW(LrSchedule(MultiStepLr{.milestones = {3, 1}}),
               std::invalid_argument);
  EXPECT_THROW(LrSchedule(CosineLr{.steps = 0}), std::invalid_argument);
  EXPECT_THROW(LrSchedule(OneCycleLr{.warmup = 2}), std::invalid_argument);
  EXPECT_THROW(LrSchedule(CosineRestartsLr{.factor = 0}),
               std::invalid_argument);
  EXPECT_THROW(LrSchedule(PolynomialLr{.power = 0}), std::invalid_argument);
  EXPECT_THROW(LrSchedule(CyclicLr{.down = 0}), std::invalid_argument);
  EXPECT_THROW(LrSchedule(ReduceOnPlateau{.factor = 1}), std::invalid_argument);
  EXPECT_THROW(LrSchedule(StepLr{}, {.steps = -1}), std::invalid_argument);
}

struct GoldenCase {
  std::string name;
  SchedulePace pace;
  std::int64_t aggregation;
  std::int64_t batches_per_epoch;
  std::vector<std::int64_t> steps;  // in all, after each batch
};

void PrintTo(const GoldenCase& golden, std::ostream* out) {
  *out << golden.name;
}

StepMode ParseStepMode(const std::string& name) {
  if (name == "STEP_EVERY_EPOCH") return StepMode::kEveryEpoch;
  if (name == "STEP_EVERY_BATCH") return StepMode::kEveryBatch;
  if (name == "STEP_EVERY_OPTIMIZER_STEP") return StepMode::kEveryOptimizerStep;
  return StepMode::kManual;
}

std::vector<GoldenCase> GoldenCases() {
  std::ifstream file(DTRAIN_GOLDEN_DIR "/lr_scheduler_steps.json");
  std::vector<GoldenCase> cases;
  const auto json = nlohmann::json::parse(file);
  for (const auto& entry : json.at("cases")) {
    const std::string mode = entry.at("step_mode");
    const std::int64_t frequency = entry.at("frequency");
    // Those steps are counted by TrialContext::Step, and tested there.
    if (mode == "STEP_EVERY_OPTIMIZER_STEP") continue;
    cases.push_back(
        {.name = mode + " " + entry.dump(),
         .pace = {ParseStepMode(mode), frequency},
         .aggregation = entry.at("aggregation_frequency"),
         .batches_per_epoch = entry.at("epoch_len"),
         .steps = entry.at("cumulative_scheduler_steps_after_batch")});
  }
  return cases;
}

class ScheduleStepsTest : public testing::TestWithParam<GoldenCase> {};

TEST_P(ScheduleStepsTest, MatchDetermined) {
  const GoldenCase& golden = GetParam();
  std::vector<std::int64_t> steps;
  std::int64_t sum = 0;
  for (std::size_t batch = 0; batch < golden.steps.size(); ++batch) {
    sum += ScheduleSteps(golden.pace, golden.aggregation,
                         golden.batches_per_epoch, batch);
    steps.push_back(sum);
  }
  EXPECT_EQ(steps, golden.steps);
}

INSTANTIATE_TEST_SUITE_P(Golden, ScheduleStepsTest,
                         testing::ValuesIn(GoldenCases()));

}  // namespace

}  // namespace dtrain
