#include "engine/store/private_files.h"

#include <fstream>

#include <sys/stat.h>

#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

class PrivateFilesTest : public testing::Test {
 protected:
  PrivateFilesTest() : old_mask_(::umask(0)) {}
  ~PrivateFilesTest() override { ::umask(old_mask_); }

  static int Mode(const fs::path& path) {
    return static_cast<int>(fs::status(path).permissions());
  }

  TemporaryDirectory directory_;
  mode_t old_mask_;
};

TEST_F(PrivateFilesTest, DirectoriesAreForThisUserAlone) {
  MakePrivateDirectories(directory_.path() / "a/b/c");

  EXPECT_EQ(Mode(directory_.path() / "a"), 0700);
  EXPECT_EQ(Mode(directory_.path() / "a/b/c"), 0700);
}

// That they survive a power cut is for tests/power to see.
TEST_F(PrivateFilesTest, DurableDirectoriesAreAsPrivate) {
  MakeDurableDirectories(directory_.path() / "a/b/c");
  MakeDurableDirectories(directory_.path() / "a/b/c");

  EXPECT_EQ(Mode(directory_.path() / "a"), 0700);
  EXPECT_EQ(Mode(directory_.path() / "a/b/c"), 0700);
}

TEST_F(PrivateFilesTest, ExistingDirectoriesAreLeftAlone) {
  fs::create_directory(directory_.path() / "a");
  fs::permissions(directory_.path() / "a", fs::perms(0755));

  MakePrivateDirectories(directory_.path() / "a");

  EXPECT_EQ(Mode(directory_.path() / "a"), 0755);
}

TEST_F(PrivateFilesTest, FileInTheWayIsAnError) {
  std::ofstream(directory_.path() / "a") << "x";

  EXPECT_THROW(MakePrivateDirectories(directory_.path() / "a"), Error);
  EXPECT_THROW(MakePrivateDirectories(directory_.path() / "a/b"), Error);
}

TEST_F(PrivateFilesTest, FilesAreForThisUserAlone) {
  MakePrivateFile(directory_.path() / "f");

  EXPECT_EQ(Mode(directory_.path() / "f"), 0600);
}

TEST_F(PrivateFilesTest, ExistingFilesKeepTheirContent) {
  std::ofstream(directory_.path() / "f") << "kept";

  MakePrivateFile(directory_.path() / "f");

  EXPECT_EQ(fs::file_size(directory_.path() / "f"), 4u);
}

TEST_F(PrivateFilesTest, MissingDirectoryIsAnError) {
  EXPECT_THROW(MakePrivateFile(directory_.path() / "no/f"), Error);
}

}  // namespace
}  // namespace dtrain
