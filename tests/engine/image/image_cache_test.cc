#include "engine/image/image_cache.h"

#include <csignal>
#include <cstddef>
#include <cstring>
#include <thread>

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "engine/base/rng.h"
#include "tests/engine/image/image_cache_fixture.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using State = ImageCacheFile::State;
using testing::HasSubstr;

class ImageCacheFileTest : public ::testing::Test, public ImageCacheFixture {
 protected:
  ImageCacheFileTest() {
    Make();
    bytes_ = BytesOfFile(file_);
  }

  ImageCacheFile::Opened Opened() const {
    return ImageCacheFile::Open(file_, Id());
  }
  // Opens the file with one bit changed.
  ImageCacheFile::Opened OpenedWithout(std::size_t byte) const {
    std::string damaged = bytes_;
    damaged[byte] ^= 0x10;
    WriteBytes(file_, damaged);
    return Opened();
  }
  // Opens the file after `change` to the header and entry 1, with a new
  // checksum.
  template <typename Change>
  ImageCacheFile::Opened OpenedWith(const Change& change) const {
    ImageCacheHeader header;
    ImageCacheEntry entry;
    std::string changed = bytes_;
    std::memcpy(&header, changed.data(), sizeof(header));
    std::memcpy(&entry, &changed[EntryOffset(1)], sizeof(entry));
    change(header, entry);
    std::memcpy(&changed[EntryOffset(1)], &entry, sizeof(entry));
    const auto* entries = reinterpret_cast<const std::uint8_t*>(&changed[0]);
    header.checksum = ImageCacheChecksum(
        header, {entries + EntryOffset(0), 4 * sizeof(ImageCacheEntry)});
    std::memcpy(changed.data(), &header, sizeof(header));
    WriteBytes(file_, changed);
    return Opened();
  }
  // Returns the number of images that it gives; fails if one is wrong.
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

TEST_F(ImageCacheFileTest, RoundTrips) {
  const auto file = Opened().file;
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(Good(*file), 4);
  EXPECT_EQ(Good(*file), 4) << "a second time, from what is known to be intact";
}

TEST_F(ImageCacheFileTest, RefusesOtherImages) {
  const auto opens = [this](ImageCacheId id) {
    const auto opened = ImageCacheFile::Open(file_, id);
    EXPECT_FALSE(opened.damaged);
    return opened.file != nullptr;
  };
  EXPECT_FALSE(opens({.key = 8, .count = 4, .side = kSide}));
  EXPECT_FALSE(opens({.key = 7, .count = 3, .side = kSide}));
  EXPECT_FALSE(opens({.key = 7, .count = 5, .side = kSide}));
  EXPECT_FALSE(opens({.key = 7, .count = 4, .side = kSide + 1}));
  EXPECT_TRUE(opens(Id()));
}

TEST_F(ImageCacheFileTest, RefusesAnyBitFlipInTheIndex) {
  for (std::size_t i = 0; i < PixelsOffset(4); ++i) {
    EXPECT_EQ(OpenedWithout(i).file, nullptr) << i;
  }
}

TEST_F(ImageCacheFileTest, DistinguishesDamageFromOtherImages) {
  EXPECT_TRUE(OpenedWithout(0).damaged) << "not a cache";
  EXPECT_TRUE(OpenedWithout(EntryOffset(2)).damaged);
  EXPECT_TRUE(OpenedWithout(PixelsOffset(0) - 1).damaged);
  EXPECT_FALSE(OpenedWithout(offsetof(ImageCacheHeader, key)).damaged);
}

TEST_F(ImageCacheFileTest, RefusesAForeignFile) {
  const auto foreign = [](auto& header, auto&) { header.magic[0] = 'x'; };
  EXPECT_EQ(OpenedWith(foreign).file, nullptr);
  EXPECT_NE(OpenedWith([](auto&, auto&) {}).file, nullptr);
}

TEST_F(ImageCacheFileTest, RefusesAnotherVersion) {
  const auto opened = OpenedWith([](auto& header, auto&) { ++header.version; });
  EXPECT_EQ(opened.file, nullptr);
  EXPECT_FALSE(opened.damaged);
}

TEST_F(ImageCacheFileTest, RefusesAnotherLength) {
  WriteBytes(file_, bytes_ + "x");
  EXPECT_EQ(Opened().file, nullptr);
  for (std::size_t length = bytes_.size(); length-- > 0;) {
    fs::resize_file(file_, length);
    EXPECT_EQ(Opened().file, nullptr) << length;
  }
}

TEST_F(ImageCacheFileTest, RefusesSpecialFiles) {
  fs::remove(file_);
  EXPECT_EQ(Opened().file, nullptr) << "nothing";
  EXPECT_FALSE(Opened().damaged);
  fs::create_directory(file_);
  EXPECT_EQ(Opened().file, nullptr) << "a directory";
}

TEST_F(ImageCacheFileTest, BitFlipInPixelsLosesOnlyThatImage) {
  const auto file = OpenedWithout(bytes_.size() - 1).file;
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(file->Find(3).state, State::kDamaged);
  EXPECT_EQ(file->Find(3).state, State::kDamaged) << "and stays so";
  EXPECT_EQ(Good(*file), 3);
}

// The checksum matches, but the entry is impossible.
TEST_F(ImageCacheFileTest, RefusesEntriesOutsideTheFile) {
  const auto damaged = [this](const auto& change) {
    const auto file =
        OpenedWith([&](auto&, auto& entry) { change(entry); }).file;
    return file->Find(1).state == State::kDamaged;
  };
  EXPECT_TRUE(damaged([](auto& entry) { entry.offset = ~0ULL; }));
  EXPECT_TRUE(damaged([this](auto& e) { e.offset = bytes_.size(); }));
  EXPECT_TRUE(damaged([](auto& entry) { entry.offset = 0; }));
  EXPECT_TRUE(damaged([](auto& entry) { entry.height = ~0U; }));
  EXPECT_TRUE(damaged([](auto& e) { e.height = e.width = ~0U; }));
  EXPECT_TRUE(damaged([](auto& entry) { entry.width = 0; }));
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
    const auto file = Opened().file;
    if (file == nullptr) continue;
    ++opened;
    Good(*file);
  }
  EXPECT_GT(opened, 0);
}

