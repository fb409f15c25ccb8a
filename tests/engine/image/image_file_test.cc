#include "engine/image/image_file.h"

#include <fstream>
#include <string>
#include <vector>

#include <sys/stat.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "engine/base/rng.h"
#include "tests/support/golden_images.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

class ImageFileTest : public ::testing::Test {
 protected:
  // Expects a message that names the file and contains `what`.
  void ExpectRefused(const std::string& what) const {
    EXPECT_THAT([this] { (void)ReadImage(path_); },
                testing::ThrowsMessage<Error>(
                    AllOf(StartsWith(path_.string()), HasSubstr(what))));
  }
  void Write(const std::vector<std::uint8_t>& bytes) const {
    std::ofstream(path_, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  }
  // A golden file with other bytes at `at`.
  void WriteChanged(const std::string& name, std::size_t at,
                    const std::vector<std::uint8_t>& to) const {
    std::vector<std::uint8_t> bytes = GoldenImageBytes(name);
    std::copy(to.begin(), to.end(),
              bytes.begin() + static_cast<std::ptrdiff_t>(at));
    Write(bytes);
  }

  const TemporaryDirectory directory_;
  const fs::path path_ = directory_.path() / "n0144_7.JPEG";
};

TEST_F(ImageFileTest, RefusesAMissingFile) {
  ExpectRefused("cannot be read: No such file or directory; check the path");
}

TEST_F(ImageFileTest, RefusesAnEmptyFile) {
  Write({});
  ExpectRefused("the file is empty; replace it or delete it");
}

TEST_F(ImageFileTest, RefusesOtherFormats) {
  Write({'G', 'I', 'F', '8', '9', 'a'});
  ExpectRefused("it is not a JPEG or PNG file; replace it or delete it");
}

TEST_F(ImageFileTest, DoesNotWaitForAPipe) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  ExpectRefused("it is not a regular file");
}

TEST_F(ImageFileTest, RefusesAFileAboveAGibibyteUnread) {
  Write({0xFF, 0xD8, 0xFF});
  fs::resize_file(path_, (std::uintmax_t{1} << 30) + 1);
  ExpectRefused("at most 1 GiB is read");
}

TEST_F(ImageFileTest, MakesNamesVisible) {
  EXPECT_THAT([] { (void)DecodeImage({}, "a\x1b[2Jb"); },
              testing::ThrowsMessage<Error>(StartsWith("a\\x1b[2Jb: ")));
}

TEST_F(ImageFileTest, RefusesDecompressionBombs) {
  Write(GoldenImageBytes("huge.png"));
  ExpectRefused("it has 20000x20000 pixels, but at most 178956970 are read");
}

TEST_F(ImageFileTest, RefusesAJpegWithMorePixelsThanItsDataHolds) {
  // Height and width are in the frame header, five bytes after its marker.
  const std::vector<std::uint8_t> bytes = GoldenImageBytes("420.jpg");
  const std::vector<std::uint8_t> frame = {0xFF, 0xC0, 0x00, 0x11, 0x08};
  const auto at =
      std::search(bytes.begin(), bytes.end(), frame.begin(), frame.end());
  WriteChanged("420.jpg", static_cast<std::size_t>(at - bytes.begin()) + 5,
               {0x20, 0x00, 0x30, 0x00});
  ExpectRefused("bytes cannot hold 12288x8192 pixels");
}

TEST_F(ImageFileTest, RefusesAPngWithADamagedChecksum) {
  WriteChanged("rgb.png", 29, {0, 0, 0, 0});
  ExpectRefused("not a valid PNG file (IHDR: CRC error)");
}

TEST_F(ImageFileTest, RefusesAJpegWithoutItsEnd) {
  std::vector<std::uint8_t> bytes = GoldenImageBytes("420.jpg");
  bytes.resize(bytes.size() - 2);
  Write(bytes);
  ExpectRefused("the JPEG data is cut short");
}

TEST_F(ImageFileTest, RefusesATruncatedJpegDespiteAnEarlierWarning) {
  std::vector<std::uint8_t> bytes = GoldenImageBytes("junk.jpg");
  bytes.resize(bytes.size() - 6);
  Write(bytes);
  ExpectRefused("the JPEG data is cut short");
}

// Files cut short at every length and with random bytes in them: each is
// decoded or refused in one line, and nothing crashes.
class DamagedImageTest : public ::testing::TestWithParam<const char*> {
 protected:
  // Returns true if it is decoded; expects a proper refusal otherwise.
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
    // A copy, so that a sanitizer detects a read beyond its end.
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
