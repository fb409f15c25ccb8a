#include "engine/context/working_tree.h"

#include <atomic>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <thread>

#include <fcntl.h>
#include <sys/stat.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "engine/context/staged_files.h"
#include "engine/store/file_tree.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct stat ReadStatus(const fs::path& path) {
  struct stat status {};
  EXPECT_EQ(::lstat(path.c_str(), &status), 0) << path;
  return status;
}

std::string ReadText(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

class WorkingTreeTest : public testing::Test {
 protected:
  WorkingTreeTest() {
    const fs::path source = directory_.path() / "source";
    fs::create_directories(source / "a/b");
    std::ofstream(source / "train.py") << "print()";
    std::ofstream(source / "a/b/run") << "go";
    std::ofstream(source / "a/empty") << "";
    fs::permissions(source / "a/b/run", fs::perms::owner_all);
    StagedFiles staged(layout_);
    staged.AddContext(ListContext(source));
    staged.Place(1);
    staged.Keep();
    fs::create_directories(tree_.parent_path());
  }
  void Make() const { MakeWorkingTree(master_, tree_); }
  void Tidy() const { TidyWorkingTree(master_, tree_); }

  TemporaryDirectory directory_;
  StoreLayout layout_{directory_.path() / "store"};
  const fs::path master_ = layout_.Context(1);
  const fs::path tree_ = layout_.WorkingTree({1, 1});
};

TEST_F(WorkingTreeTest, HasExactlyTheFilesOfTheList) {
  std::ofstream(master_ / "stray.py") << "x";
  Make();
  EXPECT_THAT(NamesIn(tree_), ElementsAre("a", "train.py"));
  EXPECT_THAT(NamesIn(tree_ / "a"), ElementsAre("b", "empty"));
  EXPECT_EQ(ReadText(tree_ / "a/b/run"), "go");
  EXPECT_EQ(ContextListPath(master_), layout_.ContextListFile(1));
}

TEST_F(WorkingTreeTest, IsWritableAndSharesNoFile) {
  Make();
  EXPECT_EQ(ReadStatus(tree_).st_mode & 0777, 0700);
  EXPECT_EQ(ReadStatus(tree_ / "train.py").st_mode & 0777, 0600);
  EXPECT_EQ(ReadStatus(tree_ / "a/b/run").st_mode & 0777, 0700);
  EXPECT_EQ(ReadStatus(tree_ / "train.py").st_nlink, 1u);
  std::ofstream(tree_ / "train.py") << "print(2)";
  EXPECT_EQ(ReadText(master_ / "train.py"), "print()");
}

TEST_F(WorkingTreeTest, StaysAsTheTrialLeftIt) {
  Make();
  std::ofstream(tree_ / "train.py") << "print(2)";
  std::ofstream(tree_ / "state") << "10";
  fs::remove(tree_ / "a/empty");
  Make();
  EXPECT_EQ(ReadText(tree_ / "train.py"), "print(2)");
  EXPECT_EQ(ReadText(tree_ / "state"), "10");
  EXPECT_FALSE(fs::exists(tree_ / "a/empty"));
}

TEST_F(WorkingTreeTest, IsMadeAgainAfterAnInterruption) {
  fs::create_directories(NewTree(tree_) / "a");
  std::ofstream(NewTree(tree_) / "a/empty") << "half";
  Make();
  EXPECT_EQ(ReadText(tree_ / "a/empty"), "");
  EXPECT_FALSE(fs::exists(NewTree(tree_)));
}

// The size was not on the disk yet, the time was.
TEST_F(WorkingTreeTest, IsMadeAgainAfterAPowerFailure) {
  Make();
  const auto time = fs::last_write_time(tree_ / "train.py");
  fs::resize_file(tree_ / "train.py", 0);
  fs::last_write_time(tree_ / "train.py", time);
  Make();
  EXPECT_EQ(ReadText(tree_ / "train.py"), "print()");
  EXPECT_THAT(NamesIn(tree_), ElementsAre("a", "train.py"));
}

TEST_F(WorkingTreeTest, IsNotMadeFromATruncatedFile) {
  fs::remove(master_ / "train.py");
  std::ofstream(master_ / "train.py") << "pri";
  try {
    Make();
    ADD_FAILURE() << "made one";
  } catch (const Error& error) {
    // A damaged directory is not a checkpoint.
    EXPECT_EQ(error.kind(), ErrorKind::kFailed);
    EXPECT_THAT(error.what(), HasSubstr("context/train.py: is shorter"));
  }
  EXPECT_THAT(NamesIn(tree_.parent_path()), IsEmpty());
}

TEST_F(WorkingTreeTest, NeedsTheList) {
  fs::remove(ContextListPath(master_));
  EXPECT_THROW(Make(), Error);
  std::ofstream(ContextListPath(master_)) << "nonsense";
  EXPECT_THROW(Make(), Error);
}

// Of a context with links to directories beside it.
class LinkedTreeTest : public testing::Test {
 protected:
  LinkedTreeTest() {
    fs::create_directories(source_ / "a");
    fs::create_directories(source_ / "data/sets");
    fs::create_directories(source_.parent_path() / "shared");
    std::ofstream(source_ / "a/train.py") << "print()";
    std::ofstream(source_ / "data/sets/1.csv") << "1";
    ContextOrigin origin{.directory = source_};
    origin.Add("data/sets", true);
    origin.Add("../shared", false);
    const ContextList list = ListLinkedContext(source_, origin, {});
    StagedFiles staged(layout_);
    staged.AddContext(list);
    staged.Place(1);
    staged.Keep();
    fs::create_directories(tree_.parent_path());
  }
  fs::path Make() const { return MakeWorkingTree(master_, tree_); }

  TemporaryDirectory directory_;
  const fs::path source_ = fs::canonical(directory_.path()) / "proj";
  StoreLayout layout_{directory_.path() / "store"};
  const fs::path master_ = layout_.Context(1);
  const fs::path tree_ = layout_.WorkingTree({1, 1});
};

TEST_F(LinkedTreeTest, ShowsTheOriginals) {
  const fs::path work = Make();
  EXPECT_EQ(work, tree_ / "proj");
  EXPECT_EQ(WorkingDirectory(master_, tree_), work);
  EXPECT_THAT(NamesIn(work), ElementsAre("a", "data"));
  EXPECT_EQ(ReadText(work / "data/sets/1.csv"), "1");
  std::ofstream(work / "data/sets/2.csv") << "2";
  std::ofstream(work / ".." / "shared/3.csv") << "3";
  EXPECT_EQ(ReadText(source_ / "data/sets/2.csv"), "2");
  EXPECT_EQ(ReadText(source_.parent_path() / "shared/3.csv"), "3");
  EXPECT_THAT(ListWrittenFiles(master_, tree_), IsEmpty());
}

TEST_F(LinkedTreeTest, IsTidiedWithoutTheOriginals) {
  std::ofstream(Make() / "data/sets/2.csv") << "2";
  TidyWorkingTree(master_, tree_);
  EXPECT_THAT(NamesIn(tree_.parent_path()), IsEmpty());
  EXPECT_THAT(NamesIn(source_ / "data/sets"), ElementsAre("1.csv", "2.csv"));

  std::ofstream(Make() / "model.pt") << "m";
  TidyWorkingTree(master_, tree_);
  EXPECT_THAT(NamesIn(tree_), ElementsAre("proj"));
  EXPECT_THAT(NamesIn(tree_ / "proj"), ElementsAre("model.pt"));
  EXPECT_EQ(ListWrittenFiles(master_, tree_).at(0).path, "model.pt");
}

TEST_F(LinkedTreeTest, LeavesWhatTheProgramPutInALinksPlace) {
  const fs::path work = Make();
  fs::remove(work / "data/sets");
  fs::create_directory(work / "data/sets");
  std::ofstream(work / "data/sets/own") << "o";
  fs::remove(tree_ / "shared");
  fs::create_directory_symlink("/", tree_ / "shared");
  EXPECT_EQ(Make(), work);
  EXPECT_EQ(fs::read_symlink(tree_ / "shared"), "/");
  TidyWorkingTree(master_, tree_);
  EXPECT_EQ(ReadText(work / "data/sets/own"), "o");
  EXPECT_THAT(NamesIn(tree_), ElementsAre("proj", "shared"));
}

TEST_F(LinkedTreeTest, GetsMissingLinksAgain) {
  const fs::path work = Make();
  fs::remove_all(work / "data");
  fs::remove(tree_ / "shared");
  Make();
  EXPECT_EQ(ReadText(work / "data/sets/1.csv"), "1");
  EXPECT_TRUE(fs::is_symlink(tree_ / "shared"));
}

TEST_F(LinkedTreeTest, FollowsNoLinkToMakeOne) {
  const fs::path work = Make();
  fs::remove_all(work / "data");
  fs::create_directory_symlink(source_ / "a", work / "data");
  Make();
  EXPECT_THAT(NamesIn(source_ / "a"), ElementsAre("train.py"));
  fs::remove_all(work);
  fs::create_directory_symlink(source_ / "a", work);
  Make();
  EXPECT_THAT(NamesIn(source_ / "a"), ElementsAre("train.py"));
}

TEST_F(WorkingTreeTest, IsRemovedIfTheTrialWroteNothing) {
  Make();
  Tidy();
  EXPECT_THAT(NamesIn(tree_.parent_path()), IsEmpty());
  Tidy();
}

TEST_F(WorkingTreeTest, KeepsFilesThatTheTrialWrote) {
  Make();
  std::ofstream(tree_ / "train.py") << "Print()";  // as long as it was
  fs::create_directories(tree_ / "out/none");
  std::ofstream(tree_ / "out/plot") << "x";
  fs::create_directories(NewTree(tree_));
  Tidy();
  EXPECT_THAT(NamesIn(tree_), ElementsAre("out", "train.py"));
  EXPECT_THAT(NamesIn(tree_ / "out"), ElementsAre("none", "plot"));
  EXPECT_FALSE(fs::exists(NewTree(tree_)));
}

TEST_F(WorkingTreeTest, KeepsEverythingWithoutTheList) {
  Make();
  fs::remove(ContextListPath(master_));
  Tidy();
  EXPECT_THAT(NamesIn(tree_), ElementsAre("a", "train.py"));
}

TEST_F(WorkingTreeTest, RemovesNothingThroughALink) {
  Make();
  fs::remove_all(tree_ / "a");
  fs::create_directory_symlink(master_ / "a", tree_ / "a");
  Tidy();
  EXPECT_THAT(NamesIn(tree_), ElementsAre("a"));
  EXPECT_EQ(ReadText(master_ / "a/b/run"), "go");
  fs::remove_all(tree_);
  fs::create_directory_symlink(master_, tree_);
  Tidy();
  EXPECT_EQ(ReadText(master_ / "train.py"), "print()");
}

// A process that survives its trial may put a link in a directory's place while
// the tree is tidied, here by an atomic exchange of both.
TEST(TreeTidyingTest, RemovesNothingThroughALinkThatAppears) {
  const TemporaryDirectory directory;
  const fs::path source = fs::canonical(directory.path()) / "proj";
  fs::create_directories(source / "a");
  for (int i = 0; i < 300; ++i) {
    std::ofstream(source / "a" / std::to_string(i)) << "same";
  }
  const StoreLayout layout(directory.path() / "store");
  StagedFiles staged(layout);
  staged.AddContext(ListContext(source));
  staged.Place(1);
  staged.Keep();
  for (int trial = 1; trial <= 5; ++trial) {
    const fs::path tree = layout.WorkingTree({1, trial});
    fs::create_directories(tree.parent_path());
    MakeWorkingTree(layout.Context(1), tree);
    fs::create_directory_symlink(source / "a", tree / "link");
    std::atomic<int> exchanges = 0;
    std::atomic<bool> done = false;
    std::thread program([&] {
      for (; !done; ++exchanges) {
        ::renameat2(AT_FDCWD, (tree / "a").c_str(), AT_FDCWD,
                    (tree / "link").c_str(), RENAME_EXCHANGE);
      }
    });
    while (exchanges < 3) std::this_thread::yield();
    TidyWorkingTree(layout.Context(1), tree);
    done = true;
    program.join();
  }
  EXPECT_EQ(ListContext(source).files.size(), 300u);
}

TEST_F(WorkingTreeTest, ListsWhatTheTrialWrote) {
  const auto names = [&] {
    std::vector<std::string> paths;
    for (const WrittenFile& file : ListWrittenFiles(master_, tree_)) {
      paths.push_back(file.path);
    }
    return paths;
  };
  EXPECT_THAT(names(), IsEmpty());
  Make();
  EXPECT_THAT(names(), IsEmpty());
  std::ofstream(tree_ / "a/b/run") << "ok";  // as long as before
  std::ofstream(tree_ / "a/new.txt") << "12345";
  fs::create_directory(tree_ / "__pycache__");
  std::ofstream(tree_ / "__pycache__/train.pyc") << "x";
  fs::create_directory_symlink("/etc", tree_ / "data");
  fs::create_symlink("train.py", tree_ / "link.py");
  ASSERT_EQ(::mkfifo((tree_ / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(names(), ElementsAre("a/b/run", "a/new.txt"));
  EXPECT_EQ(ListWrittenFiles(master_, tree_)[1].bytes, 5);
  Tidy();
  EXPECT_THAT(names(), ElementsAre("a/b/run", "a/new.txt"));
  fs::remove(ContextListPath(master_));
  EXPECT_THAT(names(), ElementsAre("a/b/run", "a/new.txt"));
}

}  // namespace
}  // namespace dtrain