class ImageCacheBuilderTest : public ::testing::Test, public ImageCacheFixture {
 protected:
  void ExpectWhole() const {
    const auto file = ImageCacheFile::Open(file_, Id()).file;
    ASSERT_NE(file, nullptr);
    for (std::size_t i = 0; i < folder_->samples.size(); ++i) {
      EXPECT_TRUE(Shows(file->Find(i).image, Expected(i))) << i;
    }
  }
};

TEST_F(ImageCacheBuilderTest, LeavesNothingButTheFile) {
  Make();
  ExpectWhole();
  EXPECT_FALSE(fs::exists(Part()));
}

TEST_F(ImageCacheBuilderTest, ItsTemporaryFileIsNotACache) {
  const auto builder = Begin();
  PutImages(*builder, 4);
  fs::copy_file(Part(), file_);
  EXPECT_EQ(ImageCacheFile::Open(file_, Id()).file, nullptr);
}

TEST_F(ImageCacheBuilderTest, TakesTheImagesInAnyOrder) {
  const auto builder = Begin();
  for (const std::size_t i : {3, 1, 0, 2}) builder->Put(i, Expected(i));
  builder->Finish();
  ExpectWhole();
}

TEST_F(ImageCacheBuilderTest, TakesImagesFromManyThreads) {
  const auto builder = Begin();
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < 4; ++i) {
      threads.emplace_back([&, i] { builder->Put(i, Expected(i)); });
    }
  }
  builder->Finish();
  ExpectWhole();
}

TEST_F(ImageCacheBuilderTest, ExcludesOtherBuilders) {
  auto builder = Begin();
  EXPECT_EQ(Begin(), nullptr);
  builder.reset();
  EXPECT_NE(Begin(), nullptr);
}

TEST_F(ImageCacheBuilderTest, RemovesAnUnfinishedFile) {
  PutImages(*Begin(), 3);
  EXPECT_FALSE(fs::exists(Part()));
  EXPECT_FALSE(fs::exists(file_));
}

TEST_F(ImageCacheBuilderTest, OverwritesLeftoversOfACrash) {
  const pid_t child = ::fork();
  if (child == 0) {
    const auto builder = Begin();
    PutImages(*builder, 2);
    ::raise(SIGKILL);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
  ASSERT_TRUE(fs::exists(Part()));
  Make();
  ExpectWhole();
  EXPECT_FALSE(fs::exists(Part()));
}

// The final size shows that the longer file was emptied first.
TEST_F(ImageCacheBuilderTest, OverwritesAForeignFile) {
  fs::create_directories(file_.parent_path());
  WriteBytes(Part(), std::string(100'000, 'x'));
  Make();
  ExpectWhole();
  EXPECT_LT(fs::file_size(file_), 100'000);
}

TEST_F(ImageCacheBuilderTest, ReplacesACacheOfOtherImages) {
  fs::create_directories(file_.parent_path());
  WriteBytes(file_, "of other images");
  Make();
  ExpectWhole();
}

TEST_F(ImageCacheBuilderTest, RecordsUnreadableImages) {
  const auto builder = Begin();
  for (std::size_t i = 0; i < 4; ++i) builder->PutUnreadable(i);
  builder->Finish();
  EXPECT_EQ(ImageCacheFile::Open(file_, Id()).file->Find(2).state,
            ImageCacheFile::State::kUnreadable);
}

TEST_F(ImageCacheBuilderTest, RefusesADirectoryInItsPlace) {
  fs::create_directories(file_);
  EXPECT_THAT([this] { (void)Begin(); },
              ::testing::ThrowsMessage<Error>(
                  HasSubstr("one.part: cannot be written: Is a directory")));
}

TEST_F(ImageCacheBuilderTest, FollowsNoLink) {
  fs::create_directories(file_.parent_path());
  fs::create_symlink(root_ / "planted", Part());
  EXPECT_THROW((void)Begin(), Error);
  EXPECT_FALSE(fs::exists(root_ / "planted"));
}

// Limits the size of files, as a full disk would.
class ImageCacheFullDiskTest : public ImageCacheBuilderTest {
 protected:
  ImageCacheFullDiskTest() {
    ::getrlimit(RLIMIT_FSIZE, &old_);
    const rlimit small{.rlim_cur = PixelsOffset(4) + 600,
                       .rlim_max = old_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &small);
  }
  ~ImageCacheFullDiskTest() override {
    ::setrlimit(RLIMIT_FSIZE, &old_);
    std::signal(SIGXFSZ, handler_);
  }

  rlimit old_{};
  void (*const handler_)(int) = std::signal(SIGXFSZ, SIG_IGN);
};

TEST_F(ImageCacheFullDiskTest, IsReportedAtTheEndAndTheFileIsRemoved) {
  auto builder = Begin();
  EXPECT_FALSE(builder->failed());
  PutImages(*builder, 4);
  EXPECT_TRUE(builder->failed());
  EXPECT_THAT([&] { builder->Finish(); },
              ::testing::ThrowsMessage<Error>(
                  HasSubstr("one.part: cannot be written: File too large")));
  EXPECT_FALSE(fs::exists(file_));
  builder.reset();
  EXPECT_FALSE(fs::exists(Part()));
}

}  // namespace
}  // namespace dtrain
