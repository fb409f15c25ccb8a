// Data on the GPU: our kernel, what stands in for it, and copies.

#include <cstdlib>
#include <iostream>

#include <gmock/gmock.h>

#include "engine/data/cuda_half.h"
#include "engine/data/memory_source.h"
#include "engine/data/seeds.h"
#include "engine/data/thread_loader.h"
#include "engine/train/device.h"
#include "engine/train/gpu.h"
#include "tests/gpu/gpu.h"

namespace dtrain {
namespace {

const Normalization kNormalization = {.mean = {0.49F, 0.48F, 0.45F},
                                      .std = {0.25F, 0.24F, 0.26F}};

ImageSet NoiseSet() {
  torch::manual_seed(1);
  return {.images = torch::randint(0, 256, {1000, 3, 32, 32}, torch::kUInt8),
          .labels = torch::randint(0, 10, {1000}, torch::kInt64)};
}

TEST(GpuDataTest, HasAKernel) {
  EXPECT_NE(FromCudaHalf<GatherOnCuda>(kGatherOnCuda), nullptr);
}

class GpuGatherTest : public testing::TestWithParam<Augmentation> {};

TEST_P(GpuGatherTest, MatchesTheHostBitIdentically) {
  const ImageSet set = NoiseSet();
  const SamplerOptions samples = {.batch_size = 96, .shuffle = true, .seed = 5};
  MemorySource host(set, samples, kNormalization, torch::kCPU, GetParam());
  MemorySource gpu(set, samples, kNormalization, kGpu, GetParam());
  // Two passes, short batches among them.
  for (int i = 0; i < 22; ++i) {
    const Batch expected = host.Read();
    const Batch batch = gpu.Read();
    EXPECT_TRUE(batch.data.is_cuda());
    ASSERT_TRUE(torch::equal(batch.data.cpu(), expected.data)) << i;
    ASSERT_TRUE(torch::equal(batch.target.cpu(), expected.target)) << i;
  }
}

TEST_P(GpuGatherTest, GathersAtAPositionOnTheGpu) {
  const ImageSet set = NoiseSet();
  const SamplerOptions samples = {.batch_size = 96, .shuffle = true, .seed = 5};
  MemorySource host(set, samples, kNormalization, torch::kCPU, GetParam());
  MemorySource gpu(set, samples, kNormalization, kGpu, GetParam());
  host.Seek(11);
  gpu.Seek(11);
  DeviceBatches* batches = gpu.on_device();
  ASSERT_NE(batches, nullptr);
  ASSERT_EQ(batches->FullBatchesLeft(), 10);
  const torch::Tensor position = torch::full(
      {1}, batches->Skip(10), torch::dtype(torch::kLong).device(kGpu));
  for (int i = 0; i < 10; ++i, position.add_(96)) {
    const Batch expected = host.Read();
    const Batch batch = batches->Gather(position);
    ASSERT_TRUE(torch::equal(batch.data.cpu(), expected.data)) << i;
    ASSERT_TRUE(torch::equal(batch.target.cpu(), expected.target)) << i;
  }
}

TEST_P(GpuGatherTest, MatchesTensorOperationsBitIdentically) {
  const ImageSet set = NoiseSet();
  const ImageSet there = {.images = set.images.to(kGpu),
                          .labels = set.labels.to(kGpu)};
  const std::vector<std::int64_t> samples = {0, 999, 5, 5, 17};
  const auto scales = ChannelScales(kNormalization);
  const torch::Tensor scale =
      torch::from_blob(const_cast<ChannelScale*>(scales.data()), {3, 2});
  const Batch expected = GatherByTensors(set, samples, torch::tensor(samples),
                                         scale, GetParam(), 77);
  const Batch batch =
      GatherByTensors(there, samples, torch::tensor(samples, kGpu),
                      scale.to(kGpu), GetParam(), 77);
  // The GPU may round the product and the sum as one.
  EXPECT_TRUE(torch::allclose(batch.data.cpu(), expected.data, 1e-6, 1e-6));
  EXPECT_TRUE(torch::equal(batch.target.cpu(), expected.target));
}

INSTANTIATE_TEST_SUITE_P(
    Ways, GpuGatherTest,
    testing::Values(Augmentation{}, Augmentation{.padding = 4},
                    Augmentation{.flip = true},
                    Augmentation{.padding = 4, .flip = true}));

TEST(GpuDataTest, NormalizesBytesAsTheHostDoes) {
  const auto scales = ChannelScales(kNormalization);
  const Batch bytes = {
      .data = torch::arange(256 * 3, torch::kInt32)
                  .to(torch::kByte)
                  .view({4, 8, 8, 3})
                  .permute({0, 3, 1, 2}),
      .target = torch::zeros({4}, torch::kInt64),
      .scales =
          torch::from_blob(const_cast<ChannelScale*>(scales.data()), {3, 2})
              .clone()};
  DeviceCopy copy(kGpu);
  const Batch batch = copy(bytes.Pinned());
  EXPECT_TRUE(torch::equal(batch.data.cpu(), bytes.Normalized().data));
}

TEST(GpuDataTest, AsynchronousCopiesKeepTheData) {
  ThreadLoader loader(
      {.samples = 6400, .batch_size = 64},
      [](std::span<const std::int64_t> samples, std::uint64_t) {
        const auto first = static_cast<float>(samples.front());
        return Batch{
            .data = torch::full({64, 3, 224, 224}, first),
            .target = torch::full({64}, samples.front(), torch::kInt64)};
      },
      {.workers = 4, .pinned = true});
  DeviceCopy copy(kGpu);
  torch::Tensor wrong = torch::zeros({}, torch::TensorOptions(kGpu));
  for (int i = 0; i < 100; ++i) {
    const Batch read = loader.Read();
    EXPECT_TRUE(read.data.is_pinned());
    const Batch batch = copy(read);
    // Work that takes longer than a copy, and no word from the device.
    const torch::Tensor expected =
        batch.target.to(torch::kFloat).view({64, 1, 1, 1});
    wrong += (batch.data - expected).abs().max();
    wrong += (batch.data * 2 - expected * 2).abs().max();
  }
  EXPECT_EQ(wrong.item<float>(), 0);
}

// The step takes longer than reading and issuing it.
TEST(GpuDataTest, MemoryDoesNotGrowWhileTheHostRunsAhead) {
  const Batch read = Batch{.data = torch::rand({64, 3, 224, 224}),
                           .target = torch::zeros({64}, torch::kInt64)}
                         .Pinned();
  const torch::Tensor weights = torch::rand({4096, 4096}, kGpu);
  DeviceCopy copy(kGpu);
  const std::int64_t before = ReadGpu()->reserved;
  for (int i = 0; i < 200; ++i) {
    const Batch batch = copy(read);
    for (int j = 0; j < 5; ++j) weights.mm(weights);
    batch.data.sum();
  }
  const std::int64_t bytes = static_cast<std::int64_t>(read.data.nbytes());
  EXPECT_LT(ReadGpu()->reserved - before, 10 * bytes);
}

// Trains on labels that are out of range until the GPU's error is noticed.
[[noreturn]] void TrainOnBadLabels() {
  try {
    ThreadLoader loader({.samples = 6400, .batch_size = 64},
                        [](std::span<const std::int64_t>, std::uint64_t) {
                          return Batch{
                              .data = torch::rand({64, 3, 224, 224}),
                              .target = torch::full({64}, 1000, torch::kInt64)};
                        },
                        {.workers = 4, .pinned = true});
    DeviceCopy copy(kGpu);
    const torch::Tensor classes = torch::zeros({10}, kGpu);
    for (int i = 0; i < 100; ++i) {
      classes.index_select(0, copy(loader.Read()).target);
    }
  } catch (const c10::Error& error) {
    std::cerr << TorchMessage(error) << std::endl;
    std::_Exit(3);
  }
  std::_Exit(0);
}

TEST(GpuDataDeathTest, ErrorsOfTheGpuAreReportedWithCopiesInFlight) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(TrainOnBadLabels(), testing::ExitedWithCode(3),
              "device-side assert triggered");
}

}  // namespace
}  // namespace dtrain
