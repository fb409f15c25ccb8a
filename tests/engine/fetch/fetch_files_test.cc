#include "engine/fetch/fetch_files.h"

#include "engine/base/error.h"
#include "tests/engine/fetch/fetch_support.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::ThrowsMessage;

class PlacementTest : public testing::Test {
 protected:
  const TemporaryDirectory directory_;
  const fs::path root_ = directory_.path();
};

TEST_F(PlacementTest, ReportsALackOfSpace) {
  try {
    RequireSpace(root_, std::int64_t{1} << 60);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kDiskFull);
    EXPECT_THAT(error.what(), HasSubstr("needs 1.2 EB, only "));
  }
  EXPECT_NO_THROW(RequireSpace(root_, 1));
}

TEST_F(PlacementTest, RefusesALinkInThePlaceOfItsOwnDirectory) {
  fs::create_directory(root_ / "elsewhere");
  fs::create_symlink(root_ / "elsewhere", root_ / "own");
  EXPECT_THAT([&] { MakeOwnDirectory(root_ / "own"); },
              ThrowsMessage<Error>(HasSubstr("is not a directory")));
}

TEST_F(PlacementTest, NamesTheDirectoryThatCannotBeCreated) {
  WriteText(root_ / "file", "");
  EXPECT_THAT([&] { MakeDirectories(root_ / "file/below"); },
              ThrowsMessage<Error>(HasSubstr("another directory with --to")));
}

TEST_F(PlacementTest, RenamesTheDirectoryAtTheEnd) {
  WriteText(root_ / "from/a/b", "new");
  Place(root_ / "from", root_ / "to");
  EXPECT_EQ(ReadText(root_ / "to/a/b"), "new");
  EXPECT_FALSE(fs::exists(root_ / "from"));
}

TEST_F(PlacementTest, LeavesOtherFilesOfADirectoryAlone) {
  WriteText(root_ / "from/a/b", "new");
  WriteText(root_ / "to/a/b", "old");
  WriteText(root_ / "to/a/mine", "mine");
  Place(root_ / "from", root_ / "to");
  EXPECT_EQ(ReadText(root_ / "to/a/b"), "new");
  EXPECT_EQ(ReadText(root_ / "to/a/mine"), "mine");
}

}  // namespace

}  // namespace dtrain
