#include <filesystem>
#include <fstream>

#include <sys/stat.h>
#include <unistd.h>

#include <gmock/gmock.h>

#include "tests/engine/process/launcher_fixture.h"

namespace dtrain {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Trials with a share of the one GPU that there is said to be.
class SharedGpuTest : public LauncherFixture {
 protected:
  /// For trials of that share, which look for MPS in `pipes_`.
  LocalLauncherOptions Shares(double share, std::int64_t count) const {
    LocalLauncherOptions options = Options();
    options.slots = {.count = count,
                     .gpus = {{.index = 0, .uuid = "GPU-a"}},
                     .gpu_share = share};
    options.environment = {{"CUDA_MPS_PIPE_DIRECTORY", pipes_.string()}};
    return options;
  }
  /// Pretends that MPS's daemon runs, with the PID of this process.
  void RunMps() {
    std::filesystem::create_directory(pipes_);
    ASSERT_EQ(::mkfifo((pipes_ / "control").c_str(), 0600), 0);
    std::ofstream(pipes_ / "nvidia-cuda-mps-control.pid") << ::getpid();
  }
  /// Returns what a trial prints.
  std::string Printed(LocalLauncherOptions options) {
    const auto launcher = MakeLocalLauncher(std::move(options));
    launcher->Start(Spec("print"));
    return Log(Await<TrialExited>(*launcher).trial);
  }

  std::filesystem::path pipes_ = directory.path() / "pipes";
};

TEST_F(SharedGpuTest, NeighborsOfAFaultUnderMpsAreNotAtFault) {
  RunMps();
  const auto launcher = MakeLocalLauncher(Shares(0.5, 2));
  const std::string error =
      "CUDA error: an illegal memory access was encountered";
  launcher->Start(Spec("fail", 1, {{"message", error}}));
  EXPECT_FALSE(Await<TrialExited>(*launcher).gpu_fault);
  launcher->Start(Spec("fail", 2, {{"message", error}}));
  const auto fault = Await<TrialExited>(*launcher).gpu_fault;
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->gpus, "GPU 0 (GPU-a)");
  EXPECT_FALSE(fault->set_aside);
  EXPECT_EQ(launcher->FreeSlots(), 2U);
}

TEST_F(SharedGpuTest, ErrorThatNamesMpsIsNotOfTheTrial) {
  RunMps();
  const auto launcher = MakeLocalLauncher(Shares(0.5, 2));
  launcher->Start(Spec(
      "fail", 1, {{"message", "CUDA error: MPS client has been terminated"}}));
  EXPECT_TRUE(Await<TrialExited>(*launcher).gpu_fault);
}

TEST_F(SharedGpuTest, WithoutMpsEachTrialFailsByItself) {
  const auto launcher = MakeLocalLauncher(Shares(0.5, 2));
  for (const int number : {1, 2}) {
    launcher->Start(Spec("fail", number, {{"message", "CUDA error: assert"}}));
    EXPECT_FALSE(Await<TrialExited>(*launcher).gpu_fault);
  }
}

TEST_F(SharedGpuTest, RunsTrialsConcurrently) {
  const auto launcher = MakeLocalLauncher(Shares(0.5, 2));
  launcher->Start(Spec("hang", 1));
  launcher->Start(Spec("hang", 2));
  const TrialStarted first = Await<TrialStarted>(*launcher);
  const TrialStarted second = Await<TrialStarted>(*launcher);
  EXPECT_THAT(first.slots, ElementsAre("gpu:0"));
  EXPECT_THAT(second.slots, ElementsAre("gpu:0"));
  const SlotUse use = SlotsInUse({{.index = 0}}, 0).at(0);
  ASSERT_EQ(use.holders.size(), 2U);
  EXPECT_EQ(use.holders[0].pid, first.pid);
  EXPECT_EQ(use.holders[0].share, 0.5);
  EXPECT_EQ(use.holders[1].trial, ToString(second.trial));
  launcher->Abort();
  EXPECT_TRUE(SlotsInUse({{.index = 0}}, 0).at(0).free());
}

TEST_F(SharedGpuTest, PassesTheShareToATrial) {
  const std::string log = Printed(Shares(0.25, 4));
  EXPECT_THAT(log, HasSubstr("share 0.25, percentage none"));
  EXPECT_THAT(log, HasSubstr("CUDA_VISIBLE_DEVICES=GPU-a"));
}

TEST_F(SharedGpuTest, PassesNoShareToATrialOnCpus) {
  EXPECT_THAT(Printed(Options()), HasSubstr("share 1, percentage none"));
}

TEST_F(SharedGpuTest, AQuarterUnderMpsHasALimit) {
  RunMps();
  EXPECT_THAT(Printed(Shares(0.25, 4)), HasSubstr("share 0.25, percentage 50"));
}

TEST_F(SharedGpuTest, RequestedLimitApplies) {
  RunMps();
  LocalLauncherOptions options = Shares(0.25, 4);
  options.environment.emplace_back("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "70");
  EXPECT_THAT(Printed(std::move(options)),
              HasSubstr("share 0.25, percentage 70"));
}

}  // namespace
}  // namespace dtrain
