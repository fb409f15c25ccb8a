#include "engine/data/random_split.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"

namespace dtrain {
namespace {

using ::testing::HasSubstr;

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

TEST(RandomSplitTest, DealsOutWhatIsLeftOver) {
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
