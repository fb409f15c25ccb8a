#include "engine/context/staged_context.h"

#include <fstream>
#include <sstream>

#include <sys/stat.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "engine/store/file_tree.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

mode_t ModeOf(const fs::path& path) {
  struct stat status {};
  EXPECT_EQ(::stat(path.c_str(), &status), 0) << path;
  return status.st_mode & 0777;
}

class StagedContextTest : public testing::Test {
 protected:
  StagedContextTest() {
    fs::create_directories(source() / "sub");
    std::ofstream(source() / "train.py") << "print()";
    std::ofstream(source() / "sub/run") << "go";
    fs::permissions(source() / "sub/run", fs::perms::all);
  }
  // Gives the context to experiment 1 and tells its hash.
  std::string Store() const {
    StagedContext staged(layout_, ListContext(source()));
    staged.Place(1);
    staged.Keep();
    return staged.manifest().Hash();
  }
  // What copying `list` says.
  std::string Refusal(const ContextList& list, ErrorKind kind) const {
    try {
      StagedContext staged(layout_, list);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind);
      return error.what();
    }
    return "";
  }
  fs::path source() const { return directory_.path() / "source"; }

  TemporaryDirectory directory_;
  StoreLayout layout_{directory_.path() / "store"};
};

TEST_F(StagedContextTest, RefusesAFileThatChanged) {
  const ContextList list = ListContext(source());
  std::ofstream(source() / "train.py") << "print(1)";
  EXPECT_THAT(Refusal(list, ErrorKind::kUsage),
              HasSubstr("'train.py' changed or vanished while it was copied"));
  EXPECT_THAT(NamesIn(layout_.Experiments()), IsEmpty());
}

TEST_F(StagedContextTest, RefusesAFileThatVanished) {
  const ContextList list = ListContext(source());
  fs::remove(source() / "sub/run");
  EXPECT_THAT(Refusal(list, ErrorKind::kUsage),
              HasSubstr("'sub/run' changed or vanished while it was copied"));
}

TEST_F(StagedContextTest, RefusesALinkInThePlaceOfAFile) {
  const ContextList list = ListContext(source());
  fs::rename(source() / "train.py", directory_.path() / "elsewhere");
  fs::create_symlink("../elsewhere", source() / "train.py");
  EXPECT_THAT(Refusal(list, ErrorKind::kUsage), HasSubstr("'train.py'"));
}

TEST_F(StagedContextTest, StoresFilesForTheUserAlone) {
  Store();
  const fs::path context = layout_.Context(1);
  EXPECT_EQ(ModeOf(context), 0700);
  EXPECT_EQ(ModeOf(context / "sub"), 0700);
  EXPECT_EQ(ModeOf(context / "sub/run"), 0700);
  EXPECT_EQ(ModeOf(context / "train.py"), 0600);
  std::ostringstream text;
  text << std::ifstream(context / "train.py").rdbuf();
  EXPECT_EQ(text.str(), "print()");
  EXPECT_THAT(NamesIn(layout_.Experiments()), ElementsAre("1"));
}

TEST_F(StagedContextTest, LeavesNothingOfWhatWasNotRecorded) {
  {
    StagedContext staged(layout_, ListContext(source()));
    staged.Place(1);
  }
  EXPECT_THAT(NamesIn(layout_.Experiments()), ElementsAre("1"));
  EXPECT_THAT(NamesIn(layout_.Experiment(1)), IsEmpty());
}

TEST_F(StagedContextTest, ReplacesWhatACrashLeft) {
  fs::create_directories(layout_.Context(1));
  std::ofstream(layout_.Context(1) / "stale.py") << "x";
  Store();
  EXPECT_THAT(NamesIn(layout_.Context(1)), ElementsAre("sub", "train.py"));
}

TEST_F(StagedContextTest, HasTheSameHashForTheSameFiles) {
  const std::string hash = Store();
  EXPECT_EQ(Store(), hash);
  std::ofstream(source() / "train.py") << "print(1)";
  EXPECT_NE(Store(), hash);
}

TEST_F(StagedContextTest, CopiesAStoredOneWithoutWhatTrialsWrote) {
  const std::string hash = Store();
  std::ofstream(layout_.Context(1) / "output.txt") << "x";
  StagedContext copy(layout_, ListStoredContext(layout_, 1, hash));
  EXPECT_EQ(copy.manifest().Hash(), hash);
}

TEST_F(StagedContextTest, RefusesAStoredOneThatIsNotAsItWas) {
  const std::string hash = Store();
  std::ofstream(layout_.Context(1) / "train.py") << "Print()";
  const ContextList list = ListStoredContext(layout_, 1, hash);
  EXPECT_THAT(Refusal(list, ErrorKind::kDamaged),
              HasSubstr("'train.py' is missing, or not as it was stored"));
  EXPECT_THROW(ListStoredContext(layout_, 1, std::string(64, '0')), Error);
  EXPECT_THROW(ListStoredContext(layout_, 2, hash), Error);
}

TEST_F(StagedContextTest, IsAbandonedOnceItsMakerIsGone) {
  const fs::path left = layout_.Experiments() / "context-left";
  fs::create_directories(left);
  const StagedContext staged(layout_, ListContext(source()));
  EXPECT_EQ(NamesIn(layout_.Experiments()).size(), 2);
  EXPECT_THAT(AbandonedContexts(layout_), ElementsAre(left));
}

}  // namespace
}  // namespace dtrain
