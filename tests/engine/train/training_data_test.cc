#include "engine/train/training_data.h"

#include <memory>

#include <gtest/gtest.h>

#include "engine/data/memory_source.h"

namespace dtrain {
namespace {

std::unique_ptr<DataSource> FourImages() {
  const ImageSet set = {
      .images = torch::arange(16, torch::kUInt8).view({4, 1, 2, 2}),
      .labels = torch::arange(4, torch::kInt64)};
  return std::make_unique<MemorySource>(
      set, SamplerOptions{.batch_size = 2},
      Normalization{.mean = {0.5F}, .std = {0.5F}}, torch::kCPU);
}

TEST(RepeatedBatchTest, RepeatsTheFirstBatchInTheSameMemory) {
  const Batch first = FourImages()->Read().Copy();
  RepeatedBatch source(FourImages(), torch::kCPU);

  EXPECT_EQ(source.BatchesPerEpoch(), 2);
  EXPECT_EQ(source.SamplesPerEpoch(), 4);
  const Batch one = source.Read();
  source.Seek(1);
  const Batch other = source.Read();

  EXPECT_TRUE(torch::equal(one.data, first.data));
  EXPECT_TRUE(torch::equal(one.target, first.target));
  EXPECT_EQ(other.data.data_ptr(), one.data.data_ptr());
  EXPECT_EQ(other.target.data_ptr(), one.target.data_ptr());
}

}  // namespace
}  // namespace dtrain
