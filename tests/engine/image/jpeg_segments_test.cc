#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/image/jpeg.h"

namespace dtrain {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

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

TEST(JpegSegmentsTest, StopsAtALengthThatIsNone) {
  EXPECT_THAT(Markers({0xFF, 0xE1, 0, 1, 0xFF, 0xD9}), IsEmpty());
}

TEST(JpegSegmentsTest, KnowsAWholeFileByItsEnd) {
  EXPECT_TRUE(JpegIsWhole(std::vector<std::uint8_t>{0xFF, 0xD8, 0xFF, 0xD9}));
  EXPECT_FALSE(JpegIsWhole(std::vector<std::uint8_t>{0xFF, 0xD8, 0xFF}));
}

}  // namespace
}  // namespace dtrain
