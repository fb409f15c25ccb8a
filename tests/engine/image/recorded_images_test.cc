// Compares decoded and transformed images with recordings of PIL and
// torchvision; see tests/golden/make_images.py.

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/image/image_file.h"
#include "engine/image/resize.h"
#include "engine/image/transforms.h"
#include "tests/support/golden_images.h"

namespace dtrain {
namespace {

using ::testing::Values;
using ::testing::ValuesIn;

Box RecordedBox(const nlohmann::json& box) {
  return {box.at(0), box.at(1), box.at(2), box.at(3)};
}

class RecordedImageTest : public ::testing::TestWithParam<nlohmann::json> {};

TEST_P(RecordedImageTest, DecodesAsPilDoes) {
  const Image image = ReadImage(GoldenImagePath(GetParam().at("name")));
  EXPECT_EQ(image.height, GetParam().at("height"));
  EXPECT_EQ(image.width, GetParam().at("width"));
  EXPECT_EQ(image.pixels, RecordedImage(GetParam()).pixels);
}

TEST_P(RecordedImageTest, TurnsAsPilDoes) {
  const nlohmann::json upright = GetParam().value("upright", GetParam());
  const Image image = ReadImage(GoldenImagePath(GetParam().at("name")),
                                {.exif_orientation = true});
  EXPECT_TRUE(SameImage(image, RecordedImage(upright)));
}

std::string FileName(const ::testing::TestParamInfo<nlohmann::json>& record) {
  std::string name = record.param.at("name");
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(File, RecordedImageTest,
                         ValuesIn(GoldenImages().at("decoded")), FileName);

class RecordedResizeTest : public ::testing::TestWithParam<nlohmann::json> {
 protected:
  const Image scene_ = RecordedScene(GetParam().at("source"));
  const Image expected_ = RecordedImage(GetParam());
};

TEST_P(RecordedResizeTest, MatchesPilBitIdentically) {
  EXPECT_TRUE(
      SameImage(ResizeBilinear(scene_, RecordedBox(GetParam().at("crop")),
                               expected_.height, expected_.width),
                expected_));
}

TEST_P(RecordedResizeTest, IsTheSameInAWindow) {
  const Box window{.top = expected_.height / 3,
                   .left = expected_.width / 3,
                   .height = (expected_.height + 1) / 2,
                   .width = (expected_.width + 1) / 2};
  EXPECT_TRUE(
      SameImage(ResizeBilinear(scene_, RecordedBox(GetParam().at("crop")),
                               expected_.height, expected_.width, window),
                CropImage(expected_, window)));
}

INSTANTIATE_TEST_SUITE_P(Case, RecordedResizeTest,
                         ValuesIn(GoldenImages().at("resized")));

class RecordedCenterTest : public ::testing::TestWithParam<nlohmann::json> {};

TEST_P(RecordedCenterTest, MatchesTorchvisionBitIdentically) {
  EXPECT_TRUE(
      SameImage(CenterCropped(RecordedScene(GetParam().at("source")),
                              GetParam().at("resize"), GetParam().at("crop")),
                RecordedImage(GetParam())));
}

INSTANTIATE_TEST_SUITE_P(Case, RecordedCenterTest,
                         ValuesIn(GoldenImages().at("centered")));

class RecordedNormalizeTest : public ::testing::TestWithParam<bool> {};

TEST_P(RecordedNormalizeTest, MatchesTorchvisionToSixDigits) {
  const nlohmann::json& record = GoldenImages().at("normalized");
  const Image scene = RecordedScene(record.at("source"));
  std::vector<ChannelScale> scales;
  for (std::size_t c = 0; c < 3; ++c) {
    const double mean = record.at("mean").at(c);
    const double std = record.at("std").at(c);
    scales.push_back(
        {static_cast<float>(1 / (255 * std)), static_cast<float>(-mean / std)});
  }
  std::vector<float> numbers(scene.pixels.size());
  NormalizeInto(scene, /*flip=*/GetParam(), scales, numbers.data());
  const std::vector<float> expected =
      record.at(GetParam() ? "flipped" : "values");
  EXPECT_THAT(numbers,
              ::testing::Pointwise(::testing::FloatNear(2e-6f), expected));
}

INSTANTIATE_TEST_SUITE_P(Flip, RecordedNormalizeTest, Values(false, true));

}  // namespace
}  // namespace dtrain
