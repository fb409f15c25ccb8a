#include "engine/image/cached_images.h"

#include <mutex>
#include <thread>

#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "tests/engine/image/image_cache_fixture.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CachedImagesTest : public ::testing::TestWithParam<int>,
                         public ImageCacheFixture {
 protected:
  std::unique_ptr<CachedImages> Images(int threads = 1) {
    const auto note = [this](std::vector<std::string>& list) {
      return [this, &list](const std::string& line) {
        const std::lock_guard lock(mutex_);
        list.push_back(line);
      };
    };
    CachedImages::Options options;
    options.file = place_;
    options.side = kSide;
    options.threads = threads;
    options.listener = {.say = note(said_), .warn = note(warned_)};
    return std::make_unique<CachedImages>(folder_, std::move(options));
  }
  // Returns the number of images from the cache; fails if one is wrong.
  int FromCache(CachedImages& images) const {
    int cached = 0;
    for (std::size_t i = 0; i < folder_->samples.size(); ++i) {
      Image room;
      EXPECT_TRUE(Shows(images.View(i, room), Expected(i))) << i;
      cached += room.pixels.empty() ? 1 : 0;
    }
    return cached;
  }
  ino_t Inode() const {
    struct stat status {};
    ::stat(file_.c_str(), &status);
    return status.st_ino;
  }

  fs::path place_ = file_;
  std::mutex mutex_;
  std::vector<std::string> said_;
  std::vector<std::string> warned_;
};

TEST_P(CachedImagesTest, GivesTheSamePixelsBeforeItIsMadeAndAfter) {
  const auto images = Images(GetParam());
  FromCache(*images);
  ASSERT_TRUE(images->WaitUntilMade());
  EXPECT_EQ(FromCache(*images), 4);
  EXPECT_THAT(warned_, IsEmpty());
  EXPECT_THAT(said_, ElementsAre(HasSubstr("building it from 4 images"),
                                 HasSubstr("built, ")));
}

TEST_P(CachedImagesTest, CanBeReadWhileItIsBuilt) {
  const auto images = Images(GetParam());
  std::vector<std::jthread> readers;
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&] {
      for (int pass = 0; pass < 20; ++pass) FromCache(*images);
    });
  }
  readers.clear();
  ASSERT_TRUE(images->WaitUntilMade());
  EXPECT_EQ(FromCache(*images), 4);
}

INSTANTIATE_TEST_SUITE_P(Threads, CachedImagesTest, ::testing::Values(0, 1, 3));

TEST_F(CachedImagesTest, DoesNothingBeforeTheFirstView) {
  Images();
  EXPECT_FALSE(fs::exists(directory_.path() / "cache"));
}

TEST_F(CachedImagesTest, OpensACacheOfAnotherProcess) {
  Images()->WaitUntilMade();
  const ino_t made = Inode();
  said_.clear();
  const auto images = Images();
  ASSERT_TRUE(images->WaitUntilMade());
  EXPECT_EQ(FromCache(*images), 4);
  EXPECT_EQ(Inode(), made);
  EXPECT_THAT(said_, IsEmpty());
}

TEST_F(CachedImagesTest, IsBuiltByOneOfTwoProcesses) {
  const auto first = Images();
  const auto second = Images();
  std::jthread other([&] { first->WaitUntilMade(); });
  ASSERT_TRUE(second->WaitUntilMade());
  other.join();
  EXPECT_EQ(FromCache(*first) + FromCache(*second), 8);
  EXPECT_EQ(said_.size(), 2u) << "being made, and made, once";
  EXPECT_FALSE(fs::exists(Part()));
}

TEST_F(CachedImagesTest, WaitsForAnotherProcessWithoutStopping) {
  auto other = Begin();
  const auto images = Images();
  EXPECT_EQ(FromCache(*images), 0) << "decoded meanwhile";
  other.reset();
  ASSERT_TRUE(images->WaitUntilMade()) << "made after the other one's death";
  EXPECT_EQ(FromCache(*images), 4);
}

TEST_F(CachedImagesTest, IsRebuiltWhenAFileChanges) {
  Images()->WaitUntilMade();
  const fs::path file = folder_->samples[1].path;
  fs::copy_file(GoldenImagePath("444.jpg"), file,
                fs::copy_options::overwrite_existing);
  const auto images = Images();
  ASSERT_TRUE(images->WaitUntilMade());
  EXPECT_EQ(FromCache(*images), 4);
  EXPECT_EQ(said_.size(), 4u) << "being made, and made, twice";
}

TEST_F(CachedImagesTest, IsRebuiltWhenAFileIsAdded) {
  Images()->WaitUntilMade();
  Put("zebra.jpg", "422.jpg");
  folder_ = List();
  const auto images = Images();
  ASSERT_TRUE(images->WaitUntilMade());
  EXPECT_EQ(FromCache(*images), 5);
}

TEST_F(CachedImagesTest, RefusesAnImageThatCannotBeReadEachTime) {
  WriteBytes(root_ / "a/torn.jpg", "\xff\xd8\xff");
  folder_ = List();
  const auto images = Images();
  ASSERT_TRUE(images->WaitUntilMade());
  const std::size_t torn = folder_->samples.size() - 1;
  const auto view = [&] {
    Image room;
    (void)images->View(torn, room);
  };
  EXPECT_THAT(view, ::testing::ThrowsMessage<Error>(HasSubstr("a/torn.jpg")));
  EXPECT_THAT(view, ::testing::ThrowsMessage<Error>(HasSubstr("a/torn.jpg")));
  Image room;
  EXPECT_TRUE(Shows(images->View(0, room), Expected(0)));
  EXPECT_THAT(warned_, IsEmpty());
}

