#include <csignal>
#include <optional>

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "engine/image/image_cache.h"
#include "tests/engine/image/image_cache_fixture.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class ImageCacheBuildTest : public ::testing::Test, public ImageCacheFixture {
 protected:
  // How many images are still to be put by who begins now.
  int Missing() const {
    const auto build = Begin();
    int missing = 0;
    while (build->ClaimNext()) ++missing;
    return missing;
  }
  void ExpectWhole() const {
    const auto file = ImageCacheFile::Open(file_, Id());
    ASSERT_NE(file, nullptr);
    for (std::size_t i = 0; i < folder_->samples.size(); ++i) {
      EXPECT_TRUE(Shows(file->Find(i).image, Expected(i))) << i;
    }
  }
};

TEST_F(ImageCacheBuildTest, LeavesNothingButTheFile) {
  Make();
  ExpectWhole();
  EXPECT_FALSE(fs::exists(Part()));
}

TEST_F(ImageCacheBuildTest, IsNoCacheBeforeItIsWhole) {
  const auto build = Begin();
  PutImages(*build, 3);
  fs::copy_file(Part(), file_);
  EXPECT_EQ(ImageCacheFile::Open(file_, Id()), nullptr);
}

TEST_F(ImageCacheBuildTest, GivesEachImageToOne) {
  const auto build = Begin();
  EXPECT_TRUE(build->Claim(1));
  EXPECT_FALSE(build->Claim(1));
  EXPECT_EQ(build->ClaimNext(), 0u);
  EXPECT_EQ(build->ClaimNext(), 2u);
  EXPECT_FALSE(build->Claim(2));
}

TEST_F(ImageCacheBuildTest, TakesTheImagesInAnyOrder) {
  const auto build = Begin();
  for (const std::size_t i : {3, 1, 0, 2}) {
    ASSERT_TRUE(build->Claim(i));
    build->Put(i, Expected(i));
  }
  EXPECT_EQ(build->ClaimNext(), std::nullopt);
  build->Finish();
  ExpectWhole();
}

TEST_F(ImageCacheBuildTest, IsInOneHandAtATime) {
  auto build = Begin();
  EXPECT_EQ(Begin(), nullptr);
  build.reset();
  EXPECT_NE(Begin(), nullptr);
}

TEST_F(ImageCacheBuildTest, GoesOnWhereAnotherEnded) {
  PutImages(*Begin(), 3);
  EXPECT_EQ(Missing(), 1);
  Make();
  ExpectWhole();
}

TEST_F(ImageCacheBuildTest, GoesOnWhereAnotherWasKilled) {
  const pid_t child = ::fork();
  if (child == 0) {
    const auto build = Begin();
    PutImages(*build, 2);
    ::raise(SIGKILL);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(Missing(), 2);
  Make();
  ExpectWhole();
}

TEST_F(ImageCacheBuildTest, GivesItsNameToOneThatWasKilledJustBefore) {
  Make();
  fs::rename(file_, Part());
  EXPECT_EQ(Missing(), 0);
  Make();
  ExpectWhole();
}

TEST_F(ImageCacheBuildTest, BeginsAnewWhereOtherImagesStand) {
  PutImages(*Begin(), 3);
  ImageCacheId other = Id();
  ++other.key;
  const auto build = ImageCacheBuild::Begin(file_, other, [] { return false; });
  ASSERT_NE(build, nullptr);
  EXPECT_TRUE(build->Claim(0));
  EXPECT_EQ(fs::file_size(Part()), PixelsOffset(4));
}

TEST_F(ImageCacheBuildTest, BeginsAnewWhereSomethingElseStands) {
  fs::create_directories(file_.parent_path());
  WriteBytes(Part(), "something else");
  Make();
  ExpectWhole();
}

TEST_F(ImageCacheBuildTest, PutsAgainWhatIsDamaged) {
  PutImages(*Begin(), 3);
  std::string bytes = BytesOfFile(Part());
  bytes.back() ^= 1;
  WriteBytes(Part(), bytes);
  EXPECT_EQ(Missing(), 2);
  Make();
  ExpectWhole();
}

TEST_F(ImageCacheBuildTest, PutsAgainWhatWasCutOff) {
  PutImages(*Begin(), 3);
  fs::resize_file(Part(), fs::file_size(Part()) - 1);
  EXPECT_EQ(Missing(), 2);
  fs::resize_file(Part(), EntryOffset(1));
  EXPECT_EQ(Missing(), 4);
  Make();
  ExpectWhole();
}

TEST_F(ImageCacheBuildTest, LeavesOffIfItIsStopped) {
  PutImages(*Begin(), 3);
  EXPECT_EQ(ImageCacheBuild::Begin(file_, Id(), [] { return true; }), nullptr);
  EXPECT_EQ(Missing(), 1) << "what was there stays";
}

TEST_F(ImageCacheBuildTest, ReplacesACacheOfOtherImages) {
  fs::create_directories(file_.parent_path());
  WriteBytes(file_, "of other images");
  Make();
  ExpectWhole();
}

TEST_F(ImageCacheBuildTest, RemembersWhatCannotBeRead) {
  const auto build = Begin();
  while (const auto i = build->ClaimNext()) build->PutUnreadable(*i);
  build->Finish();
  EXPECT_EQ(ImageCacheFile::Open(file_, Id())->Find(2).state,
            ImageCacheFile::State::kUnreadable);
}

TEST_F(ImageCacheBuildTest, RefusesADirectoryInItsPlace) {
  fs::create_directories(file_);
  EXPECT_THAT([this] { (void)Begin(); },
              ::testing::ThrowsMessage<Error>(
                  HasSubstr("one.part: cannot be written: Is a directory")));
}

TEST_F(ImageCacheBuildTest, FollowsNoLink) {
  fs::create_directories(file_.parent_path());
  fs::create_symlink(root_ / "planted", Part());
  EXPECT_THROW((void)Begin(), Error);
  EXPECT_FALSE(fs::exists(root_ / "planted"));
}

// No file may be longer, as on a disk that is full then.
class ImageCacheFullDiskTest : public ImageCacheBuildTest {
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

TEST_F(ImageCacheFullDiskTest, SaysSoAtTheEndAndTakesNoMore) {
  const auto build = Begin();
  EXPECT_FALSE(build->failed());
  PutImages(*build, 4);
  EXPECT_TRUE(build->failed());
  EXPECT_EQ(build->ClaimNext(), std::nullopt);
  EXPECT_THAT([&] { build->Finish(); },
              ::testing::ThrowsMessage<Error>(
                  HasSubstr("one.part: cannot be written: File too large")));
  EXPECT_FALSE(fs::exists(file_));
  build->Discard();
  EXPECT_FALSE(fs::exists(Part()));
}

}  // namespace
}  // namespace dtrain
