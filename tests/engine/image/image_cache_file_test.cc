#include <cstddef>
#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/rng.h"
#include "engine/image/image_cache.h"
#include "tests/engine/image/image_cache_fixture.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using State = ImageCacheFile::State;

class ImageCacheFileTest : public ::testing::Test, public ImageCacheFixture {
 protected:
  ImageCacheFileTest() {
    Make();
    bytes_ = BytesOfFile(file_);
  }

  std::unique_ptr<const ImageCacheFile> Opened() const {
    return ImageCacheFile::Open(file_, Id());
  }
  // The same with one bit turned.
  std::unique_ptr<const ImageCacheFile> OpenedWithout(std::size_t byte) const {
    std::string damaged = bytes_;
    damaged[byte] ^= 0x10;
    WriteBytes(file_, damaged);
    return Opened();
  }
  // With a header that is right but for what `change` does to it.
  template <typename Change>
  std::unique_ptr<const ImageCacheFile> OpenedWith(const Change& change) const {
    ImageCacheHeader header;
    std::memcpy(&header, bytes_.data(), sizeof(header));
    change(header);
    header.checksum =
        ImageCacheChecksum({reinterpret_cast<const std::uint8_t*>(&header),
                            offsetof(ImageCacheHeader, checksum)});
    std::string changed = bytes_;
    std::memcpy(changed.data(), &header, sizeof(header));
    WriteBytes(file_, changed);
    return Opened();
  }
  // How many images it gives; fails if one of them is wrong.
  int Good(const ImageCacheFile& file) const {
    int good = 0;
    for (std::size_t i = 0; i < images_.size(); ++i) {
      const ImageCacheFile::Found found = file.Find(i);
      if (found.state != State::kPixels) continue;
      EXPECT_TRUE(Shows(found.image, images_[i])) << i;
      ++good;
    }
    return good;
  }

  const std::vector<Image> images_ = {Expected(0), Expected(1), Expected(2),
                                      Expected(3)};
  std::string bytes_;
};

TEST_F(ImageCacheFileTest, GivesWhatWasPutThere) {
  const auto file = Opened();
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(Good(*file), 4);
  EXPECT_EQ(Good(*file), 4) << "a second time, from what is known to be intact";
}

TEST_F(ImageCacheFileTest, IsOnlyOfItsImages) {
  const auto opens = [this](ImageCacheId id) {
    return ImageCacheFile::Open(file_, id) != nullptr;
  };
  EXPECT_FALSE(opens({.key = 8, .count = 4, .side = kSide}));
  EXPECT_FALSE(opens({.key = 7, .count = 3, .side = kSide}));
  EXPECT_FALSE(opens({.key = 7, .count = 5, .side = kSide}));
  EXPECT_FALSE(opens({.key = 7, .count = 4, .side = kSide + 1}));
  EXPECT_TRUE(opens(Id()));
}

TEST_F(ImageCacheFileTest, RefusesAnyBitTurnedInTheHeader) {
  for (std::size_t i = 0; i < sizeof(ImageCacheHeader); ++i) {
    EXPECT_EQ(OpenedWithout(i), nullptr) << i;
  }
}

TEST_F(ImageCacheFileTest, RefusesAForeignFile) {
  EXPECT_EQ(OpenedWith([](auto& header) { header.magic[0] = 'x'; }), nullptr);
  EXPECT_NE(OpenedWith([](auto&) {}), nullptr);
}

TEST_F(ImageCacheFileTest, RefusesANewerVersion) {
  EXPECT_EQ(OpenedWith([](auto& header) { ++header.version; }), nullptr);
}

TEST_F(ImageCacheFileTest, RefusesOneThatIsNotWhole) {
  EXPECT_EQ(OpenedWith([](auto& header) { header.size = 0; }), nullptr);
}

TEST_F(ImageCacheFileTest, RefusesAnotherLength) {
  WriteBytes(file_, bytes_ + "x");
  EXPECT_EQ(Opened(), nullptr);
  for (std::size_t length = bytes_.size(); length-- > 0;) {
    fs::resize_file(file_, length);
    EXPECT_EQ(Opened(), nullptr) << length;
  }
}

