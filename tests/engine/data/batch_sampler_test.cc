#include "engine/data/batch_sampler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "engine/base/error.h"

namespace dtrain {

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Batches = std::vector<std::vector<std::int64_t>>;

nlohmann::json Golden() {
  std::ifstream file(DTRAIN_GOLDEN_DIR "/samplers.json");
  return nlohmann::json::parse(file);
}

std::vector<std::int64_t> Next(BatchSampler& sampler) {
  const auto samples = sampler.Next().samples;
  return {samples.begin(), samples.end()};
}

Batches Next(BatchSampler& sampler, std::size_t count) {
  Batches batches;
  while (batches.size() < count) batches.push_back(Next(sampler));
  return batches;
}

SamplerOptions MakeSamplerOptions(const nlohmann::json& example, int rank) {
  return {.samples = example["dataset"],
          .batch_size = example["batch_size"],
          .drop_last = example["drop_last"],
          .wrap = example["repeat"],
          .rank = rank,
          .ranks = example["workers"]};
}

TEST(BatchSamplerTest, DealsBatchesToRanksAsRecorded) {
  const nlohmann::json golden = Golden();
  ASSERT_EQ(golden["batch_samplers"].size(), 7u);
  for (const nlohmann::json& example : golden["batch_samplers"]) {
    for (const nlohmann::json& rank : example["ranks"]) {
      BatchSampler sampler(MakeSamplerOptions(example, rank["rank"]));
      sampler.Seek(example["skip"]);
      const Batches expected = rank["first"];
      EXPECT_EQ(Next(sampler, expected.size()), expected) << example.dump();
    }
  }
}

TEST(BatchSamplerTest, GivesEveryRankTheLongestEpochRecorded) {
  const nlohmann::json golden = Golden();
  for (const nlohmann::json& example : golden["batch_samplers"]) {
    for (const nlohmann::json& rank : example["ranks"]) {
      const BatchSampler sampler(MakeSamplerOptions(example, rank["rank"]));
      // Rank 0 has the most; without repetition each rank has its own.
      const nlohmann::json& longest =
          example["repeat"] ? example["ranks"][0] : rank;
      EXPECT_EQ(sampler.BatchesPerEpoch(), longest["len"]) << example.dump();
    }
  }
}

TEST(BatchSamplerTest, ShufflesAsRecorded) {
  const nlohmann::json golden = Golden();
  ASSERT_EQ(golden["reproducible_shuffle"].size(), 3u);
  for (const nlohmann::json& example : golden["reproducible_shuffle"]) {
    const std::int64_t samples = example["n"];
    BatchSampler sampler({.samples = samples,
                          .batch_size = samples,
                          .shuffle = true,
                          .seed = example["seed"]});
    const Batches expected = example["epochs"];
    EXPECT_EQ(Next(sampler, expected.size()), expected);
  }
}

class ShuffledSamplerTest : public ::testing::Test {
 protected:
  static constexpr SamplerOptions kOptions = {
      .samples = 10, .batch_size = 3, .shuffle = true, .seed = 42};
  BatchSampler sampler_{kOptions};
};

TEST_F(ShuffledSamplerTest, SeeksForwardOverPasses) {
  const Batches all = Next(sampler_, 12);
  BatchSampler sought(kOptions);
  sought.Seek(10);
  EXPECT_EQ(Next(sought), all[10]);
  EXPECT_EQ(Next(sought), all[11]);
}

TEST_F(ShuffledSamplerTest, SeeksBackOverPasses) {
  const Batches all = Next(sampler_, 12);
  sampler_.Seek(1);
  EXPECT_EQ(Next(sampler_, 11), Batches(all.begin() + 1, all.end()));
}

TEST_F(ShuffledSamplerTest, SeeksWithinThePass) {
  const Batches all = Next(sampler_, 4);
  sampler_.Seek(2);
  EXPECT_EQ(Next(sampler_), all[2]);
}

TEST_F(ShuffledSamplerTest, ReportsTheFirstSampleOfABatch) {
  sampler_.Seek(5);
  const BatchSampler::Indices indices = sampler_.Next();
  EXPECT_EQ(indices.batch, 5);
  EXPECT_EQ(indices.pass, 1);
  EXPECT_EQ(indices.first, 3);
  EXPECT_EQ(indices.samples.data(), sampler_.order().data() + 3);
}

TEST_F(ShuffledSamplerTest, YieldsEverySampleOnceInAPass) {
  Next(sampler_, 4);
  EXPECT_THAT(sampler_.order(),
              testing::UnorderedElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
}

TEST(BatchSamplerTest, ShufflesThroughABuffer) {
  BatchSampler sampler({.samples = 1000,
                        .batch_size = 1000,
                        .shuffle = true,
                        .seed = 5,
                        .shuffle_buffer = 10});
  const auto first = Next(sampler);
  // Sample i cannot come before i − 9: only ten are in the buffer.
  for (std::int64_t i = 0; i < 1000; ++i) EXPECT_LT(first[i], i + 10);
  EXPECT_NE(first, Next(sampler));
  auto sorted = first;
  std::ranges::sort(sorted);
  for (std::int64_t i = 0; i < 1000; ++i) EXPECT_EQ(sorted[i], i);
}

TEST(BatchSamplerTest, SeeksInABufferedShuffle) {
  const SamplerOptions options = {.samples = 100,
                                  .batch_size = 7,
                                  .shuffle = true,
                                  .seed = 5,
                                  .shuffle_buffer = 30};
  BatchSampler read(options);
  const Batches all = Next(read, 60);
  for (const std::int64_t index : {59, 3, 31, 15}) {
    BatchSampler sampler(options);
    sampler.Seek(index);
    EXPECT_EQ(Next(sampler), all[index]);
  }
  read.Seek(20);
  EXPECT_EQ(Next(read), all[20]);
}

TEST(BatchSamplerTest, DropsTheLastBatchOnlyIfItIsNotFull) {
  BatchSampler sampler({.samples = 5, .batch_size = 2, .drop_last = true});
  EXPECT_EQ(sampler.BatchesPerEpoch(), 2);
  EXPECT_EQ(sampler.SamplesPerEpoch(), 4);
  EXPECT_THAT(
      Next(sampler, 3),
      ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3), ElementsAre(0, 1)));
}

