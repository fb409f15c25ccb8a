#include "engine/data/memory_source.h"

#include <numeric>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "engine/data/seeds.h"

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

TEST_F(MemorySourceTest, ReusesUnreferencedTensors) {
  MemorySource source = Source({.batch_size = 2});
  const void* first = source.Read().data.data_ptr();
  EXPECT_EQ(source.Read().data.data_ptr(), first);
}

TEST_F(MemorySourceTest, KeepsAReferencedBatch) {
  MemorySource source = Source({.batch_size = 2});
  const Batch held = source.Read();
  const torch::Tensor copy = held.data.clone();
  source.Read();
  source.Read();
  EXPECT_TRUE(torch::equal(held.data, copy));
}

TEST_F(MemorySourceTest, KeepsABatchWithAReferencedView) {
  MemorySource source = Source({.batch_size = 2});
  const torch::Tensor view = source.Read().target.narrow(0, 0, 1);
  source.Read();
  EXPECT_EQ(view.item<std::int64_t>(), 0);
}

TEST_F(MemorySourceTest, RefusesImagesOfOtherTypes) {
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

// Forty images of three channels and 8×6 pixels, none of which is black.
class AugmentationTest : public ::testing::Test {
 protected:
  AugmentationTest() { torch::manual_seed(5); }

  MemorySource Source(const SamplerOptions& samples,
                      const Augmentation& augmentation) const {
    return MemorySource(set_, samples, normalization_, torch::kCPU,
                        augmentation);
  }
  // The whole set as one batch, as it is augmented in pass `pass`.
  torch::Tensor Whole(const Augmentation& augmentation, std::int64_t pass = 0) {
    MemorySource source = Source({.batch_size = 40, .seed = 3}, augmentation);
    source.Seek(pass);
    return source.Read().data;
  }

  const ImageSet set_ = {
      .images = torch::randint(1, 256, {40, 3, 8, 6}, torch::kUInt8),
      .labels = torch::arange(40, torch::kInt64)};
  const Normalization normalization_ = {.mean = {0.5F, 0.25F, 0},
                                        .std = {0.5F, 2.0F, 1}};
  const Augmentation both_ = {.padding = 3, .flip = true};
};

TEST_F(AugmentationTest, ShowsAPieceOfThePaddedImageMirroredOrNot) {
  const torch::Tensor plain = Whole({});
  const torch::Tensor black =
      torch::tensor({-1.0, -0.125, 0.0}, torch::kFloat).view({1, 3, 1, 1});
  torch::Tensor padded = black.expand({40, 3, 14, 12}).clone();
  padded.narrow(2, 3, 8).narrow(3, 3, 6).copy_(plain);
  const torch::Tensor augmented = Whole(both_);
  int mirrored = 0;
  std::set<std::pair<int, int>> places;
  for (int sample = 0; sample < 40; ++sample) {
    bool found = false;
    for (int down = 0; down <= 6; ++down) {
      for (int right = 0; right <= 6; ++right) {
        const torch::Tensor piece =
            padded[sample].narrow(1, down, 8).narrow(2, right, 6);
        const bool turned = torch::equal(augmented[sample], piece.flip({2}));
        if (!turned && !torch::equal(augmented[sample], piece)) continue;
        found = true;
        mirrored += turned ? 1 : 0;
        places.emplace(down, right);
      }
    }
    EXPECT_TRUE(found) << sample;
  }
  EXPECT_GT(mirrored, 8);
  EXPECT_LT(mirrored, 32);
  EXPECT_GT(places.size(), 15u);
}

TEST_F(AugmentationTest, MatchesTensorOperations) {
  for (const Augmentation augmentation :
       {Augmentation{}, Augmentation{.padding = 2}, Augmentation{.flip = true},
        both_}) {
    std::vector<std::int64_t> samples(40);
    std::iota(samples.begin(), samples.end(), 0);
    const auto scales = ChannelScales(normalization_);
    const torch::Tensor scale =
        torch::from_blob(const_cast<ChannelScale*>(scales.data()), {3, 2});
    const Batch batch = GatherByTensors(set_, samples, torch::tensor(samples),
                                        scale, augmentation, PassSeed(3, 2));
    EXPECT_TRUE(torch::equal(batch.data, Whole(augmentation, 2)));
    EXPECT_TRUE(torch::equal(batch.target, set_.labels));
  }
}

TEST_F(AugmentationTest, KernelMatchesPlainArithmeticWithoutAugmentation) {
  const auto scales = ChannelScales(normalization_);
  const GatherJob job = {
      .scales = scales.data(), .channels = 3, .height = 8, .width = 6};
  const torch::Tensor plain = Whole({});
  const float* expected = plain.const_data_ptr<float>();
  const std::uint8_t* images = set_.images.const_data_ptr<std::uint8_t>();
  for (std::int64_t sample = 0; sample < 40; ++sample) {
    for (std::int64_t i = 0; i < job.size(); ++i) {
      const std::uint8_t* from = images + sample * job.size();
      ASSERT_EQ(GatheredNumber(job, from, PlacementIn(job, sample), i),
                expected[sample * job.size() + i]);
    }
  }
}

TEST_F(AugmentationTest, GathersPlainBatchesAtAPosition) {
  const SamplerOptions samples = {.batch_size = 7, .shuffle = true, .seed = 3};
  MemorySource expected = Source(samples, {});
  MemorySource source = Source(samples, {});
  DeviceBatches& batches = *source.on_device();
  EXPECT_EQ(batches.FullBatchesLeft(), 5);
  const torch::Tensor position = torch::tensor({batches.Skip(5)});
  for (int i = 0; i < 5; ++i, position.add_(7)) {
    const Batch batch = batches.Gather(position);
    const Batch other = expected.Read();
    EXPECT_TRUE(batch.data.equal(other.data));
    EXPECT_TRUE(batch.target.equal(other.target));
  }
}

// The images' places come from the host, but with dtrain's kernel.
TEST_F(AugmentationTest, AugmentedBatchesAreNotGatheredByTensorOperations) {
  MemorySource source = Source({.batch_size = 7}, both_);
  EXPECT_EQ(source.on_device(), nullptr);
}

TEST_F(AugmentationTest, KernelReadsPositionAndSeedFromMemory) {
  const std::int64_t samples[] = {4, 9, 1, 7};
  const std::int64_t position = 2;
  const auto seed = static_cast<std::int64_t>(PassSeed(3, 2));
  const GatherJob direct = {.samples = samples + 2,
                            .height = 8,
                            .width = 6,
                            .augmentation = both_,
                            .pass_seed = PassSeed(3, 2)};
  GatherJob by_pointer = direct;
  by_pointer.samples = samples;
  by_pointer.position = &position;
  by_pointer.pass_seed = 0;
  by_pointer.pass_seed_at = &seed;
  for (std::int64_t row = 0; row < 2; ++row) {
    EXPECT_EQ(SampleAt(by_pointer, row), SampleAt(direct, row));
  }
  for (std::int64_t sample = 0; sample < 40; ++sample) {
    EXPECT_EQ(PlacementIn(by_pointer, sample), PlacementIn(direct, sample));
  }
}

TEST_F(AugmentationTest, DependsOnThePassAndTheImageAlone) {
  const torch::Tensor first = Whole(both_, 0);
  EXPECT_FALSE(torch::equal(first, Whole(both_, 1)));
  EXPECT_TRUE(torch::equal(first, Whole(both_, 0)));
  // In batches of seven on the second of two ranks.
  MemorySource source = Source(
      {.batch_size = 7, .shuffle = true, .seed = 3, .rank = 1, .ranks = 2},
      both_);
  const Batch batch = source.Read();
  EXPECT_TRUE(torch::equal(batch.data, first.index_select(0, batch.target)));
}

TEST_F(AugmentationTest, RefusesPaddingLargerThanTheImage) {
  for (const std::int64_t padding : {-1, 7}) {
    EXPECT_THAT([&] { Source({.batch_size = 2}, {.padding = padding}); },
                ::testing::ThrowsMessage<Error>(HasSubstr(
                    "padding of " + std::to_string(padding) + " pixels")));
  }
}

}  // namespace
}  // namespace dtrain
