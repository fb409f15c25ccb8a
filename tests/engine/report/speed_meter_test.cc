#include "engine/report/speed_meter.h"

#include <gtest/gtest.h>

namespace dtrain {
namespace {

using std::chrono::seconds;

RunStatus At(std::int64_t batches) {
  return {.running = {{.id = {1, 1}, .batches = batches}}};
}

TEST(SpeedMeterTest, KnowsNothingOfOneMoment) {
  SpeedMeter meter;
  meter.Update(At(10), seconds(0));
  EXPECT_EQ(meter.BatchesPerSecond({1, 1}), 0);
}

TEST(SpeedMeterTest, MeasuresTheLastSeconds) {
  SpeedMeter meter;
  meter.Update(At(0), seconds(0));
  meter.Update(At(10), seconds(10));
  meter.Update(At(110), seconds(11));
  meter.Update(At(210), seconds(12));
  EXPECT_DOUBLE_EQ(meter.BatchesPerSecond({1, 1}), 100);
}

TEST(SpeedMeterTest, BeginsAnewAfterARestart) {
  SpeedMeter meter;
  meter.Update(At(100), seconds(0));
  meter.Update(At(50), seconds(1));
  meter.Update(At(60), seconds(2));
  EXPECT_DOUBLE_EQ(meter.BatchesPerSecond({1, 1}), 10);
}

TEST(SpeedMeterTest, ForgetsTrialsThatDoNotRun) {
  SpeedMeter meter;
  meter.Update(At(0), seconds(0));
  meter.Update(At(5), seconds(1));
  meter.Update({}, seconds(2));
  EXPECT_EQ(meter.BatchesPerSecond({1, 1}), 0);
}

}  // namespace
}  // namespace dtrain
