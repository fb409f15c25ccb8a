#include "engine/train/early_stop.h"

#include <cmath>

#include <gtest/gtest.h>

namespace dtrain {
namespace {

TEST(EarlyStopTest, EndsAfterPatienceWithoutImprovement) {
  EarlyStop stop({.metric = "loss", .patience = 2});
  EXPECT_FALSE(stop.Observe(1.0));
  EXPECT_FALSE(stop.Observe(1.0));
  EXPECT_TRUE(stop.Observe(1.5));
}

TEST(EarlyStopTest, ImprovementBeginsTheCountAnew) {
  EarlyStop stop({.metric = "loss", .patience = 2});
  EXPECT_FALSE(stop.Observe(1.0));
  EXPECT_FALSE(stop.Observe(2.0));
  EXPECT_FALSE(stop.Observe(0.5));
  EXPECT_FALSE(stop.Observe(0.6));
  EXPECT_TRUE(stop.Observe(0.6));
}

TEST(EarlyStopTest, LessThanMinDeltaIsNoImprovement) {
  EarlyStop stop({.metric = "accuracy",
                  .smaller_is_better = false,
                  .patience = 1,
                  .min_delta = 0.1});
  EXPECT_FALSE(stop.Observe(0.5));
  EXPECT_FALSE(stop.Observe(0.625));
  EXPECT_TRUE(stop.Observe(0.65));
}

TEST(EarlyStopTest, NanIsNoImprovement) {
  EarlyStop stop({.metric = "loss", .patience = 2});
  EXPECT_FALSE(stop.Observe(NAN));
  EXPECT_FALSE(stop.Observe(3.0));
  EXPECT_FALSE(stop.Observe(NAN));
  EXPECT_TRUE(stop.Observe(NAN));
}

TEST(EarlyStopTest, GoesOnFromSavedState) {
  EarlyStop stop({.metric = "loss", .patience = 2});
  EXPECT_FALSE(stop.Observe(1.0));
  EXPECT_FALSE(stop.Observe(2.0));
  EarlyStop restored({.metric = "loss", .patience = 2});
  restored.Load(stop.Save());
  EXPECT_TRUE(restored.Observe(2.0));
}

}  // namespace
}  // namespace dtrain
