#include "engine/image/transforms.h"

#include <array>
#include <cmath>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/rng.h"
#include "tests/support/golden_images.h"

namespace dtrain {
namespace {

using ::testing::ElementsAre;

class RandomResizedCropTest : public ::testing::Test {
 protected:
  Rng rng_{42};
};

TEST_F(RandomResizedCropTest, DrawsAreaRatioTopAndLeft) {
  Rng same(42);
  const double area = 300 * 400 * same.Uniform(0.25, 0.5);
  const double ratio = std::exp(same.Uniform(std::log(0.5), std::log(2.0)));
  const auto height =
      static_cast<std::int64_t>(std::nearbyint(std::sqrt(area / ratio)));
  const auto width =
      static_cast<std::int64_t>(std::nearbyint(std::sqrt(area * ratio)));
  const auto top = static_cast<std::int64_t>(same.Below(300 - height + 1));
  const auto left = static_cast<std::int64_t>(same.Below(400 - width + 1));
  EXPECT_EQ(RandomResizedCropBox(300, 400, rng_, {0.25, 0.5, 0.5, 2}),
            (Box{top, left, height, width}));
}

TEST_F(RandomResizedCropTest, StaysInTheImage) {
  std::int64_t outside = 0;
  for (int i = 0; i < 10'000; ++i) {
    const Box box = RandomResizedCropBox(37, 53, rng_);
    outside += box.top < 0 || box.left < 0 || box.top + box.height > 37 ||
               box.left + box.width > 53 || box.height < 1 || box.width < 1;
  }
  EXPECT_EQ(outside, 0);
}

TEST_F(RandomResizedCropTest, TakesTheMiddleOfATallImage) {
  EXPECT_EQ(RandomResizedCropBox(1000, 10, rng_, {.least_scale = 0.9}),
            (Box{493, 0, 13, 10}));
}

TEST_F(RandomResizedCropTest, TakesTheMiddleOfAWideImage) {
  EXPECT_EQ(RandomResizedCropBox(10, 1000, rng_, {.least_scale = 0.9}),
            (Box{0, 493, 10, 13}));
}

TEST_F(RandomResizedCropTest, TakesAllOfASquareWhenNothingFits) {
  EXPECT_EQ(
      RandomResizedCropBox(10, 10, rng_, {.least_scale = 4, .most_scale = 5}),
      (Box{0, 0, 10, 10}));
}

TEST_F(RandomResizedCropTest, TakesTheOnlyPixel) {
  EXPECT_EQ(RandomResizedCropBox(1, 1, rng_), (Box{0, 0, 1, 1}));
}

TEST(CenterCroppedTest, TakesOnePixel) {
  Image image = BlackImage(1, 1);
  image.pixels = {9, 8, 7};
  EXPECT_THAT(CenterCropped(image, 1, 1).pixels, ElementsAre(9, 8, 7));
}

TEST(ShrunkToTest, KeepsTheMiddle) {
  for (const auto& size :
       {Box{0, 0, 40, 31}, Box{0, 0, 31, 40}, Box{0, 0, 25, 25},
        Box{0, 0, 24, 90}, Box{0, 0, 20, 33}, Box{0, 0, 9, 7}}) {
    Image image = BlackImage(size.height, size.width);
    Rng rng(3);
    for (auto& byte : image.pixels) {
      byte = static_cast<std::uint8_t>(rng.Below(256));
    }
    EXPECT_TRUE(SameImage(CenterCropped(ShrunkTo(image, 24), 24, 21),
                          CenterCropped(image, 24, 21)))
        << size.height << "x" << size.width;
  }
}

TEST(ShrunkToTest, ResizesTheShorterSide) {
  const Image tall = ShrunkTo(BlackImage(41, 20), 10);
  EXPECT_EQ(tall.height, 20);
  EXPECT_EQ(tall.width, 10);
}

TEST(ShrunkToTest, NeverEnlarges) {
  const Image small = ShrunkTo(BlackImage(30, 9), 10);
  EXPECT_EQ(small.height, 30);
  EXPECT_EQ(small.width, 9);
}

TEST(CenterCroppedTest, PutsASmallImageOnBlack) {
  Image image = BlackImage(1, 1);
  image.pixels = {9, 8, 7};
  const Image padded = CenterCropped(image, 1, 3);
  EXPECT_EQ(CropImage(padded, {1, 1, 1, 1}).pixels, image.pixels);
  EXPECT_EQ(CropImage(padded, {0, 0, 1, 3}).pixels,
            std::vector<std::uint8_t>(9));
}

class NormalizeIntoTest : public ::testing::Test {
 protected:
  std::vector<float> Normalized(bool flip) const {
    std::vector<float> numbers(6);
    NormalizeInto({1, 2, {1, 2, 3, 4, 5, 6}}, flip, scales_, numbers.data());
    return numbers;
  }

  const std::array<ChannelScale, 3> scales_ = {
      ChannelScale{1, 0}, ChannelScale{2, 1}, ChannelScale{10, -5}};
};

TEST_F(NormalizeIntoTest, WritesPlanes) {
  EXPECT_THAT(Normalized(/*flip=*/false), ElementsAre(1, 4, 5, 11, 25, 55));
}

TEST_F(NormalizeIntoTest, Mirrors) {
  EXPECT_THAT(Normalized(/*flip=*/true), ElementsAre(4, 1, 11, 5, 55, 25));
}

}  // namespace
}  // namespace dtrain
