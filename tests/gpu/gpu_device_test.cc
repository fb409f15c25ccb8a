// Memory, measurements and collectives of a real GPU.

#include <cstdlib>

#include <unistd.h>

#include <gmock/gmock.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/FileStore.hpp>

#include "engine/base/clock.h"
#include "engine/data/cuda_half.h"
#include "engine/ranks/shared_memory.h"
#include "engine/train/cuda_factories.h"
#include "engine/train/device.h"
#include "engine/train/gpu.h"
#include "engine/train/rank_group.h"
#include "engine/train/train_trial.h"
#include "tests/gpu/gpu.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

using testing::HasSubstr;

const torch::TensorOptions kBytes =
    torch::TensorOptions(kGpu).dtype(torch::kUInt8);

std::string MessageOfAllocating(std::int64_t bytes) {
  try {
    torch::empty({bytes}, kBytes);
  } catch (const c10::Error& error) {
    return TorchMessage(error);
  }
  return "";
}

TEST(GpuDeviceTest, OutOfMemoryReportsNumbers) {
  const auto memory = ReadGpu();
  ASSERT_TRUE(memory);
  EXPECT_GT(memory->total, std::int64_t{1} << 30);
  const std::string message = MessageOfAllocating(2 * memory->total);
  EXPECT_THAT(message, HasSubstr("the GPU is out of memory: of "));
  EXPECT_THAT(message, HasSubstr("lower global_batch_size"));
  // And it is fit for use.
  EXPECT_EQ(torch::ones({1000}, kBytes).sum().item<int>(), 1000);
}

TEST(GpuDeviceTest, TrialHasNoMoreMemoryThanItsShare) {
  const auto limit = FromCudaHalf<LimitGpuMemory>(kLimitGpuMemory);
  ASSERT_NE(limit, nullptr);
  limit(0.25);
  const std::int64_t third = ReadGpu()->total / 3;
  EXPECT_THAT(MessageOfAllocating(third), HasSubstr("of its share"));
  limit(1);
  EXPECT_EQ(MessageOfAllocating(third), "");
}

TEST(GpuDeviceTest, ContextTakesMemoryBesideTensors) {
  const ContextMeter meter(std::getenv("CUDA_VISIBLE_DEVICES"));
  torch::empty({1}, kBytes);
  EXPECT_GT(meter.Bytes(), std::int64_t{50} << 20);
  EXPECT_LE(meter.Bytes(), std::int64_t{4} << 30);
}

TEST(GpuDeviceTest, DriverReportsUtilization) {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  ASSERT_NE(visible, nullptr);
  GpuMeter meter(visible);
  const auto percent = meter.Percent(std::chrono::hours(1));
  ASSERT_TRUE(percent);
  EXPECT_GE(*percent, 0);
  EXPECT_LE(*percent, 100);
}

TEST(GpuDeviceTest, NcclReducesForOneRank) {
  const auto make = FromCudaHalf<MakeNcclBackend>(kMakeNcclBackend);
  ASSERT_NE(make, nullptr);
  const TemporaryDirectory directory;
  const std::string meeting = (directory.path() / "meeting").string();
  const auto backend = c10::intrusive_ptr<c10d::Backend>::reclaim(
      make(c10::make_intrusive<c10d::FileStore>(meeting, /*numWorkers=*/1),
           /*rank=*/0, /*ranks=*/1, /*timeout=*/90));
  EXPECT_EQ(backend->getBackendOptions()->timeout, std::chrono::seconds(90));
  std::vector<torch::Tensor> tensors = {
      torch::arange(1000, torch::TensorOptions(kGpu).dtype(torch::kFloat))};
  backend->allreduce(tensors)->wait();
  EXPECT_EQ(tensors[0].sum().item<float>(), 999 * 500);
}

// A group of one rank whose tensors are exchanged by NCCL.
int EndAfterABroadcast(EndReason reason) {
  RankGroup group(MakeSharedMemory(/*ranks=*/1), /*rank=*/0, /*ranks=*/1);
  std::vector<torch::Tensor> tensors = {
      torch::ones({1000}, torch::TensorOptions(kGpu))};
  group.Tensors(kGpu).broadcast(tensors, c10d::BroadcastOptions())->wait();
  return EndTrial(
      {.reason = reason}, [](const Finished&) {}, &group);
}

TEST(GpuDeviceTest, GroupShutsNcclDownWithoutAWarning) {
  testing::internal::CaptureStderr();
  const int exit_code = EndAfterABroadcast(EndReason::kCompleted);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(exit_code, 0);
}

// In a process of its own, since NCCL's threads stay until its end.
TEST(GpuDeviceTest, FailedRankLeavesNcclWithoutAWarning) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(::_exit(EndAfterABroadcast(EndReason::kError)),
              testing::ExitedWithCode(1),
              testing::Not(HasSubstr("destroy_process_group")));
}

}  // namespace
}  // namespace dtrain