TEST_F(CachedImagesTest, RebuildsADamagedIndexWithANotice) {
  Images()->WaitUntilMade();
  std::string bytes = BytesOfFile(file_);
  bytes[EntryOffset(1)] ^= 1;
  WriteBytes(file_, bytes);
  const auto images = Images();
  ASSERT_TRUE(images->WaitUntilMade());
  EXPECT_EQ(FromCache(*images), 4);
  EXPECT_THAT(warned_, ElementsAre(HasSubstr("is damaged; rebuilding it")));
}

TEST_F(CachedImagesTest, RebuildsDamagedPixelsWithANotice) {
  Images()->WaitUntilMade();
  std::string bytes = BytesOfFile(file_);
  bytes.back() ^= 1;
  WriteBytes(file_, bytes);
  const auto images = Images();
  ASSERT_TRUE(images->WaitUntilMade());
  EXPECT_LT(FromCache(*images), 4);
  ASSERT_TRUE(images->WaitUntilMade());
  EXPECT_EQ(FromCache(*images), 4);
  EXPECT_THAT(warned_, ElementsAre(HasSubstr("is damaged; rebuilding it")));
}

// Both have the damaged file open; the first one replaces it.
TEST_F(CachedImagesTest, IsRebuiltByOneOfTwo) {
  Images()->WaitUntilMade();
  std::string bytes = BytesOfFile(file_);
  bytes.back() ^= 1;
  WriteBytes(file_, bytes);
  const auto first = Images();
  const auto second = Images();
  ASSERT_TRUE(first->WaitUntilMade());
  ASSERT_TRUE(second->WaitUntilMade());
  said_.clear();
  for (const auto& images : {first.get(), second.get()}) {
    EXPECT_LT(FromCache(*images), 4);
    ASSERT_TRUE(images->WaitUntilMade());
    EXPECT_EQ(FromCache(*images), 4);
  }
  EXPECT_EQ(said_.size(), 2u) << "building, and built, once";
  EXPECT_EQ(warned_.size(), 2u);
}

TEST_F(CachedImagesTest, LeavesNothingOfAStoppedBuild) {
  for (int i = 0; i < 200; ++i) Put(std::to_string(i) + ".jpg", "420.jpg");
  folder_ = List();
  {
    const auto images = Images();
    Image room;
    (void)images->View(0, room);
  }
  EXPECT_FALSE(fs::exists(Part()));
}

TEST_F(CachedImagesTest, ReplacesAForeignFile) {
  fs::create_directories(file_.parent_path());
  WriteBytes(file_, "");
  const auto images = Images();
  ASSERT_TRUE(images->WaitUntilMade());
  EXPECT_EQ(FromCache(*images), 4);
}

TEST_F(CachedImagesTest, WorksWithoutAWritableDirectory) {
  WriteBytes(directory_.path() / "cache", "a file, not a directory");
  const auto images = Images();
  EXPECT_FALSE(images->WaitUntilMade());
  EXPECT_EQ(FromCache(*images), 0);
  EXPECT_THAT(warned_, ElementsAre(HasSubstr("cannot be written")));
}

TEST_F(CachedImagesTest, WorksWithoutADirectory) {
  place_.clear();
  const auto images = Images();
  EXPECT_FALSE(images->WaitUntilMade());
  EXPECT_EQ(FromCache(*images), 0);
  EXPECT_THAT(warned_, ElementsAre(HasSubstr("XDG_CACHE_HOME")));
}

// A disk of 64 KiB under the cache, in mounts of this process alone.
bool MountSmallDisk(const fs::path& at) {
  const int own = ::geteuid() == 0 ? CLONE_NEWNS : CLONE_NEWNS | CLONE_NEWUSER;
  return ::unshare(own) == 0 &&
         ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount("tmpfs", at.c_str(), "tmpfs", 0, "size=64k") == 0;
}

// The size of the first images predicts that not all of them fit.
TEST_F(CachedImagesTest, WorksOnAFullDisk) {
  for (int i = 0; i < 200; ++i) Put(std::to_string(i) + ".jpg", "420.jpg");
  folder_ = List();
  fs::create_directories(file_.parent_path());
  const pid_t child = ::fork();
  if (child == 0) {
    if (!MountSmallDisk(file_.parent_path())) ::_exit(77);
    auto images = Images();
    EXPECT_FALSE(images->WaitUntilMade());
    EXPECT_EQ(FromCache(*images), 0);
    EXPECT_THAT(warned_, ElementsAre(HasSubstr("more, and only")));
    EXPECT_FALSE(fs::exists(Part()));
    images.reset();
    ::_exit(HasFailure() ? 1 : 0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "one may not mount here";
  EXPECT_EQ(status, 0);
}

TEST(ImageCachePathTest, HasOneFileForEachFolderAndSide) {
  const fs::path path = ImageCachePath("/cache", "/data/train", 256);
  EXPECT_EQ(path.parent_path(), "/cache/images");
  EXPECT_EQ(path, ImageCachePath("/cache", "/data/./train", 256));
  EXPECT_NE(path, ImageCachePath("/cache", "/data/val", 256));
  EXPECT_NE(path, ImageCachePath("/cache", "/data/train", 224));
}

TEST(ImageCachePathTest, IsEmptyWithoutADirectory) {
  EXPECT_EQ(ImageCachePath("", "/data/train", 256), "");
}

}  // namespace
}  // namespace dtrain
