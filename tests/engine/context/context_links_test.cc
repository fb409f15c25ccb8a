#include "engine/context/context_links.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// --- ContextOrigin::Add ---

struct AddCase {
  const char* path;
  const char* name;   // of the link; empty: refused
  const char* below;  // or part of the refusal
};

class ContextLinkTest : public testing::TestWithParam<AddCase> {};

TEST_P(ContextLinkTest, IsWhereTheProgramLooks) {
  const auto& [path, name, below] = GetParam();
  ContextOrigin origin{.directory = "/home/ann/proj"};
  try {
    origin.Add(path, true);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_STREQ(name, "") << error.what();
    EXPECT_THAT(error.what(), HasSubstr(below));
    EXPECT_TRUE(origin.links.empty());
    EXPECT_EQ(origin.below, "");
    return;
  }
  ASSERT_EQ(origin.links.size(), 1u);
  EXPECT_EQ(origin.links[0].path, name);
  EXPECT_EQ(origin.links[0].target,
            (fs::path("/home/ann/proj") / name).lexically_normal());
  EXPECT_EQ(origin.below, below);
  // What the kernel makes of the path from the copy is the place of the link.
  EXPECT_EQ((fs::path("/work") / below / path / "x").lexically_normal(),
            (fs::path("/work") / below / name / "x").lexically_normal());
  EXPECT_TRUE(origin.Reaches(path));
  EXPECT_TRUE(origin.Reaches(std::string(path) + "/a.csv"));
  EXPECT_FALSE(origin.Reaches("train.py"));
}

INSTANTIATE_TEST_SUITE_P(
    All, ContextLinkTest,
    testing::Values(
        AddCase{"data", "data", ""}, AddCase{"./data/", "data", ""},
        AddCase{"data/mnist", "data/mnist", ""},
        AddCase{"a/../data", "data", ""}, AddCase{"../data", "../data", "proj"},
        AddCase{"../../sets/x", "../../sets/x", "ann/proj"},
        AddCase{"../../ann/data", "../data", "ann/proj"},
        AddCase{"../proj/data", "data", "proj"},
        AddCase{"../../../srv", "../../../srv", "home/ann/proj"},
        AddCase{"/srv/data", "", "is an absolute path"},
        AddCase{".", "", "own files"}, AddCase{"..", "", "own files"},
        AddCase{"../..", "", "own files"}, AddCase{"../proj", "", "own files"},
        AddCase{"data/..", "", "own files"},
        AddCase{"../../../../srv", "", "above the root"}));

// Two spellings of one directory: the copy lies deep enough for both.
TEST(ContextOriginTest, HoldsOneLinkForAllSpellings) {
  ContextOrigin origin{.directory = "/home/ann/proj"};
  origin.Add("../data", false);
  EXPECT_EQ(&origin.Add("../../ann/data", true), &origin.links[0]);
  EXPECT_EQ(origin.links.size(), 1u);
  EXPECT_TRUE(origin.links[0].declared);
  EXPECT_EQ(origin.below, "ann/proj");
}

// --- Paths that are refused for what they lead to ---

struct RefusedPath {
  const char* name;
  const char* path;
  const char* why;
};

class RefusedPathTest : public testing::TestWithParam<RefusedPath> {};

