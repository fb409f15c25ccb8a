#include "engine/run/best_trial.h"

#include <limits>

#include <gtest/gtest.h>

namespace dtrain {
namespace {

class BestTrialTest : public testing::Test {
 protected:
  TrialRow first_{.id = {1, 1}, .hparams = {{"x", 1}}};
  TrialRow second_{.id = {1, 2}, .hparams = {{"x", 2}}};
  BestTrial best_{/*smaller_is_better=*/true};
};

TEST_F(BestTrialTest, IsTheSmallestValue) {
  EXPECT_TRUE(best_.Offer(first_, 0.5, 100));
  EXPECT_TRUE(best_.Offer(second_, 0.4, 100));
  EXPECT_FALSE(best_.Offer(first_, 0.45, 200));

  EXPECT_EQ(best_.trial(), 2);
  EXPECT_EQ(best_.validation()->value, 0.4);
  EXPECT_EQ(best_.hparams().at("x"), 2);
  EXPECT_EQ(first_.best->batches, 200);
}

TEST_F(BestTrialTest, IsTheLargestValueWhereThatIsBetter) {
  BestTrial best(/*smaller_is_better=*/false);

  EXPECT_TRUE(best.Offer(first_, 0.4, 100));
  EXPECT_FALSE(best.Offer(second_, 0.3, 100));
}

TEST_F(BestTrialTest, IsTheFirstTrialsOfEquals) {
  best_.Offer(second_, 0.5, 100);

  EXPECT_TRUE(best_.Offer(first_, 0.5, 100));
  EXPECT_FALSE(best_.Offer(second_, 0.5, 200));
  EXPECT_EQ(best_.trial(), 1);
}

TEST_F(BestTrialTest, IsNeverNanOrInfinite) {
  EXPECT_FALSE(
      best_.Offer(first_, std::numeric_limits<double>::quiet_NaN(), 100));
  EXPECT_FALSE(
      best_.Offer(first_, -std::numeric_limits<double>::infinity(), 100));
  EXPECT_FALSE(best_.validation().has_value());
}

TEST_F(BestTrialTest, KnowsItsCheckpointWhileThereIsOne) {
  best_.Offer(first_, 0.5, 100);
  best_.NoteSaved({1, 2}, 100, "other");
  EXPECT_EQ(best_.validation()->checkpoint, "");

  best_.NoteSaved({1, 1}, 100, "own");
  EXPECT_EQ(best_.validation()->checkpoint, "own");

  best_.NoteDeleted("own");
  EXPECT_EQ(best_.validation()->checkpoint, "");
}

}  // namespace
}  // namespace dtrain