TEST_F(ImageCacheFileTest, RefusesWhatIsNoFile) {
  fs::remove(file_);
  EXPECT_EQ(Opened(), nullptr) << "nothing";
  fs::create_directory(file_);
  EXPECT_EQ(Opened(), nullptr) << "a directory";
}

TEST_F(ImageCacheFileTest, LosesOneImageByAnyBitTurnedInItsEntry) {
  const std::size_t entry = EntryOffset(2);
  for (std::size_t i = 0; i < sizeof(ImageCacheEntry); ++i) {
    const auto file = OpenedWithout(entry + i);
    ASSERT_NE(file, nullptr);
    EXPECT_EQ(file->Find(2).state, State::kDamaged) << i;
    EXPECT_EQ(Good(*file), 3) << i;
  }
}

TEST_F(ImageCacheFileTest, LosesOneImageByABitTurnedInItsPixels) {
  const auto file = OpenedWithout(bytes_.size() - 1);
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(file->Find(3).state, State::kDamaged);
  EXPECT_EQ(file->Find(3).state, State::kDamaged) << "and stays so";
  EXPECT_EQ(Good(*file), 3);
}

TEST_F(ImageCacheFileTest, KnowsAnEntryThatIsInAnothersPlace) {
  std::string swapped = bytes_;
  std::swap_ranges(swapped.begin() + EntryOffset(0),
                   swapped.begin() + EntryOffset(1),
                   swapped.begin() + EntryOffset(1));
  WriteBytes(file_, swapped);
  EXPECT_EQ(Good(*Opened()), 2);
}

// Its entry is as it was written, but what it says cannot be.
TEST_F(ImageCacheFileTest, TrustsNoEntryThatLeadsOutOfTheFile) {
  const auto damaged = [this](const auto& change) {
    ImageCacheEntry entry;
    std::memcpy(&entry, bytes_.data() + EntryOffset(1), sizeof(entry));
    change(entry);
    entry = Sealed(entry, 1);
    std::string changed = bytes_;
    std::memcpy(changed.data() + EntryOffset(1), &entry, sizeof(entry));
    WriteBytes(file_, changed);
    return Opened()->Find(1).state == State::kDamaged;
  };
  EXPECT_TRUE(damaged([](auto& entry) { entry.offset = ~0ULL; }));
  EXPECT_TRUE(damaged([this](auto& e) { e.offset = bytes_.size(); }));
  EXPECT_TRUE(damaged([](auto& entry) { entry.offset = 0; }));
  EXPECT_TRUE(damaged([](auto& entry) { entry.height = ~0U; }));
  EXPECT_TRUE(damaged([](auto& e) { e.height = e.width = ~0U; }));
  EXPECT_TRUE(damaged([](auto& entry) { entry.width = 0; }));
  EXPECT_TRUE(damaged([](auto& entry) { entry.height = 0; }));
  EXPECT_TRUE(damaged([](auto& e) { e.state = ImageCacheState::kMissing; }));
  EXPECT_TRUE(damaged([](auto& e) { e.state = ImageCacheState(9); }));
  EXPECT_FALSE(damaged([](auto&) {}));
}

TEST_F(ImageCacheFileTest, NeverGivesAWrongPixelOfARandomlyDamagedFile) {
  Rng rng(11);
  int opened = 0;
  for (int round = 0; round < 400; ++round) {
    std::string damaged = bytes_;
    for (std::uint64_t changes = rng.Below(8) + 1; changes > 0; --changes) {
      damaged[rng.Below(damaged.size())] = static_cast<char>(rng.Below(256));
    }
    WriteBytes(file_, damaged);
    const auto file = Opened();
    if (file == nullptr) continue;
    ++opened;
    Good(*file);
  }
  EXPECT_GT(opened, 0);
}

}  // namespace
}  // namespace dtrain
