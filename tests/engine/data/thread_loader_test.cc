#include "engine/data/thread_loader.h"

#include <atomic>
#include <latch>
#include <stdexcept>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dtrain {
namespace {

constexpr SamplerOptions kSamples = {
    .samples = 10, .batch_size = 3, .shuffle = true, .seed = 5};

// The samples and, as targets, random numbers that stand for augmentation.
Batch LoadNumbers(std::span<const std::int64_t> samples, std::uint64_t seed) {
  const std::vector<std::int64_t> values(samples.begin(), samples.end());
  return {.data = torch::tensor(values),
          .target = torch::tensor(static_cast<std::int64_t>(seed >> 1))};
}

class ThreadLoaderTest : public ::testing::TestWithParam<int> {
 protected:
  ThreadLoader loader_{kSamples, LoadNumbers, {.workers = GetParam()}};
  ThreadLoader plain_{kSamples, LoadNumbers};
};

testing::AssertionResult SameNext(DataSource& a, DataSource& b, int count) {
  for (int i = 0; i < count; ++i) {
    const Batch one = a.Read();
    const Batch two = b.Read();
    if (!torch::equal(one.data, two.data) ||
        !torch::equal(one.target, two.target)) {
      return testing::AssertionFailure() << "batch " << i << " differs";
    }
  }
  return testing::AssertionSuccess();
}

TEST_P(ThreadLoaderTest, GivesTheSameBatchesAsWithoutThreads) {
  EXPECT_TRUE(SameNext(loader_, plain_, 50));
}

TEST_P(ThreadLoaderTest, SeeksExactly) {
  loader_.Read();
  loader_.Seek(17);
  plain_.Seek(17);
  EXPECT_TRUE(SameNext(loader_, plain_, 9));
  loader_.Seek(2);
  plain_.Seek(2);
  EXPECT_TRUE(SameNext(loader_, plain_, 9));
}

TEST_P(ThreadLoaderTest, SeekToTheCurrentBatchKeepsLoadedBatches) {
  loader_.Read();
  loader_.Seek(1);
  plain_.Seek(1);
  EXPECT_TRUE(SameNext(loader_, plain_, 5));
}

// Kept by any number of ranks: a pass is the same one on all of them.
TEST_P(ThreadLoaderTest, SeedsEveryPassDifferently) {
  const auto seed = [this] {
    return loader_.Read().target.item<std::int64_t>();
  };
  const std::int64_t first = seed();
  EXPECT_EQ(seed(), first);
  loader_.Seek(loader_.BatchesPerEpoch());
  EXPECT_NE(seed(), first);
}

TEST_P(ThreadLoaderTest, RethrowsTheErrorOfALoad) {
  const LoadBatch load = [](std::span<const std::int64_t> samples,
                            std::uint64_t seed) {
    if (samples[0] == 2) throw std::runtime_error("sample 2 is damaged");
    return LoadNumbers(samples, seed);
  };
  ThreadLoader loader({.samples = 4, .batch_size = 2}, load,
                      {.workers = GetParam()});
  EXPECT_EQ(loader.Read().data[0].item<std::int64_t>(), 0);
  EXPECT_THAT(
      [&] { loader.Read(); },
      testing::ThrowsMessage<std::runtime_error>("sample 2 is damaged"));
  EXPECT_EQ(loader.Read().data[0].item<std::int64_t>(), 0);
}

TEST_P(ThreadLoaderTest, StopsWithoutBeingRead) {
  const ThreadLoader unread(kSamples, LoadNumbers, {.workers = GetParam()});
  EXPECT_EQ(unread.BatchesPerEpoch(), 4);
  EXPECT_EQ(unread.SamplesPerEpoch(), 10);
}

INSTANTIATE_TEST_SUITE_P(Workers, ThreadLoaderTest,
                         ::testing::Values(0, 1, 2, 7));

TEST(ThreadLoaderThreadsTest, StartsNoThreadBeforeTheFirstRead) {
  std::atomic<int> loads = 0;
  const LoadBatch load = [&](std::span<const std::int64_t> samples,
                             std::uint64_t seed) {
    ++loads;
    return LoadNumbers(samples, seed);
  };
  { const ThreadLoader loader(kSamples, load, {.workers = 4}); }
  EXPECT_EQ(loads, 0);
}

TEST(ThreadLoaderThreadsTest, LoadsNothingBeyondAPassThatDoesNotWrap) {
  std::atomic<int> loads = 0;
  const LoadBatch load = [&](std::span<const std::int64_t> samples,
                             std::uint64_t seed) {
    ++loads;
    return LoadNumbers(samples, seed);
  };
  {
    ThreadLoader loader({.samples = 4, .batch_size = 2, .wrap = false}, load,
                        {.workers = 2});
    loader.Read();
    loader.Read();
  }
  EXPECT_EQ(loads, 2);
}

TEST(ThreadLoaderThreadsTest, ReadsOnIntoTheNextPassIfAsked) {
  ThreadLoader loader({.samples = 4, .batch_size = 2, .wrap = false},
                      LoadNumbers, {.workers = 2});
  loader.Read();
  loader.Read();
  EXPECT_EQ(loader.Read().data[0].item<std::int64_t>(), 0);
}

TEST(ThreadLoaderThreadsTest, LoadsAsManyBatchesAtOnceAsThereAreWorkers) {
  // No worker passes before two are there, so a single worker would hang.
  std::latch both(2);
  const LoadBatch load = [&](std::span<const std::int64_t> samples,
                             std::uint64_t seed) {
    if (samples[0] < 2) both.arrive_and_wait();
    return LoadNumbers(samples, seed);
  };
  ThreadLoader loader({.samples = 4, .batch_size = 1}, load,
                      {.workers = 2, .prefetch = 1});
  EXPECT_EQ(loader.Read().data[0].item<std::int64_t>(), 0);
}

}  // namespace
}  // namespace dtrain
