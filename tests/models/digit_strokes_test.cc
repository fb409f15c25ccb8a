#include "models/digit_strokes.h"

#include <algorithm>
#include <array>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dtrain {
namespace {

struct Digits {
  std::vector<std::uint8_t> images;
  std::vector<std::uint8_t> labels;

  friend bool operator==(const Digits&, const Digits&) = default;
};

Digits Draw(std::uint32_t seed, std::uint32_t first, std::size_t count,
            int threads) {
  Digits digits;
  digits.images.resize(count * kDigitPixels);
  digits.labels.resize(count);
  DrawDigits(seed, first, threads, digits.images, digits.labels);
  return digits;
}

TEST(DrawDigitsTest, DrawsTheSameWithAnyNumberOfThreads) {
  const Digits alone = Draw(/*seed=*/3, /*first=*/0, /*count=*/100, 1);
  EXPECT_EQ(Draw(3, 0, 100, 3), alone);
  EXPECT_EQ(Draw(3, 0, 100, 128), alone);
}

TEST(DrawDigitsTest, DrawsADigitIndependentlyOfTheRange) {
  const Digits all = Draw(/*seed=*/3, /*first=*/0, /*count=*/20, 1);
  const Digits last = Draw(/*seed=*/3, /*first=*/19, /*count=*/1, 1);
  EXPECT_EQ(last.labels[0], all.labels[19]);
  EXPECT_TRUE(std::equal(last.images.begin(), last.images.end(),
                         all.images.end() - kDigitPixels));
}

TEST(DrawDigitsTest, DrawsOthersFromAnotherSeed) {
  EXPECT_NE(Draw(1, 0, 10, 1).images, Draw(2, 0, 10, 1).images);
}

TEST(DrawDigitsTest, DrawsEveryClassAboutAsOften) {
  const Digits digits = Draw(/*seed=*/0, /*first=*/0, /*count=*/10'000, 2);
  std::array<int, 10> counts{};
  for (const std::uint8_t label : digits.labels) ++counts.at(label);
  // 1000 each, with a standard deviation of 30.
  EXPECT_THAT(counts, testing::Each(
                          testing::AllOf(testing::Gt(870), testing::Lt(1130))));
}

TEST(DrawDigitsTest, PutsInkOnDarkPaper) {
  const Digits digits = Draw(/*seed=*/0, /*first=*/0, /*count=*/1000, 1);
  const auto ink = std::ranges::count_if(
      digits.images, [](std::uint8_t pixel) { return pixel > 100; });
  const double share =
      static_cast<double>(ink) / static_cast<double>(digits.images.size());
  EXPECT_GT(share, 0.05);
  EXPECT_LT(share, 0.20);
}

}  // namespace
}  // namespace dtrain
