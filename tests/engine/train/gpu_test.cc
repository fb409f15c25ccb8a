#include "engine/train/gpu.h"

#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/train/cuda/nccl_version.h"

namespace dtrain {

namespace {

using std::chrono::milliseconds;

// The percent of a machine with the driver of tests/support/fake_nvml.cc.
std::optional<std::int64_t> ReadPercent(const std::string& visible) {
  return GpuMeter(visible, DTRAIN_FAKE_NVML).Percent(Duration(0));
}

TEST(GpuMeterTest, WithoutADriverItMeasuresNothing) {
  GpuMeter meter("0", "libno-such-driver.so.1");

  EXPECT_EQ(meter.Percent(Duration(0)), std::nullopt);
}

TEST(GpuMeterTest, MissingGpuIsUnknown) {
  EXPECT_EQ(ReadPercent("7"), std::nullopt);
  EXPECT_EQ(ReadPercent("GPU-c"), std::nullopt);
}

TEST(GpuMeterTest, UnsupportedQueriesAreIgnored) {
  EXPECT_EQ(ReadPercent("1"), std::nullopt);
  EXPECT_EQ(ReadPercent("GPU-b"), std::nullopt);
}

TEST(GpuMeterTest, FirstVisibleGpuIsMeasured) {
  EXPECT_EQ(ReadPercent("0"), 37);
  EXPECT_EQ(ReadPercent("GPU-a"), 37);
  EXPECT_EQ(ReadPercent("GPU-a,GPU-b"), 37);
  EXPECT_EQ(ReadPercent("GPU-b,GPU-a"), std::nullopt);
}

TEST(GpuMeterTest, AsksAtMostOnceASecond) {
  GpuMeter meter("0", DTRAIN_FAKE_NVML);

  EXPECT_EQ(meter.Percent(milliseconds(5'000)), 37);
  EXPECT_EQ(meter.Percent(milliseconds(5'999)), std::nullopt);
  EXPECT_EQ(meter.Percent(milliseconds(6'000)), 37);
}

constexpr std::int64_t kMB = std::int64_t{1} << 20;

// Bytes of a context that is made while NVML's figures change.
std::int64_t ContextBytes(const char* before, const char* after) {
  ::setenv("FAKE_DRIVER", before, /*replace=*/1);
  const ContextMeter meter("GPU-a", DTRAIN_FAKE_NVML);
  ::setenv("FAKE_DRIVER", after, /*replace=*/1);
  const std::int64_t bytes = meter.Bytes();
  ::unsetenv("FAKE_DRIVER");
  return bytes;
}

TEST(ContextMeterTest, ReportsTheMemoryOfThisProcess) {
  EXPECT_EQ(ContextBytes("used=100", "used=90000000 own=4000000"), 4'000'000);
}

TEST(ContextMeterTest, TakesTheDifferenceIfThisProcessIsNotListed) {
  EXPECT_EQ(ContextBytes("used=100", "used=300000100"), 300'000'000);
}

TEST(ContextMeterTest, MemoryOfNeighborsIsNotAContext) {
  EXPECT_EQ(ContextBytes("used=100", "used=2000000100"), 1024 * kMB);
}

TEST(ContextMeterTest, EstimatesWithoutFigures) {
  EXPECT_EQ(ContextBytes("used=100", "used=100"), 512 * kMB);
  EXPECT_EQ(ContextMeter("0", "libno-such-driver.so.1").Bytes(), 512 * kMB);
}

TEST(LimitOfShareTest, FourQuartersAndTheirContextsFitOnTheGpu) {
  const std::int64_t total = 80'000 * kMB;
  const std::int64_t context = 500 * kMB;
  const std::int64_t limit = LimitOfShare(0.25, total, context);
  EXPECT_EQ(limit, 20'000 * kMB - context - 128 * kMB);
  EXPECT_LE(4 * (limit + context), total);
}

TEST(LimitOfShareTest, SmallShareHasNothingLeft) {
  EXPECT_EQ(LimitOfShare(0.25, 2'000 * kMB, 500 * kMB), 0);
}

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr std::int64_t kGB = 1'000'000'000;

TEST(GpuMemoryTest, OutOfMemoryNamesTheHoldersAndARemedy) {
  EXPECT_THAT(
      OutOfMemoryMessage({.total = 140 * kGB,
                          .free = kGB,
                          .reserved = 138 * kGB,
                          .allocated = 120 * kGB}),
      AllOf(HasSubstr("of 140.0 GB"), HasSubstr("this trial has 138.0 GB"),
            HasSubstr("tensors 120.0 GB"), HasSubstr("driver 1.0 GB"),
            HasSubstr("1.0 GB are free"), HasSubstr("lower global_batch_size"),
            HasSubstr("mixed_precision"), Not(HasSubstr("nvidia-smi")),
            Not(HasSubstr("share"))));
}

TEST(GpuMemoryTest, OutOfMemoryNamesOtherProcesses) {
  EXPECT_THAT(OutOfMemoryMessage({.total = 140 * kGB,
                                  .free = kGB,
                                  .reserved = 10 * kGB,
                                  .allocated = 9 * kGB}),
              AllOf(HasSubstr("driver 129.0 GB"), HasSubstr("`nvidia-smi`")));
}

TEST(GpuMemoryTest, OfAShareNamesTheShare) {
  EXPECT_THAT(OutOfMemoryMessage({.total = 140 * kGB,
                                  .free = 70 * kGB,
                                  .reserved = 34 * kGB,
                                  .allocated = 30 * kGB,
                                  .limit = 35 * kGB}),
              AllOf(HasSubstr("of the 35.0 GB of its share"),
                    Not(HasSubstr("nvidia-smi"))));
}

TEST(NcclMismatchTest, SameMinorVersionsFit) {
  EXPECT_EQ(NcclMismatch(22'809, 22'807, 22'809), "");
  EXPECT_EQ(NcclMismatch(22'809, 22'809, 22'903), "");
}

TEST(NcclMismatchTest, HeaderOfAnotherMinorVersionIsRefused) {
  EXPECT_EQ(NcclMismatch(22'705, 22'809, 22'809),
            "dtrain was built with nccl.h 2.27.5, but LibTorch needs that of "
            "NCCL 2.28.9; install that version and build dtrain again");
}

TEST(NcclMismatchTest, OlderLibraryIsRefused) {
  EXPECT_EQ(NcclMismatch(22'809, 22'809, 22'102),
            "this process has loaded NCCL 2.21.2, but LibTorch needs 2.28.9; "
            "remove other copies of libnccl.so.2 from LD_LIBRARY_PATH");
  EXPECT_NE(NcclMismatch(22'809, 22'809, 30'100), "");
}

}  // namespace

}  // namespace dtrain
