#include "engine/store/file_tree.h"

#include <array>
#include <filesystem>
#include <fstream>

#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "engine/os/unique_fd.h"
#include "tests/support/sync_count.h"
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

TEST_F(FileTreeTest, FreesNoFileThatIsLinkedElsewhere) {
  fs::create_hard_link(tree_ / "a", outside_ / "a");
  fs::create_hard_link(tree_ / "deep/b", tree_ / "deep/c");
  EXPECT_EQ(FreeableBytes(tree_), 3);
  EXPECT_EQ(RemoveTree(tree_), 3);
  EXPECT_EQ(FreeableBytes(outside_), 12);
}

// A process that dies while it removes a tree leaves no half of it under its
// name.
TEST_F(FileTreeTest, RenamesATreeBeforeItRemovesIt) {
  const int inotify = ::inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  ASSERT_GE(inotify, 0);
  const UniqueFd events(inotify);
  ASSERT_GE(::inotify_add_watch(events.get(), directory_.path().c_str(),
                                IN_MOVED_FROM | IN_DELETE),
            0);

  RemoveTree(tree_);

  alignas(inotify_event) std::array<char, 4096> buffer{};
  ASSERT_GT(::read(events.get(), buffer.data(), buffer.size()), 0);
  const auto* first = reinterpret_cast<const inotify_event*>(buffer.data());
  EXPECT_EQ(first->mask & IN_MOVED_FROM, unsigned{IN_MOVED_FROM});
  EXPECT_STREQ(first->name, "tree");
}

// Go's cache of modules is so.
TEST_F(FileTreeTest, RemovesReadOnlyDirectories) {
  const fs::path tree = directory_.path() / "modules";
  fs::create_directories(tree / "a/b");
  std::ofstream(tree / "a/b/file") << "12345";
  const bool root = ::geteuid() == 0;  // to which modes are nothing
  for (const fs::path& path :
       {directory_.path(), tree, tree / "a", tree / "a/b"}) {
    if (root) {
      ASSERT_EQ(::chown(path.c_str(), 65534, 65534), 0);
    }
  }
  fs::permissions(tree / "a/b", fs::perms::owner_read | fs::perms::owner_exec);
  fs::permissions(tree / "a", fs::perms::owner_read | fs::perms::owner_exec);
  if (root) {
    ASSERT_EQ(::seteuid(65534), 0);
  }
  EXPECT_NO_THROW(EXPECT_EQ(RemoveTree(tree), 5));
  if (root) {
    ASSERT_EQ(::seteuid(0), 0);
  }
  EXPECT_FALSE(fs::exists(tree));
}

TEST_F(FileTreeTest, DoesNotFollowLinks) {
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

TEST_F(FileTreeTest, ResumesAnInterruptedRemoval) {
  fs::create_directories(directory_.path() / "tree.trash/old");

  EXPECT_EQ(RemoveTree(tree_), 8);

  EXPECT_FALSE(fs::exists(directory_.path() / "tree.trash"));
  fs::create_directories(directory_.path() / "x.trash/old");
  RemoveTree(directory_.path() / "x.trash");
  EXPECT_FALSE(fs::exists(directory_.path() / "x.trash"));
}

TEST_F(FileTreeTest, RemovesOnlyLeftoversOfACrash) {
  fs::create_directories(directory_.path() / "gone.trash/old");

  EXPECT_EQ(RemoveTree(directory_.path() / "gone"), 0);

  EXPECT_FALSE(fs::exists(directory_.path() / "gone.trash"));
}

TEST_F(FileTreeTest, ListsLeftoversOfCrashes) {
  fs::create_directories(directory_.path() / "tree.trash");
  EXPECT_EQ(TrashIn(directory_.path()),
            std::vector{directory_.path() / "tree.trash"});
  EXPECT_TRUE(TrashIn(directory_.path() / "none").empty());
}

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

TEST_F(PrivateFilesTest, DirectoriesArePrivate) {
  MakePrivateDirectories(directory_.path() / "a/b/c");

  EXPECT_EQ(Mode(directory_.path() / "a"), 0700);
  EXPECT_EQ(Mode(directory_.path() / "a/b/c"), 0700);
}

// tests/power tests that they survive a power cut.
TEST_F(PrivateFilesTest, DurableDirectoriesAreAsPrivate) {
  MakeDurableDirectories(directory_.path() / "a/b/c");
  MakeDurableDirectories(directory_.path() / "a/b/c");

  EXPECT_EQ(Mode(directory_.path() / "a"), 0700);
  EXPECT_EQ(Mode(directory_.path() / "a/b/c"), 0700);
}

TEST_F(PrivateFilesTest, EachNewDurableDirectoryIsSyncedInItsParent) {
  const int before = SyncCount();
  MakePrivateDirectories(directory_.path() / "x/y");
  EXPECT_EQ(SyncCount() - before, 0);
  MakeDurableDirectories(directory_.path() / "a/b/c");
  EXPECT_GE(SyncCount() - before, 3);
  const int after = SyncCount();
  MakeDurableDirectories(directory_.path() / "a/b/c/d");
  EXPECT_GE(SyncCount() - after, 1);
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

TEST_F(PrivateFilesTest, FilesArePrivate) {
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