TEST(BatchSamplerTest, KeepsTheOnlyBatchOfASmallSet) {
  BatchSampler sampler({.samples = 2, .batch_size = 64, .drop_last = true});
  EXPECT_EQ(sampler.BatchesPerEpoch(), 1);
  EXPECT_EQ(sampler.SamplesPerEpoch(), 2);
  EXPECT_THAT(Next(sampler), ElementsAre(0, 1));
}

TEST(BatchSamplerTest, RestartsAValidationAfterEachPass) {
  BatchSampler sampler(
      {.samples = 5, .batch_size = 2, .wrap = false, .rank = 1, .ranks = 2});
  EXPECT_EQ(sampler.BatchesPerEpoch(), 1);
  EXPECT_THAT(Next(sampler, 2),
              ElementsAre(ElementsAre(2, 3), ElementsAre(2, 3)));
}

TEST(BatchSamplerTest, GivesNothingToARankBeyondTheBatches) {
  const BatchSampler sampler(
      {.samples = 2, .batch_size = 2, .wrap = false, .rank = 3, .ranks = 4});
  EXPECT_EQ(sampler.BatchesPerEpoch(), 0);
}

TEST(BatchSamplerTest, RefusesAnEmptySet) {
  EXPECT_THAT([] { BatchSampler({.samples = 0, .batch_size = 2}); },
              testing::ThrowsMessage<Error>(HasSubstr("has no samples")));
}

TEST(BatchSamplerTest, RefusesABatchSizeOfZero) {
  EXPECT_THAT([] { BatchSampler({.samples = 5, .batch_size = 0}); },
              testing::ThrowsMessage<Error>(
                  HasSubstr("batch size 0 makes no batches")));
}

std::vector<std::size_t> Sizes(std::int64_t samples,
                               const std::vector<double>& fractions) {
  std::vector<std::size_t> sizes;
  for (const auto& subset : RandomSplit(samples, fractions, /*seed=*/0)) {
    sizes.push_back(subset.size());
  }
  return sizes;
}

void ExpectRefused(const std::vector<double>& fractions,
                   const std::string& what) {
  EXPECT_THAT([&] { RandomSplit(10, fractions, /*seed=*/0); },
              testing::ThrowsMessage<Error>(HasSubstr(what)));
}

TEST(RandomSplitTest, PutsEverySampleIntoOneSubset) {
  const auto subsets = RandomSplit(1000, std::array{0.5, 0.3, 0.2}, /*seed=*/1);
  std::multiset<std::int64_t> all;
  for (const auto& subset : subsets) {
    EXPECT_TRUE(std::ranges::is_sorted(subset));
    all.insert(subset.begin(), subset.end());
  }
  std::vector<std::int64_t> expected(1000);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_TRUE(std::ranges::equal(all, expected));
}

TEST(RandomSplitTest, IsRandomAndTheSameForASeed) {
  const std::array fractions = {0.8, 0.2};
  const auto first = RandomSplit(1000, fractions, /*seed=*/1);
  EXPECT_EQ(RandomSplit(1000, fractions, /*seed=*/1), first);
  EXPECT_NE(RandomSplit(1000, fractions, /*seed=*/2), first);
  // The mean of 200 of 0 to 999, give or take five standard deviations.
  const double sum = std::accumulate(first[1].begin(), first[1].end(), 0.0);
  EXPECT_NEAR(sum / 200, 499.5, 5 * 289 / 14.1);
}

TEST(RandomSplitTest, DistributesTheRemainder) {
  EXPECT_EQ(Sizes(50'000, {0.8, 0.2}),
            (std::vector<std::size_t>{40'000, 10'000}));
  EXPECT_EQ(Sizes(100, {0.29, 0.71}), (std::vector<std::size_t>{29, 71}));
  EXPECT_EQ(Sizes(10, {0.25, 0.25, 0.5}), (std::vector<std::size_t>{3, 2, 5}));
  EXPECT_EQ(Sizes(7, {1}), (std::vector<std::size_t>{7}));
}

TEST(RandomSplitTest, TakesAnyNumberOfFractions) {
  const std::vector<double> tenths(10, 0.1);
  EXPECT_EQ(Sizes(1000, tenths), std::vector<std::size_t>(10, 100));
}

TEST(RandomSplitTest, RefusesFractionsThatDoNotSumToOne) {
  ExpectRefused({0.8, 0.1}, "sum to 0.900000; they must sum to 1");
  ExpectRefused({0.8, 0.3}, "sum to 1.1");
  ExpectRefused({}, "sum to 0.0");
  ExpectRefused({0.5, std::nan("")}, "above 0");
}

TEST(RandomSplitTest, RefusesAFractionOfNothing) {
  ExpectRefused({1, 0}, "above 0");
  ExpectRefused({1.5, -0.5}, "above 0");
  ExpectRefused({0.99, 0.01}, "would be empty");
}

}  // namespace

}  // namespace dtrain
