// Files cut short at every length and with random bytes in them: each is
// decoded or refused by one line, and nothing crashes.

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "engine/base/rng.h"
#include "engine/image/image_file.h"
#include "tests/support/golden_images.h"

namespace dtrain {
namespace {

class DamagedImageTest : public ::testing::TestWithParam<const char*> {
 protected:
  // Whether it is decoded; if not, it has been refused properly.
  static bool Decodes(std::span<const std::uint8_t> bytes) {
    try {
      const Image image = DecodeImage(bytes, "it", {.exif_orientation = true});
      EXPECT_EQ(image.pixels.size(), image.stride() * image.height);
      return true;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kFailed);
      EXPECT_THAT(error.what(), ::testing::StartsWith("it: "));
      EXPECT_THAT(error.what(), ::testing::Not(::testing::HasSubstr("\n")));
      return false;
    }
  }

  std::vector<std::uint8_t> bytes_ = GoldenImageBytes(GetParam());
};

TEST_P(DamagedImageTest, IsRefusedAtEveryLength) {
  for (std::size_t length = 0; length < bytes_.size(); ++length) {
    // A copy, so that a sanitizer sees what is read behind it.
    const std::vector<std::uint8_t> cut(
        bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(length));
    EXPECT_FALSE(Decodes(cut)) << length << " bytes";
  }
}

TEST_P(DamagedImageTest, SurvivesRandomBytes) {
  Rng rng(7);
  for (int round = 0; round < 400; ++round) {
    std::vector<std::uint8_t> damaged = bytes_;
    for (std::uint64_t changes = rng.Below(8) + 1; changes > 0; --changes) {
      damaged[rng.Below(damaged.size())] =
          static_cast<std::uint8_t>(rng.Below(256));
    }
    Decodes(damaged);
  }
}

TEST_P(DamagedImageTest, SurvivesRandomBytesBehindItsSignature) {
  Rng rng(8);
  for (int round = 0; round < 100; ++round) {
    for (std::size_t i = 8; i < bytes_.size(); ++i) {
      bytes_[i] = static_cast<std::uint8_t>(rng.Below(256));
    }
    EXPECT_FALSE(Decodes(bytes_));
  }
}

INSTANTIATE_TEST_SUITE_P(File, DamagedImageTest,
                         ::testing::Values("420.jpg", "cmyk.jpg", "exif6.jpg",
                                           "exif7.jpg", "progressive.jpg",
                                           "restarts.jpg", "interlaced.png",
                                           "gray16.png", "palette4_alpha.png",
                                           "rgba16.png"));

}  // namespace
}  // namespace dtrain