TEST_P(RefusedPathTest, IsNotLinked) {
  const TemporaryDirectory directory;
  const fs::path root = fs::canonical(directory.path());
  fs::create_directories(root / "proj/src");
  std::ofstream(root / "proj/train.csv") << "1";
  fs::create_directory_symlink("..", root / "proj/up");
  fs::create_directory_symlink("up/..", root / "proj/higher");
  fs::create_directory_symlink(".", root / "proj/here");
  fs::create_directory_symlink("proj", root / "same");
  fs::create_directory_symlink(root / "proj", root / "proj/src/back");
  const auto& [name, path, why] = GetParam();
  for (const bool declared : {true, false}) {
    ContextOrigin origin{.directory = root / "proj"};
    try {
      origin.Add(path, declared);
      ADD_FAILURE() << path;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      EXPECT_THAT(error.what(), HasSubstr(why));
    }
    EXPECT_TRUE(origin.links.empty());
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, RefusedPathTest,
    testing::Values(RefusedPath{"File", "train.csv", "is not a directory"},
                    RefusedPath{"LinkUp", "up", "own files"},
                    RefusedPath{"LinkHigher", "higher", "own files"},
                    RefusedPath{"LinkToItself", "here", "own files"},
                    RefusedPath{"LinkBeside", "../same", "own files"},
                    RefusedPath{"LinkBelow", "src/back", "own files"},
                    RefusedPath{"ThroughALink", "up/proj", "own files"},
                    RefusedPath{"Home", "~/data", "only a shell replaces"},
                    RefusedPath{"HomeOfOther", "~ann", "only a shell"},
                    RefusedPath{"Variable", "$HOME/data", "only a shell"},
                    RefusedPath{"VariableBelow", "d/${SET}", "only a shell"}),
    [](const auto& param) { return param.param.name; });

TEST(ContextOriginTest, LinksThroughLinksAndUnusualNames) {
  const TemporaryDirectory directory;
  const fs::path root = fs::canonical(directory.path());
  fs::create_directories(root / "proj/src");
  fs::create_directories(root / "data");
  fs::create_directories(root / "proj/$x");
  fs::create_directory_symlink("..", root / "proj/up");
  fs::create_directory_symlink("src", root / "proj/lib");
  for (const char* const path : {"lib", "up/data", "up/new", "$x", "./~x"}) {
    ContextOrigin origin{.directory = root / "proj"};
    EXPECT_EQ(origin.Add(path, true).target,
              (root / "proj" / path).lexically_normal());
  }
}

// --- Links of which one is within the other ---

struct Overlap {
  const char* name;
  const char* first;  // with a leading '!' if it is declared
  const char* second;
  const char* left;  // the one that stays; empty: the second is refused
};

class OverlapTest : public testing::TestWithParam<Overlap> {};

TEST_P(OverlapTest, LeavesOneLink) {
  const Overlap& overlap = GetParam();
  ContextOrigin origin{.directory = "/home/ann/proj"};
  const auto add = [&](std::string_view path) {
    const bool declared = path.starts_with('!');
    return origin.Add(path.substr(declared ? 1 : 0), declared).path;
  };
  add(overlap.first);
  if (*overlap.left == '\0') {
    EXPECT_THROW(add(overlap.second), Error);
    EXPECT_EQ(origin.links.size(), 1u);
    return;
  }
  EXPECT_EQ(add(overlap.second), overlap.left);
  ASSERT_EQ(origin.links.size(), 1u);
  EXPECT_EQ(origin.links[0].path, overlap.left);
}

INSTANTIATE_TEST_SUITE_P(
    All, OverlapTest,
    testing::Values(
        Overlap{"WiderLater", "data/train", "data", "data"},
        Overlap{"WiderFirst", "data", "data/train", "data"},
        Overlap{"WiderBeside", "../d/a", "../d", "../d"},
        Overlap{"DeclaredNarrower", "data", "!data/train", "data/train"},
        Overlap{"DeclaredWider", "data/train", "!data", "data"},
        Overlap{"FoundNarrower", "!data", "data/train", ""},
        Overlap{"FoundWider", "!data/train", "data", ""},
        Overlap{"BothDeclared", "!data/train", "!data", ""},
        Overlap{"BothDeclaredWiderFirst", "!data", "!data/train", ""}),
    [](const auto& param) { return param.param.name; });

TEST(ContextOriginTest, ReplacesSeveralLinksByAWiderOne) {
  ContextOrigin origin{.directory = "/home/ann/proj"};
  for (const char* const path : {"data/a", "database", "data/b", "data"}) {
    origin.Add(path, false);
  }
  ASSERT_EQ(origin.links.size(), 2u);
  EXPECT_EQ(origin.links[0].path, "database");
  EXPECT_EQ(origin.links[1].path, "data");
}

// The file beside the context could not name it.
TEST(ContextOriginTest, RefusesNamesThatAreNotUtf8) {
  ContextOrigin origin{.directory = "/home/\xff/proj"};
  EXPECT_THROW(origin.Add("data", true), Error);
  EXPECT_TRUE(origin.links.empty());
}

TEST(ContextOriginTest, IsReadAsItWasWritten) {
  ContextOrigin origin{.directory = "/home/ann/proj"};
  origin.Add("data", true);
  origin.Add("../sets", false);
  const ContextOrigin read = ContextOrigin::Parse(origin.Text(), "x");
  EXPECT_EQ(read.directory, origin.directory);
  EXPECT_EQ(read.below, "proj");
  ASSERT_EQ(read.links.size(), 2u);
  EXPECT_EQ(read.links[1].path, "../sets");
  EXPECT_EQ(read.links[1].target, "/home/ann/sets");
  EXPECT_FALSE(read.links[1].declared);
  EXPECT_EQ(read.Text(), origin.Text());
  EXPECT_THROW(ContextOrigin::Parse("{}", "x"), Error);
  EXPECT_THROW(ContextOrigin::Parse("", "x"), Error);
}

TEST(ContextOriginTest, KeepsADirectoryThatIsNotUtf8) {
  const ContextOrigin origin{.directory = "/home/\xff/proj"};
  const ContextOrigin read = ContextOrigin::Parse(origin.Text(), "x");
  EXPECT_EQ(read.directory, origin.directory);
  EXPECT_EQ(read.Text(), origin.Text());
}

TEST(ContextOriginTest, IsEmptyForContextsOfEarlierVersions) {
  const TemporaryDirectory directory;
  const fs::path master = directory.path() / "context";
  EXPECT_TRUE(ReadContextOrigin(master).directory.empty());
  std::ofstream(ContextOriginPath(master)) << "nonsense";
  try {
    ReadContextOrigin(master);
    ADD_FAILURE() << "read nonsense";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kFailed);
    EXPECT_THAT(error.what(), HasSubstr("context.links: is not a list"));
  }
}

// --- Files of a linked directory ---

TEST(LinkedFilesTest, AreComparedWithWhatWasRecorded) {
  const TemporaryDirectory directory;
  const fs::path data = directory.path() / "data";
  EXPECT_FALSE(CountLinkedFiles(data));
  fs::create_directories(data / "a");
  std::ofstream(data / "a/1") << "123";
  std::ofstream(data / "2") << "4";
  fs::create_directory_symlink("/", data / "all");
  const auto found = CountLinkedFiles(data);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->files, 2);
  EXPECT_EQ(found->bytes, 4);
  EXPECT_EQ(found->links, 1);
  EXPECT_TRUE(found->complete);

  nlohmann::json recorded = found->Json();
  recorded["target"] = data.string();
  EXPECT_EQ(LinkChange(recorded), "");
  fs::last_write_time(data / "2",
                      fs::last_write_time(data / "2") + std::chrono::hours(1));
  EXPECT_THAT(LinkChange(recorded), HasSubstr("has files of 2"));
  std::ofstream(data / "3") << "5";
  EXPECT_EQ(LinkChange(recorded),
            "holds 3 files and 1 link, 5 B (then 2 files and 1 link, 4 B)");
  recorded["complete"] = false;  // nothing is known of the others
  EXPECT_EQ(LinkChange(recorded), "");
  fs::remove_all(data);
  EXPECT_EQ(LinkChange(recorded), "is missing");
}

}  // namespace
}  // namespace dtrain
