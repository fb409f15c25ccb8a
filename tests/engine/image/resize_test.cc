#include "engine/image/resize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/golden_images.h"

namespace dtrain {
namespace {

using ::testing::Each;

Image White(std::int64_t height, std::int64_t width) {
  Image image = BlackImage(height, width);
  image.pixels.assign(image.pixels.size(), 255);
  return image;
}

TEST(ResizeTest, KeepsWhiteWhite) {
  const Image image = White(301, 463);
  EXPECT_THAT(
      ResizeBilinear(image, {.height = 301, .width = 463}, 224, 224).pixels,
      Each(255));
}

TEST(ResizeTest, CopiesACropOfTheSameSize) {
  const Image image = RecordedScene({41, 31});
  const Box crop{.top = 30, .left = 20, .height = 11, .width = 11};
  EXPECT_TRUE(
      SameImage(ResizeBilinear(image, crop, 11, 11), CropImage(image, crop)));
}

TEST(ResizeTest, IgnoresPixelsOutsideTheCrop) {
  const Image image = RecordedScene({41, 31});
  const Box crop{.top = 9, .left = 4, .height = 20, .width = 14};
  EXPECT_TRUE(SameImage(ResizeBilinear(image, crop, 7, 9),
                        ResizeBilinear(CropImage(image, crop),
                                       {.height = 20, .width = 14}, 7, 9)));
}

TEST(ResizeTest, MakesOnePixelOfALongRow) {
  // With more taps than 16 bits count, the rounded weights do not add up to 1.
  const Image image = White(1, 70'001);
  EXPECT_THAT(
      ResizeBilinear(image, {.height = 1, .width = 70'001}, 1, 1).pixels,
      Each(255));
}

TEST(ResizeTest, EnlargesOnePixel) {
  Image image = BlackImage(1, 1);
  image.pixels = {1, 2, 3};
  const Image large =
      ResizeBilinear(image, {.height = 1, .width = 1}, 300, 500);
  EXPECT_EQ(CropImage(large, {299, 499, 1, 1}).pixels, image.pixels);
}

}  // namespace
}  // namespace dtrain
