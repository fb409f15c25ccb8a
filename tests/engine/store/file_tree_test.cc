#include "engine/store/file_tree.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

class FileTreeTest : public testing::Test {
 protected:
  FileTreeTest() {
    fs::create_directories(tree_ / "deep");
    std::ofstream(tree_ / "a") << "12345";
    std::ofstream(tree_ / "deep/b") << "123";
    fs::create_directories(outside_);
    std::ofstream(outside_ / "mine") << "1234567";
  }

  TemporaryDirectory directory_;
  fs::path tree_ = directory_.path() / "tree";
  fs::path outside_ = directory_.path() / "outside";
};

TEST_F(FileTreeTest, CountsTheBytesOfFiles) {
  EXPECT_EQ(TreeBytes(tree_), 8);
  EXPECT_EQ(TreeBytes(tree_ / "a"), 5);
  EXPECT_EQ(TreeBytes(tree_ / "none"), 0);
}

TEST_F(FileTreeTest, RemovesATree) {
  EXPECT_EQ(RemoveTree(tree_), 8);
  EXPECT_FALSE(fs::exists(tree_));
  EXPECT_FALSE(fs::exists(directory_.path() / "tree.trash"));
  EXPECT_EQ(RemoveTree(tree_), 0);
}

TEST_F(FileTreeTest, LeavesWhatLinksPointAt) {
  fs::create_directory_symlink(outside_, tree_ / "link");
  fs::create_symlink(outside_ / "mine", tree_ / "deep/link");

  EXPECT_EQ(RemoveTree(tree_), 8);

  EXPECT_TRUE(fs::exists(outside_ / "mine"));
}

TEST_F(FileTreeTest, RemovesALinkInPlaceOfATree) {
  fs::create_directory_symlink(outside_, directory_.path() / "link");

  EXPECT_EQ(RemoveTree(directory_.path() / "link"), 0);

  EXPECT_FALSE(fs::exists(fs::symlink_status(directory_.path() / "link")));
  EXPECT_TRUE(fs::exists(outside_ / "mine"));
}

TEST_F(FileTreeTest, GoesOnWhereACrashStopped) {
  fs::create_directories(directory_.path() / "tree.trash/old");

  EXPECT_EQ(RemoveTree(tree_), 8);

  EXPECT_FALSE(fs::exists(directory_.path() / "tree.trash"));
  fs::create_directories(directory_.path() / "x.trash/old");
  RemoveTree(directory_.path() / "x.trash");
  EXPECT_FALSE(fs::exists(directory_.path() / "x.trash"));
}

}  // namespace
}  // namespace dtrain
