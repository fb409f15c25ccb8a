#include "engine/data/memory_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"

namespace dtrain {
namespace {

using ::testing::HasSubstr;

class MemorySourceTest : public ::testing::Test {
 protected:
  MemorySource Source(SamplerOptions samples) const {
    return MemorySource(set_, samples, normalization_, torch::kCPU);
  }

  // Five images of two channels and 1×2 pixels: 0, 1, 2, 3; 4, 5, 6, 7; …
  const ImageSet set_ = {
      .images = torch::arange(20, torch::kUInt8).view({5, 2, 1, 2}),
      .labels = torch::arange(5, torch::kInt64) * 10};
  const Normalization normalization_ = {.mean = {0.5F, 0.25F},
                                        .std = {0.5F, 2.0F}};
};

TEST_F(MemorySourceTest, GathersAndNormalises) {
  MemorySource source = Source({.batch_size = 2});
  source.Seek(1);
  const Batch batch = source.Read();
  const torch::Tensor pixels =
      torch::arange(8, 16, torch::kFloat).view({2, 2, 1, 2}) / 255;
  const torch::Tensor mean = torch::tensor({0.5, 0.25}).view({1, 2, 1, 1});
  const torch::Tensor std = torch::tensor({0.5, 2.0}).view({1, 2, 1, 1});
  EXPECT_EQ(batch.data.scalar_type(), torch::kFloat);
  EXPECT_TRUE(torch::allclose(batch.data, (pixels - mean) / std, 1e-5, 1e-6));
  EXPECT_TRUE(torch::equal(batch.target, torch::tensor({20, 30})));
}

TEST_F(MemorySourceTest, EndsAPassWithAShorterBatch) {
  MemorySource source = Source({.batch_size = 2});
  EXPECT_EQ(source.BatchesPerEpoch(), 3);
  EXPECT_EQ(source.SamplesPerEpoch(), 5);
  source.Seek(2);
  EXPECT_EQ(source.Read().size(), 1);
}

TEST_F(MemorySourceTest, GivesTheSameBatchesAfterASeek) {
  MemorySource source = Source({.batch_size = 2, .shuffle = true, .seed = 7});
  source.Seek(4);
  const Batch first = source.Read();
  source.Seek(0);
  source.Seek(4);
  const Batch second = source.Read();
  EXPECT_TRUE(torch::equal(first.data, second.data));
  EXPECT_TRUE(torch::equal(first.target, second.target));
}

TEST_F(MemorySourceTest, GivesOnlyTheSamplesOfTheSet) {
  ImageSet set = set_;
  set.samples = torch::tensor({4, 1, 2}, torch::kInt64);
  MemorySource source(set, {.batch_size = 2}, normalization_, torch::kCPU);
  EXPECT_EQ(source.SamplesPerEpoch(), 3);
  EXPECT_TRUE(torch::equal(source.Read().target, torch::tensor({40, 10})));
  const Batch last = source.Read();
  EXPECT_TRUE(torch::equal(last.target, torch::tensor({20})));
  MemorySource all = Source({.batch_size = 5});
  EXPECT_TRUE(torch::equal(last.data, all.Read().data.narrow(0, 2, 1)));
}

TEST_F(MemorySourceTest, UsesTensorsAgainThatNobodyHolds) {
  MemorySource source = Source({.batch_size = 2});
  const void* first = source.Read().data.data_ptr();
  EXPECT_EQ(source.Read().data.data_ptr(), first);
}

TEST_F(MemorySourceTest, LeavesABatchAloneThatIsStillHeld) {
  MemorySource source = Source({.batch_size = 2});
  const Batch held = source.Read();
  const torch::Tensor copy = held.data.clone();
  source.Read();
  source.Read();
  EXPECT_TRUE(torch::equal(held.data, copy));
}

TEST_F(MemorySourceTest, LeavesABatchAloneOfWhichAViewIsHeld) {
  MemorySource source = Source({.batch_size = 2});
  const torch::Tensor view = source.Read().target.narrow(0, 0, 1);
  source.Read();
  EXPECT_EQ(view.item<std::int64_t>(), 0);
}

TEST_F(MemorySourceTest, RefusesImagesThatAreNoBytes) {
  const ImageSet set = {.images = torch::zeros({5, 2, 1, 2}),
                        .labels = set_.labels};
  EXPECT_THAT(
      [&] {
        MemorySource(set, {.batch_size = 2}, normalization_, torch::kCPU);
      },
      testing::ThrowsMessage<Error>(HasSubstr("an image set is bytes")));
}

TEST_F(MemorySourceTest, RefusesMeansForOtherChannels) {
  const Normalization grey = {.mean = {0.5F}, .std = {0.5F}};
  EXPECT_THAT([&] { MemorySource(set_, {.batch_size = 2}, grey, torch::kCPU); },
              testing::ThrowsMessage<Error>(HasSubstr("have 2 channels")));
}

}  // namespace
}  // namespace dtrain
