#include "engine/context/staged_files.h"

#include <fstream>
#include <sstream>

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

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

mode_t FileMode(const fs::path& path) {
  struct stat status {};
  EXPECT_EQ(::stat(path.c_str(), &status), 0) << path;
  return status.st_mode & 0777;
}

class StagedFilesTest : public testing::Test {
 protected:
  StagedFilesTest() {
    fs::create_directories(source() / "sub");
    std::ofstream(source() / "train.py") << "print()";
    std::ofstream(source() / "sub/run") << "go";
    fs::permissions(source() / "sub/run", fs::perms::all);
  }
  // Gives the context to experiment 1 and tells its hash.
  std::string Store() const {
    StagedFiles staged(layout_);
    const ContextManifest manifest = staged.AddContext(ListContext(source()));
    staged.Place(1);
    staged.Keep();
    return manifest.Hash();
  }
  // Error of copying `list`, or empty.
  std::string Refusal(const ContextList& list, ErrorKind kind) const {
    try {
      StagedFiles(layout_).AddContext(list);
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

TEST_F(StagedFilesTest, RefusesAFileThatChanged) {
  const ContextList list = ListContext(source());
  std::ofstream(source() / "train.py") << "print(1)";
  EXPECT_THAT(Refusal(list, ErrorKind::kUsage),
              HasSubstr("'train.py' changed or vanished while it was copied"));
  EXPECT_THAT(NamesIn(layout_.Experiments()), IsEmpty());
}

TEST_F(StagedFilesTest, RefusesAFileThatVanished) {
  const ContextList list = ListContext(source());
  fs::remove(source() / "sub/run");
  EXPECT_THAT(Refusal(list, ErrorKind::kUsage),
              HasSubstr("'sub/run' changed or vanished while it was copied"));
}

// The size that is told of this one is 0.
TEST_F(StagedFilesTest, RefusesAFileLargerThanItsReportedSize) {
  ContextFile file{.path = "version", .source = "/proc/version"};
  ASSERT_EQ(::stat(file.source.c_str(), &file.status), 0);
  ASSERT_EQ(file.status.st_size, 0);
  EXPECT_THAT(
      Refusal({.directory = "/proc", .files = {file}}, ErrorKind::kUsage),
      HasSubstr("'version' changed or vanished while it was copied"));
}

TEST_F(StagedFilesTest, RefusesALinkInThePlaceOfAFile) {
  const ContextList list = ListContext(source());
  fs::rename(source() / "train.py", directory_.path() / "elsewhere");
  fs::create_symlink("../elsewhere", source() / "train.py");
  EXPECT_THAT(Refusal(list, ErrorKind::kUsage), HasSubstr("'train.py'"));
}

TEST_F(StagedFilesTest, StoresPrivateFiles) {
  Store();
  const fs::path context = layout_.Context(1);
  EXPECT_EQ(FileMode(context), 0700);
  EXPECT_EQ(FileMode(context / "sub"), 0700);
  EXPECT_EQ(FileMode(context / "sub/run"), 0500);
  EXPECT_EQ(FileMode(context / "train.py"), 0400);
  std::ostringstream text;
  text << std::ifstream(context / "train.py").rdbuf();
  EXPECT_EQ(text.str(), "print()");
  EXPECT_THAT(NamesIn(layout_.Experiments()), ElementsAre("1"));
}

TEST_F(StagedFilesTest, RemovesUnrecordedFiles) {
  {
    StagedFiles staged(layout_);
    staged.AddContext(ListContext(source()));
    staged.Place(1);
  }
  EXPECT_THAT(NamesIn(layout_.Experiments()), ElementsAre("1"));
  EXPECT_THAT(NamesIn(layout_.Experiment(1)), IsEmpty());
}

TEST_F(StagedFilesTest, ReplacesLeftoversOfACrash) {
  fs::create_directories(layout_.Context(1));
  std::ofstream(layout_.Context(1) / "stale.py") << "x";
  Store();
  EXPECT_THAT(NamesIn(layout_.Context(1)), ElementsAre("sub", "train.py"));
}

TEST_F(StagedFilesTest, HasTheSameHashForTheSameFiles) {
  const std::string hash = Store();
  EXPECT_EQ(Store(), hash);
  std::ofstream(source() / "train.py") << "print(1)";
  EXPECT_NE(Store(), hash);
}

TEST_F(StagedFilesTest, CopiesAStoredContextWithoutFilesOfTrials) {
  const std::string hash = Store();
  std::ofstream(layout_.Context(1) / "output.txt") << "x";
  StagedFiles copy(layout_);
  const auto manifest = copy.AddContext(ListStoredContext(layout_, 1, hash));
  EXPECT_EQ(manifest.Hash(), hash);
}

TEST_F(StagedFilesTest, RefusesAChangedStoredContext) {
  const std::string hash = Store();
  fs::remove(layout_.Context(1) / "train.py");
  std::ofstream(layout_.Context(1) / "train.py") << "Print()";
  const ContextList list = ListStoredContext(layout_, 1, hash);
  EXPECT_THAT(
      Refusal(list, ErrorKind::kDamaged),
      HasSubstr("'train.py' is missing or has changed since it was stored"));
  EXPECT_THROW(ListStoredContext(layout_, 1, std::string(64, '0')), Error);
  EXPECT_THROW(ListStoredContext(layout_, 2, hash), Error);
}

TEST_F(StagedFilesTest, IsAbandonedOnceItsCreatorIsGone) {
  const fs::path left = layout_.Experiments() / "new-left";
  fs::create_directories(left);
  StagedFiles staged(layout_);
  staged.AddContext(ListContext(source()));
  EXPECT_EQ(NamesIn(layout_.Experiments()).size(), 2);
  const auto abandoned = FindAbandonedFiles(layout_);
  ASSERT_EQ(abandoned.size(), 1);
  EXPECT_EQ(abandoned[0].directory, left);
  EXPECT_EQ(abandoned[0].experiment, 0);
}

TEST_F(StagedFilesTest, StayIfTheRecordCannotBeRead) {
  {
    StagedFiles staged(layout_);
    staged.AddContext(ListContext(source()));
    staged.Place(3);
    staged.Leave();
  }
  EXPECT_TRUE(fs::exists(layout_.ContextListFile(3)));
  ASSERT_EQ(FindAbandonedFiles(layout_).size(), 1);
  EXPECT_EQ(FindAbandonedFiles(layout_)[0].experiment, 3);
}

TEST_F(StagedFilesTest, NamesTheExperimentOfADeadCreator) {
  const pid_t maker = ::fork();
  if (maker == 0) {
    StagedFiles staged(layout_);
    staged.AddContext(ListContext(source()));
    staged.Place(3);
    ::_exit(0);
  }
  ::waitpid(maker, nullptr, 0);
  const auto abandoned = FindAbandonedFiles(layout_);
  ASSERT_EQ(abandoned.size(), 1);
  EXPECT_EQ(abandoned[0].experiment, 3);
  EXPECT_TRUE(fs::exists(layout_.Context(3)));
  RemovePlacedFiles(layout_, 3);
  EXPECT_FALSE(fs::exists(layout_.Experiment(3)));
}

TEST_F(StagedFilesTest, KeepsTheHashOfADeletedSource) {
  const fs::path made = layout_.Checkpoint({7, 1}, "uuid");
  fs::create_directories(made);
  std::ofstream(made / "model.safetensors") << "weights";
  fs::create_directories(made / "inner");
  std::ofstream(made / "inner/file") << "x";
  StagedFiles staged(layout_);
  staged.AddSource("uuid", made);
  staged.Place(1);
  staged.Keep();
  RemoveTree(layout_.Experiment(7));
  std::ostringstream text;
  text
      << std::ifstream(layout_.Source(1, "uuid") / "model.safetensors").rdbuf();
  EXPECT_EQ(text.str(), "weights");
  EXPECT_TRUE(fs::exists(layout_.Source(1, "uuid") / "inner/file"));
  EXPECT_EQ(FileMode(layout_.Sources(1)), 0700);
}

TEST_F(StagedFilesTest, RefusesAMissingSource) {
  StagedFiles staged(layout_);
  try {
    staged.AddSource("uuid", layout_.Checkpoint({7, 1}, "uuid"));
    ADD_FAILURE() << "added nothing";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kNotFound);
  }
}

TEST_F(StagedFilesTest, RemovesOldFilesForAnExperimentWithoutAContext) {
  fs::create_directories(layout_.Context(1));
  fs::create_directories(layout_.Source(1, "uuid"));
  StagedFiles(layout_).Place(1);
  EXPECT_THAT(NamesIn(layout_.Experiment(1)), IsEmpty());
}

}  // namespace
}  // namespace dtrain
