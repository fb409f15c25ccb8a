#include "engine/slots/gpu_quarantine.h"

#include <string>

#include <poll.h>

#include <gtest/gtest.h>

namespace dtrain {
namespace {

const Gpu kGpu{.index = 3, .uuid = "GPU-a"};

TEST(ReportsGpuFaultTest, RecognizesFaultsOfTheDevice) {
  EXPECT_TRUE(ReportsGpuFault(
      "rank 1: CUDA error: uncorrectable ECC error encountered Search for "
      "`cudaErrorECCUncorrectable' in https://docs.nvidia.com"));
  EXPECT_TRUE(ReportsGpuFault(
      "RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or "
      "unavailable"));
  EXPECT_TRUE(ReportsGpuFault("RuntimeError: No CUDA GPUs are available"));
  EXPECT_TRUE(ReportsGpuFault("failed call to cuInit: CUDA_ERROR_NO_DEVICE"));
}

TEST(ReportsGpuFaultTest, IgnoresFaultsOfTheProgram) {
  EXPECT_FALSE(ReportsGpuFault("CUDA error: device-side assert triggered"));
  EXPECT_FALSE(
      ReportsGpuFault("CUDA error: an illegal memory access was encountered"));
  EXPECT_FALSE(ReportsGpuFault("CUDA error: invalid device ordinal"));
  EXPECT_FALSE(ReportsGpuFault("the GPU is out of memory: of 80 GB, …"));
  EXPECT_FALSE(ReportsGpuFault("CUDA error: unspecified launch failure"));
}

class GpuQuarantineTest : public ::testing::Test {
 protected:
  GpuQuarantine Make(ProbeGpu probe) {
    return {{.probe = std::move(probe)},
            {.now = [] { return Timestamp(0); },
             .monotonic = [this] { return now_; }}};
  }
  /// Waits until the running probe has ended.
  static std::optional<Gpu> AwaitProbe(GpuQuarantine& quarantine) {
    std::optional<Gpu> passed;
    for (int i = 0; i < 20'000 && quarantine.child() > 0 && !passed; ++i) {
      passed = quarantine.OnTime();
      ::poll(nullptr, 0, /*milliseconds=*/1);
    }
    return passed;
  }

  Duration now_{0};
};

TEST_F(GpuQuarantineTest, ProbesAfterAMinute) {
  GpuQuarantine quarantine = Make([](const Gpu& gpu) {
    return gpu.uuid == "GPU-a" ? "" : "the wrong GPU";
  });
  quarantine.Add(kGpu);
  EXPECT_TRUE(quarantine.Has(3));
  EXPECT_EQ(quarantine.Deadline(), std::chrono::minutes(1));
  now_ = std::chrono::seconds(59);
  EXPECT_FALSE(quarantine.OnTime());
  EXPECT_EQ(quarantine.child(), -1);
  now_ = std::chrono::seconds(60);
  EXPECT_FALSE(quarantine.OnTime()) << "the probe only starts";
  const auto passed = AwaitProbe(quarantine);
  ASSERT_TRUE(passed);
  EXPECT_EQ(passed->index, 3);
  EXPECT_FALSE(quarantine.Has(3));
  EXPECT_EQ(quarantine.Deadline(), std::nullopt);
}

TEST_F(GpuQuarantineTest, ProbesAGpuThatFailsAgain) {
  GpuQuarantine quarantine = Make([](const Gpu&) { return "broken"; });
  quarantine.Add(kGpu);
  now_ = std::chrono::minutes(1);
  quarantine.OnTime();
  EXPECT_FALSE(AwaitProbe(quarantine));
  EXPECT_TRUE(quarantine.Has(3));
  EXPECT_EQ(quarantine.Deadline(), std::chrono::minutes(2));
}

TEST_F(GpuQuarantineTest, KillsAProbeThatHangs) {
  GpuQuarantine quarantine = Make([](const Gpu&) -> std::string {
    while (true) ::poll(nullptr, 0, -1);
  });
  quarantine.Add(kGpu);
  now_ = std::chrono::minutes(1);
  quarantine.OnTime();
  EXPECT_GT(quarantine.child(), 0);
  now_ += std::chrono::seconds(20);
  EXPECT_FALSE(quarantine.OnTime());
  EXPECT_EQ(quarantine.child(), -1);
  EXPECT_TRUE(quarantine.Has(3));
}

}  // namespace
}  // namespace dtrain
