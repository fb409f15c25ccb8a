// GPUs that fail trials of the local launcher.

#include <gmock/gmock.h>

#include "tests/engine/process/launcher_fixture.h"

namespace dtrain {
namespace {

using ::testing::ElementsAre;

constexpr const char* kEcc = "CUDA error: uncorrectable ECC error encountered";

/// Trials on two GPUs that exist in name only.
class GpuFaultTest : public LauncherFixture {
 protected:
  LocalLauncherOptions TwoGpus() const {
    LocalLauncherOptions options = Options();
    options.slots = {
        .count = 2,
        .gpus = {{.index = 0, .uuid = "GPU-a"}, {.index = 1, .uuid = "GPU-b"}}};
    options.quarantine = {.period = std::chrono::milliseconds(50),
                          .probe = [](const Gpu&) { return "broken"; }};
    return options;
  }
  /// Runs a trial that fails with an error. Returns the fault of its GPUs.
  std::optional<GpuFault> Fail(Launcher& launcher, const std::string& message,
                               const std::string& behaviour = "fail") {
    launcher.Start(Spec(behaviour, 1, {{"message", message}}));
    return Await<TrialExited>(launcher).gpu_fault;
  }
  std::vector<std::string> SlotsOfATrial(Launcher& launcher) {
    launcher.Start(Spec("finish", 2));
    const auto slots = Await<TrialStarted>(launcher).slots;
    Await<TrialExited>(launcher);
    return slots;
  }
};

TEST_F(GpuFaultTest, SetsAGpuAsideThatHasFailed) {
  const auto launcher = MakeLocalLauncher(TwoGpus());
  const auto fault = Fail(*launcher, kEcc);
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->gpus, "GPU 0 (GPU-a)");
  EXPECT_EQ(fault->reason, kEcc);
  EXPECT_FALSE(fault->none_left);
  EXPECT_EQ(launcher->FreeSlots(), 1U);
  EXPECT_THAT(SlotsOfATrial(*launcher), ElementsAre("gpu:1"));
  launcher->Wait(std::chrono::milliseconds(300));
  EXPECT_THAT(SlotsOfATrial(*launcher), ElementsAre("gpu:1"))
      << "the probes fail";
}

TEST_F(GpuFaultTest, FindsTheFaultInTheLogOfAProgram) {
  const auto launcher = MakeLocalLauncher(TwoGpus());
  const auto fault = Fail(*launcher, kEcc, "log error");
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->reason, kEcc);
}

TEST_F(GpuFaultTest, KeepsTheGpuOfATrialThatFailsByItself) {
  const auto launcher = MakeLocalLauncher(TwoGpus());
  EXPECT_FALSE(Fail(*launcher, "CUDA error: device-side assert triggered"));
  EXPECT_EQ(launcher->FreeSlots(), 2U);
}

TEST_F(GpuFaultTest, ReportsThatNoneIsLeft) {
  const auto launcher = MakeLocalLauncher(TwoGpus());
  EXPECT_FALSE(Fail(*launcher, kEcc)->none_left);
  const auto fault = Fail(*launcher, kEcc);
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->gpus, "GPU 1 (GPU-b)");
  EXPECT_TRUE(fault->none_left);
  EXPECT_EQ(launcher->FreeSlots(), 0U);
}

TEST_F(GpuFaultTest, UsesAGpuAgainThatPassesAProbe) {
  LocalLauncherOptions options = TwoGpus();
  options.quarantine.probe = [](const Gpu&) { return ""; };
  const auto launcher = MakeLocalLauncher(std::move(options));
  ASSERT_TRUE(Fail(*launcher, kEcc));
  EXPECT_EQ(Await<GpuRestored>(*launcher).gpu, "GPU 0 (GPU-a)");
  EXPECT_THAT(SlotsOfATrial(*launcher), ElementsAre("gpu:0"));
}

TEST_F(GpuFaultTest, NamesTheGpuOfTheRankThatFailed) {
  LocalLauncherOptions options = TwoGpus();
  options.slots.count = 1;
  options.slots.slots_per_trial = 2;
  const auto launcher = MakeLocalLauncher(std::move(options));
  launcher->Start(TwoRanks("fail", 1, "hang", {{"message", kEcc}}));
  const auto fault = Await<TrialExited>(*launcher).gpu_fault;
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->gpus, "GPU 1 (GPU-b)");
  EXPECT_TRUE(fault->none_left) << "a trial needs two";
}

}  // namespace
}  // namespace dtrain
