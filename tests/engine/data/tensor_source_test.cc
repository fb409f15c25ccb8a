#include "engine/data/tensor_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "tests/support/fake_device.h"

namespace dtrain {
namespace {

using testing::HasSubstr;

// Sample i has data [i, i], target i and weight 10·i.
Batch Set(std::int64_t samples) {
  const torch::Tensor numbers = torch::arange(samples, torch::kFloat);
  return {.data = torch::stack({numbers, numbers}, 1),
          .target = numbers.to(torch::kLong),
          .extra = {{"weight", numbers * 10}}};
}

TEST(TensorSourceTest, GivesMatchingRows) {
  TensorSource source(Set(7), {.batch_size = 3, .shuffle = true, .seed = 5},
                      torch::kCPU);
  EXPECT_EQ(source.BatchesPerEpoch(), 3);
  EXPECT_EQ(source.SamplesPerEpoch(), 7);
  std::multiset<std::int64_t> seen;
  for (int i = 0; i < 3; ++i) {
    const Batch batch = source.Read();
    EXPECT_EQ(batch.size(), i == 2 ? 1 : 3);
    for (std::int64_t row = 0; row < batch.size(); ++row) {
      const auto number = batch.target[row].item<std::int64_t>();
      EXPECT_EQ(batch.data[row][1].item<float>(), number);
      EXPECT_EQ(batch["weight"][row].item<float>(), 10 * number);
      seen.insert(number);
    }
  }
  EXPECT_EQ(seen, (std::multiset<std::int64_t>{0, 1, 2, 3, 4, 5, 6}));
}

TEST(TensorSourceTest, BatchHasTheRowsOfItsNumber) {
  const SamplerOptions samples = {.batch_size = 2, .shuffle = true, .seed = 5};
  TensorSource source(Set(6), samples, torch::kCPU);
  std::vector<Batch> batches;
  for (int i = 0; i < 9; ++i) batches.push_back(source.Read());

  source.Seek(7);
  EXPECT_TRUE(source.Read().target.equal(batches[7].target));
  source.Seek(1);
  EXPECT_TRUE(source.Read().target.equal(batches[1].target));
}

// The order of a pass is copied once; a copy of each batch's indices from
// pageable memory would wait for all work on the device.
TEST(TensorSourceTest, WaitsForTheDeviceOncePerPass) {
  const SamplerOptions samples = {.batch_size = 2, .shuffle = true, .seed = 5};
  const Batch set = {.data = torch::rand({7, 3})};
  TensorSource host(set, samples, torch::kCPU);
  TensorSource device(set, samples, FakeDevice::device());
  const int before = FakeDevice::waits();
  for (int i = 0; i < 8; ++i) {  // two passes
    const torch::Tensor expected = host.Read().data;
    const torch::Tensor data = device.Read().data;
    FakeDevice::Synchronize();
    EXPECT_TRUE(torch::equal(
        torch::from_blob(data.mutable_data_ptr(), data.sizes()), expected));
  }
  EXPECT_EQ(FakeDevice::waits() - before, 2);
}

TEST(TensorSourceTest, GathersFullBatchesAtAPositionOnTheDevice) {
  const SamplerOptions samples = {.batch_size = 2, .shuffle = true, .seed = 5};
  TensorSource expected(Set(7), samples, torch::kCPU);
  TensorSource source(Set(7), samples, torch::kCPU);
  DeviceBatches& batches = *source.on_device();
  // Three full batches and a short one in each of two passes.
  for (int pass = 0; pass < 2; ++pass) {
    EXPECT_EQ(batches.FullBatchesLeft(), 3);
    EXPECT_TRUE(source.Read().target.equal(expected.Read().target));
    EXPECT_EQ(batches.FullBatchesLeft(), 2);
    const torch::Tensor position = torch::tensor({batches.Skip(2)});
    for (int i = 0; i < 2; ++i, position.add_(2)) {
      const Batch batch = batches.Gather(position);
      const Batch other = expected.Read();
      EXPECT_TRUE(batch.target.equal(other.target));
      EXPECT_TRUE(batch.data.equal(other.data));
      EXPECT_TRUE(batch["weight"].equal(other["weight"]));
    }
    EXPECT_EQ(batches.FullBatchesLeft(), 0);
    EXPECT_TRUE(source.Read().target.equal(expected.Read().target));
  }
}

// A graph refers to the order's address.
TEST(TensorSourceTest, OrderKeepsItsAddress) {
  BatchSampler sampler({.samples = 6, .batch_size = 3, .shuffle = true});
  DeviceOrder order(torch::kCPU);
  const auto of_pass = [&] { return sampler.order(); };
  order.Rows(sampler.Next(), of_pass);
  const torch::Tensor first = order.order();
  const torch::Tensor copy = first.clone();
  sampler.Next();
  order.Rows(sampler.Next(), of_pass);
  EXPECT_EQ(order.order().data_ptr(), first.data_ptr());
  EXPECT_FALSE(first.equal(copy));
}

TEST(TensorSourceTest, SeveralRanksGatherNothingByPosition) {
  TensorSource source(Set(8), {.batch_size = 2, .rank = 1, .ranks = 2},
                      torch::kCPU);
  EXPECT_EQ(source.on_device()->FullBatchesLeft(), 0);
}

TEST(TensorSourceTest, NeedsNoTargets) {
  TensorSource source({.data = torch::ones({4, 2})}, {.batch_size = 4},
                      torch::kCPU);
  EXPECT_FALSE(source.Read().target.defined());
}

TEST(TensorSourceTest, RefusesTensorsOfOtherLengths) {
  const auto message = [](Batch set) -> std::string {
    try {
      TensorSource source(set, {.batch_size = 2}, torch::kCPU);
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing";
  };
  EXPECT_THAT(message({.data = torch::ones({4}), .target = torch::ones({3})}),
              HasSubstr("a set of 4 samples has a tensor 'target' of 3"));
  EXPECT_THAT(message({.data = torch::ones({4}),
                       .extra = {{"weight", torch::ones({})}}}),
              HasSubstr("'weight' of none"));
  EXPECT_NE(message({}), "nothing");
}

}  // namespace
}  // namespace dtrain
