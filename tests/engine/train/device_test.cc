#include "engine/train/device.h"

#include <memory>
#include <set>
#include <vector>

#include <gmock/gmock.h>

#include "tests/support/fake_device.h"

namespace dtrain {
namespace {

// The copy stream is the first one that is requested.
constexpr c10::StreamId kCopyStream = 1;

class DeviceCopyTest : public testing::Test {
 protected:
  void SetUp() override { FakeDevice::Reset(); }
  void TearDown() override { FakeDevice::Reset(); }

  static Batch HostBatch(float value, std::int64_t samples = 8) {
    return {.data = torch::full({samples, 100}, value),
            .target = torch::full({samples}, static_cast<std::int64_t>(value),
                                  torch::kInt64)};
  }

  // Queues a step that reads the batch, which it keeps only while issuing it.
  void Train(const Batch& batch) {
    FakeDevice::Launch([this, data = batch.data.const_data_ptr<float>(),
                        size = batch.data.numel(),
                        target = batch.target.const_data_ptr<std::int64_t>()] {
      EXPECT_EQ(data[0], data[size - 1]);
      EXPECT_EQ(data[0], static_cast<float>(target[0]));
      seen_.push_back(data[0]);
    });
  }

  std::vector<float> seen_;  // by the steps
};

TEST_F(DeviceCopyTest, StepsReadTheirOwnBatches) {
  {
    DeviceCopy copy(FakeDevice::device());
    for (int i = 0; i < 10; ++i) {
      Train(copy(HostBatch(static_cast<float>(i))));
      FakeDevice::RunAhead(kCopyStream);
    }
  }
  FakeDevice::Synchronize();
  EXPECT_THAT(seen_, testing::ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
}

TEST_F(DeviceCopyTest, ReusesDeviceMemory) {
  DeviceCopy copy(FakeDevice::device());
  std::set<const void*> places;
  for (int i = 0; i < 10; ++i) {
    const Batch batch = copy(HostBatch(1));
    places.insert(batch.data.const_data_ptr());
    Train(batch);
  }
  EXPECT_EQ(places.size(), DeviceCopy::kSlots);
  EXPECT_FALSE(FakeDevice::has_tied_memory());
}

TEST_F(DeviceCopyTest, HostRunsAheadByASlotForEachBatchAtMost) {
  DeviceCopy copy(FakeDevice::device());
  for (int i = 0; i < 10; ++i) {
    Train(copy(HostBatch(1)));
    EXPECT_LE(FakeDevice::pending(), DeviceCopy::kSlots) << i;
  }
}

TEST_F(DeviceCopyTest, BatchesThatAreKeptAreNotOverwritten) {
  DeviceCopy copy(FakeDevice::device());
  const Batch kept = copy(HostBatch(7));
  for (int i = 0; i < 10; ++i) Train(copy(HostBatch(static_cast<float>(i))));
  FakeDevice::Synchronize();
  EXPECT_EQ(*kept.data.const_data_ptr<float>(), 7);
  EXPECT_EQ(*kept.target.const_data_ptr<std::int64_t>(), 7);
}

TEST_F(DeviceCopyTest, BatchesMayHaveDifferentShapes) {
  {
    DeviceCopy copy(FakeDevice::device());
    for (int i = 0; i < 10; ++i) {
      const Batch batch =
          copy(HostBatch(static_cast<float>(i), i % 4 == 3 ? 5 : 8));
      EXPECT_EQ(batch.size(), i % 4 == 3 ? 5 : 8);
      Train(batch);
      FakeDevice::RunAhead(kCopyStream);
    }
  }
  FakeDevice::Synchronize();
  EXPECT_THAT(seen_, testing::ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
}

TEST_F(DeviceCopyTest, KeepsStridesAndExtraTensors) {
  DeviceCopy copy(FakeDevice::device());
  const torch::Tensor image =
      torch::rand({2, 3, 4, 5}).contiguous(torch::MemoryFormat::ChannelsLast);
  const torch::Tensor part = torch::arange(10).view({2, 5}).narrow(1, 1, 2);
  const Batch batch = copy({.data = image, .extra = {{"part", part}}});
  FakeDevice::Synchronize();
  EXPECT_FALSE(batch.target.defined());
  EXPECT_EQ(batch.data.strides(), image.strides());
  EXPECT_TRUE(torch::equal(
      torch::from_blob(batch.data.mutable_data_ptr(), image.sizes(),
                       image.strides(), torch::kFloat),
      image));
  EXPECT_TRUE(torch::equal(torch::from_blob(batch["part"].mutable_data_ptr(),
                                            part.sizes(), torch::kInt64),
                           part));
}

TEST_F(DeviceCopyTest, DestructorDoesNotThrowAfterADeviceError) {
  auto copy = std::make_unique<DeviceCopy>(FakeDevice::device());
  Train((*copy)(HostBatch(1)));
  Batch in_use = (*copy)(HostBatch(1));
  FakeDevice::Fail();
  EXPECT_THROW((*copy)(HostBatch(1)), c10::Error);
  in_use = {};
  copy.reset();
}

TEST_F(DeviceCopyTest, NormalizesBytes) {
  DeviceCopy copy(torch::kCPU);
  const Batch batch = copy({.data = torch::full({2, 1, 3, 3}, 4, torch::kByte),
                            .target = torch::zeros({2}, torch::kInt64),
                            .scales = torch::tensor({{0.5F, -1.0F}})});
  EXPECT_TRUE(torch::equal(batch.data, torch::ones({2, 1, 3, 3})));
}

TEST_F(DeviceCopyTest, CpuBatchesAreReturnedAsTheyAre) {
  DeviceCopy copy(torch::kCPU);
  const Batch batch = HostBatch(1);
  EXPECT_TRUE(copy(batch).data.is_same(batch.data));
}

}  // namespace
}  // namespace dtrain
