#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/image/image_file.h"
#include "tests/support/golden_images.h"

namespace dtrain {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<int> Markers(const std::vector<std::uint8_t>& file) {
  std::vector<int> markers;
  JpegSegments segments(file);
  while (const auto segment = segments.Next()) {
    markers.push_back(segment->marker);
  }
  return markers;
}

TEST(JpegSegmentsTest, GivesThePayloadWithoutItsLength) {
  const std::vector<std::uint8_t> file = {0xFF, 0xE1, 0, 4, 7, 8};
  EXPECT_THAT(JpegSegments(file).Next()->payload, ElementsAre(7, 8));
}

TEST(JpegSegmentsTest, DoesNotMistakeAPayloadForMarkers) {
  EXPECT_THAT(Markers({0xFF, 0xD8, 0xFF, 0xE0, 0, 4, 0xFF, 0xD9, 0xFF, 0xD9}),
              ElementsAre(0xD8, 0xE0, 0xD9));
}

TEST(JpegSegmentsTest, SkipsCodedDataWithItsStuffingAndRestarts) {
  EXPECT_THAT(
      Markers({0xFF, 0xDA, 0, 2, 5, 0xFF, 0, 6, 0xFF, 0xD3, 9, 0xFF, 0xD9}),
      ElementsAre(0xDA, 0xD9));
}

TEST(JpegSegmentsTest, SkipsFillBytes) {
  EXPECT_THAT(Markers({0xFF, 0xFF, 0xFF, 0xD8}), ElementsAre(0xD8));
}

TEST(JpegSegmentsTest, StopsAtASegmentThatIsCutShort) {
  EXPECT_THAT(Markers({0xFF, 0xE1, 0, 9, 1}), IsEmpty());
}

TEST(JpegSegmentsTest, StopsAtAnInvalidLength) {
  EXPECT_THAT(Markers({0xFF, 0xE1, 0, 1, 0xFF, 0xD9}), IsEmpty());
}

TEST(JpegSegmentsTest, RecognizesACompleteFileByItsEnd) {
  EXPECT_TRUE(JpegIsWhole(std::vector<std::uint8_t>{0xFF, 0xD8, 0xFF, 0xD9}));
  EXPECT_FALSE(JpegIsWhole(std::vector<std::uint8_t>{0xFF, 0xD8, 0xFF}));
}

// Returns a JPEG file with the EXIF data `tiff`.
std::vector<std::uint8_t> WithExif(const std::string& tiff) {
  const std::string data = std::string("Exif\0\0", 6) + tiff;
  std::vector<std::uint8_t> file = {
      0xFF, 0xD8, 0xFF, 0xE1, 0, static_cast<std::uint8_t>(data.size() + 2)};
  file.insert(file.end(), data.begin(), data.end());
  return file;
}

std::string Text(const char (&bytes)[27]) { return {bytes, 26}; }

TEST(OrientationTest, ReadsLittleEndian) {
  EXPECT_EQ(ExifOrientation(WithExif(
                Text("II\x2A\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0"
                     "\0\0\0\0\0\0"))),
            6);
}

TEST(OrientationTest, ReadsBigEndian) {
  EXPECT_EQ(ExifOrientation(WithExif(
                Text("MM\0\x2A\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x08"
                     "\0\0\0\0\0\0"))),
            8);
}

TEST(OrientationTest, ReadsALong) {
  EXPECT_EQ(ExifOrientation(WithExif(
                Text("MM\0\x2A\0\0\0\x08\0\x01\x01\x12\0\x04\0\0\0\x01\0\0"
                     "\0\x03\0\0\0\0"))),
            3);
}

TEST(OrientationTest, IgnoresInvalidValues) {
  EXPECT_EQ(ExifOrientation(WithExif(
                Text("MM\0\x2A\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x09"
                     "\0\0\0\0\0\0"))),
            1);
}

TEST(OrientationTest, IgnoresADirectoryOutsideTheData) {
  EXPECT_EQ(ExifOrientation(WithExif(
                Text("MM\0\x2A\xFF\xFF\xFF\xF8\0\x01\x01\x12\0\x03\0\0\0\x01"
                     "\0\x08\0\0\0\0\0\0"))),
            1);
}

TEST(OrientationTest, IgnoresAnExcessiveEntryCount) {
  EXPECT_EQ(ExifOrientation(WithExif(
                Text("MM\0\x2A\0\0\0\x08\xFF\xFF\x01\x13\0\x03\0\0\0\x01\0\x08"
                     "\0\0\0\0\0\0"))),
            1);
}

// Returns the first channels of an image after rotation; before it, they are
//   1 2 3
//   4 5 6
std::vector<int> Turned(int orientation) {
  Image image = BlackImage(2, 3);
  for (int i = 0; i < 6; ++i) {
    image.pixels[3 * static_cast<std::size_t>(i)] =
        static_cast<std::uint8_t>(i + 1);
  }
  const Image turned = ApplyOrientation(image, orientation);
  EXPECT_EQ(turned.height, orientation < 5 ? 2 : 3);
  EXPECT_EQ(turned.width, orientation < 5 ? 3 : 2);
  std::vector<int> values;
  for (std::size_t i = 0; i < turned.pixels.size(); i += 3) {
    values.push_back(turned.pixels[i]);
  }
  return values;
}

TEST(OrientationTest, AppliesTheExifRotation) {
  EXPECT_THAT(Turned(1), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(Turned(2), ElementsAre(3, 2, 1, 6, 5, 4));  // mirrored
  EXPECT_THAT(Turned(3), ElementsAre(6, 5, 4, 3, 2, 1));  // upside down
  EXPECT_THAT(Turned(4), ElementsAre(4, 5, 6, 1, 2, 3));  // 3, mirrored
  EXPECT_THAT(Turned(5), ElementsAre(1, 4, 2, 5, 3, 6));  // transposed
  EXPECT_THAT(Turned(6), ElementsAre(4, 1, 5, 2, 6, 3));  // to the right
  EXPECT_THAT(Turned(7), ElementsAre(6, 3, 5, 2, 4, 1));  // 5, upside down
  EXPECT_THAT(Turned(8), ElementsAre(3, 6, 2, 5, 1, 4));  // to the left
}

TEST(OrientationTest, IsOneWithoutExif) {
  EXPECT_EQ(ExifOrientation(GoldenImageBytes("420.jpg")), 1);
  EXPECT_EQ(ExifOrientation({}), 1);
}

}  // namespace
}  // namespace dtrain
