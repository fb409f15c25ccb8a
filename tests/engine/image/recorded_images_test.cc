// What the room makes of images, against what PIL does: see
// tests/golden/make_images.py.

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/image/image_file.h"
#include "engine/image/orientation.h"
#include "tests/support/golden_images.h"

namespace dtrain {
namespace {

using ::testing::ValuesIn;

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

}  // namespace
}  // namespace dtrain
