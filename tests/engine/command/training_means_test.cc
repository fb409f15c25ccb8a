#include "engine/command/training_means.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dtrain {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::Pair;

TEST(ReportRateTest, GivesABurstAndThenARate) {
  ReportRate rate(Duration(0), /*per_second=*/10, /*burst=*/2);
  EXPECT_TRUE(rate.Take(Duration(0)));
  EXPECT_TRUE(rate.Take(Duration(0)));
  EXPECT_FALSE(rate.Take(Duration(0)));
  EXPECT_FALSE(rate.Take(milliseconds(50)));
  EXPECT_TRUE(rate.Take(milliseconds(150)));
}

TEST(ReportRateTest, SavesUpNoMoreThanTheBurst) {
  ReportRate rate(Duration(0), /*per_second=*/10, /*burst=*/1);
  EXPECT_TRUE(rate.Take(milliseconds(100'000)));
  EXPECT_FALSE(rate.Take(milliseconds(100'001)));
}

TEST(TrainingMeansTest, AveragesEachMetricOverItsOwnReports) {
  TrainingMeans means;
  EXPECT_TRUE(means.empty());
  means.Add({.point = {.batches = 1}, .metrics = {{"b", 1}, {"a", 10}}});
  means.Add({.point = {.batches = 2}, .metrics = {{"b", 3}}});

  const ProgramTraining mean = means.Take();

  EXPECT_EQ(mean.point.batches, 2);
  EXPECT_THAT(mean.metrics, ElementsAre(Pair("b", 2), Pair("a", 10)));
  EXPECT_TRUE(means.empty());
}

}  // namespace
}  // namespace dtrain
