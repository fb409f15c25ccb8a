#include "engine/image/orientation.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/golden_images.h"

namespace dtrain {
namespace {

// EXIF data of a JPEG file: `tiff` behind its name.
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

TEST(OrientationTest, TakesALongToo) {
  EXPECT_EQ(ExifOrientation(WithExif(
                Text("MM\0\x2A\0\0\0\x08\0\x01\x01\x12\0\x04\0\0\0\x01\0\0"
                     "\0\x03\0\0\0\0"))),
            3);
}

TEST(OrientationTest, IgnoresValuesThatAreNone) {
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

TEST(OrientationTest, IgnoresMoreEntriesThanThereAre) {
  EXPECT_EQ(ExifOrientation(WithExif(
                Text("MM\0\x2A\0\0\0\x08\xFF\xFF\x01\x13\0\x03\0\0\0\x01\0\x08"
                     "\0\0\0\0\0\0"))),
            1);
}

TEST(OrientationTest, IsOneWithoutExif) {
  EXPECT_EQ(ExifOrientation(GoldenImageBytes("420.jpg")), 1);
  EXPECT_EQ(ExifOrientation({}), 1);
}

}  // namespace
}  // namespace dtrain
