#include "engine/train/gpu_meter.h"

#include <gtest/gtest.h>

namespace dtrain {
namespace {

using std::chrono::milliseconds;

// The percent of a machine with the driver of tests/support/fake_nvml.cc.
std::optional<std::int64_t> PercentOf(const std::string& visible) {
  return GpuMeter(visible, DTRAIN_FAKE_NVML).Percent(Duration(0));
}

TEST(GpuMeterTest, WithoutADriverItMeasuresNothing) {
  GpuMeter meter("0", "libno-such-driver.so.1");

  EXPECT_EQ(meter.Percent(Duration(0)), std::nullopt);
}

TEST(GpuMeterTest, GpuThatIsNotThereIsUnknown) {
  EXPECT_EQ(PercentOf("7"), std::nullopt);
  EXPECT_EQ(PercentOf("GPU-c"), std::nullopt);
}

TEST(GpuMeterTest, DriverThatDoesNotKnowIsNotBelieved) {
  EXPECT_EQ(PercentOf("1"), std::nullopt);
  EXPECT_EQ(PercentOf("GPU-b"), std::nullopt);
}

TEST(GpuMeterTest, FirstVisibleGpuIsMeasured) {
  EXPECT_EQ(PercentOf("0"), 37);
  EXPECT_EQ(PercentOf("GPU-a"), 37);
  EXPECT_EQ(PercentOf("GPU-a,GPU-b"), 37);
  EXPECT_EQ(PercentOf("GPU-b,GPU-a"), std::nullopt);
}

TEST(GpuMeterTest, AsksAtMostOnceASecond) {
  GpuMeter meter("0", DTRAIN_FAKE_NVML);

  EXPECT_EQ(meter.Percent(milliseconds(5'000)), 37);
  EXPECT_EQ(meter.Percent(milliseconds(5'999)), std::nullopt);
  EXPECT_EQ(meter.Percent(milliseconds(6'000)), 37);
}

}  // namespace
}  // namespace dtrain
