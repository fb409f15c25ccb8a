#include "engine/run/runner.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace dtrain {
namespace {

ExperimentConfig FourPoints() {
  ExperimentConfig config;
  config.hyperparameters = {
      {"x", {{"type", "categorical"}, {"vals", {1, 2, 3, 4}}}}};
  config.searcher = {.name = "grid", .metric = "loss", .max_length = 10};
  config.resources.slots.kind = SlotChoice::Kind::kCpu;
  return config;
}

TEST(RunnerTest, PlansASlotForEveryPointOfAGridThatTheMachineHasRoomFor) {
  EXPECT_EQ(PlanExperimentSlots(FourPoints()).count,
            std::min<std::int64_t>(UsableCpus(), 4));
}

TEST(RunnerTest, PlansNoMoreSlotsThanTrialsMayRunAtOnce) {
  ExperimentConfig config = FourPoints();
  config.searcher.max_concurrent_trials = 1;

  EXPECT_EQ(PlanExperimentSlots(config).count, 1);
}

TEST(RunnerTest, PlansNoMoreSlotsThanAreAllowed) {
  ExperimentConfig config = FourPoints();
  config.resources.max_slots = 1;

  EXPECT_EQ(PlanExperimentSlots(config).count, 1);
}

}  // namespace
}  // namespace dtrain
