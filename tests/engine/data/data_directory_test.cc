#include "engine/data/data_directory.h"

#include <array>
#include <fstream>
#include <map>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temporary_directory.h"

namespace dtrain {

namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class DataDirectoryTest : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directory(root_ / "mnist"); }

  DataDirectory Directory(const std::string& data) const {
    return DataDirectory(data, [this](const char* name) {
      const auto found = variables_.find(name);
      return found == variables_.end() ? std::nullopt
                                       : std::optional(found->second);
    });
  }
  static void Touch(const fs::path& path) { std::ofstream(path) << "x"; }

  const TemporaryDirectory directory_;
  const fs::path root_ = directory_.path();
  std::map<std::string, std::string> variables_;
  const std::array<std::string, 2> files_ = {"images", "labels"};
};

TEST_F(DataDirectoryTest, SearchesOnlyTheDirectoryOfTheHyperparameter) {
  variables_ = {{"DTRAIN_DATA", "/d"}, {"HOME", "/home/u"}};
  EXPECT_THAT(Directory("/sets").places(), ElementsAre("/sets"));
}

TEST_F(DataDirectoryTest, ExpandsTheHomeDirectory) {
  variables_ = {{"HOME", "/home/u"}};
  EXPECT_THAT(Directory("~/sets").places(), ElementsAre("/home/u/sets"));
  EXPECT_THAT(Directory("~").places(), ElementsAre("/home/u/"));
  EXPECT_THAT(Directory("~other/sets").places(), ElementsAre("~other/sets"));
}

TEST_F(DataDirectoryTest, LooksInTheVariableThenInTheCache) {
  variables_ = {
      {"DTRAIN_DATA", "/d"}, {"XDG_CACHE_HOME", "/c"}, {"HOME", "/home/u"}};
  EXPECT_THAT(Directory("").places(), ElementsAre("/d", "/c/dtrain/data"));
}

TEST_F(DataDirectoryTest, FindsTheCacheInTheHomeDirectory) {
  variables_ = {{"DTRAIN_DATA", ""}, {"HOME", "/home/u"}};
  EXPECT_THAT(Directory("").places(),
              ElementsAre("/home/u/.cache/dtrain/data"));
}

TEST_F(DataDirectoryTest, HasNoPlacesWithoutAnEnvironment) {
  EXPECT_THAT(Directory("").places(), IsEmpty());
  EXPECT_THAT(Directory("").MissingMessage("mnist", files_),
              HasSubstr("looked in nowhere"));
}

TEST_F(DataDirectoryTest, FindsFilesInThePlaceItself) {
  Touch(root_ / "images");
  Touch(root_ / "labels.gz");
  EXPECT_EQ(Directory(root_).Find("mnist", files_), root_);
}

TEST_F(DataDirectoryTest, FindsFilesInTheChildOfTheSet) {
  Touch(root_ / "mnist" / "images");
  Touch(root_ / "mnist" / "labels");
  EXPECT_EQ(Directory(root_).Find("mnist", files_), root_ / "mnist");
}

TEST_F(DataDirectoryTest, RequiresAllFiles) {
  Touch(root_ / "images");
  Touch(root_ / "mnist" / "labels");
  EXPECT_EQ(Directory(root_).Find("mnist", files_), std::nullopt);
}

TEST_F(DataDirectoryTest, PrefersThePlainFile) {
  Touch(root_ / "images");
  Touch(root_ / "images.gz");
  EXPECT_EQ(PlainOrGzip(root_ / "images"), root_ / "images");
}

TEST_F(DataDirectoryTest, ReportsSearchedPlacesAndTheRemedy) {
  variables_ = {{"DTRAIN_DATA", "/d"}, {"XDG_CACHE_HOME", "/c"}};
  EXPECT_EQ(Directory("").MissingMessage("mnist", files_),
            "no mnist data; looked in /d, /c/dtrain/data (and mnist/ "
            "there); put images, labels (or "
            "each with .gz) into a directory and name it in the "
            "hyperparameter 'data' or in DTRAIN_DATA");
}

TEST_F(DataDirectoryTest, SuggestsTheCommandThatDownloadsPublishedSets) {
  variables_ = {{"DTRAIN_DATA", "/d"}};
  EXPECT_THAT(
      Directory("").MissingMessage("mnist", files_, "mnist"),
      HasSubstr("; 'dtrain data fetch mnist' downloads it; or put images"));
  EXPECT_THAT(Directory("/sets").MissingMessage("batches", files_, "cifar10"),
              HasSubstr("'dtrain data fetch cifar10 --to /sets' downloads it"));
  variables_ = {};
  EXPECT_EQ(Directory("").FetchCommand("mnist"),
            "dtrain data fetch mnist --to DIRECTORY");
}

class SetCacheTest : public ::testing::Test {
 protected:
  SetCacheTest() {
    set_ = {.file = root_ / "sets" / "three",
            .build =
                [this] {
                  ++built_;
                  return std::vector<std::uint8_t>{1, 2, 3};
                },
            .valid = [](auto bytes) { return bytes.size() == 3; }};
  }

  int Files() const {
    return static_cast<int>(std::distance(
        fs::directory_iterator(root_ / "sets"), fs::directory_iterator()));
  }

  const TemporaryDirectory directory_;
  const fs::path root_ = directory_.path() / "cache";
  int built_ = 0;
  CachedSet set_;
};

TEST_F(SetCacheTest, BuildsOnce) {
  EXPECT_THAT(OpenSet(set_).bytes, ElementsAre(1, 2, 3));
  EXPECT_THAT(OpenSet(set_).bytes, ElementsAre(1, 2, 3));
  EXPECT_EQ(built_, 1);
}

TEST_F(SetCacheTest, LeavesNothingButTheFile) {
  OpenSet(set_);
  EXPECT_EQ(Files(), 1);
  EXPECT_EQ(fs::file_size(set_.file), 3u);
}

TEST_F(SetCacheTest, KeepsItsBytesAfterTheFileIsRemoved) {
  OpenSet(set_);
  const SharedBytes mapped = OpenSet(set_);
  fs::remove_all(root_);
  EXPECT_THAT(mapped.bytes, ElementsAre(1, 2, 3));
}

TEST_F(SetCacheTest, ReplacesAFileThatIsNotValid) {
  fs::create_directories(root_ / "sets");
  std::ofstream(set_.file) << "xy";
  EXPECT_THAT(OpenSet(set_).bytes, ElementsAre(1, 2, 3));
  EXPECT_EQ(fs::file_size(set_.file), 3u);
}

TEST_F(SetCacheTest, WorksWithoutAWritableFile) {
  std::ofstream(root_) << "a file where the directory should be";
  EXPECT_THAT(OpenSet(set_).bytes, ElementsAre(1, 2, 3));
  EXPECT_THAT(OpenSet(set_).bytes, ElementsAre(1, 2, 3));
  EXPECT_EQ(built_, 2);
}

TEST_F(SetCacheTest, BuildsEachTimeWithoutAFile) {
  set_.file.clear();
  OpenSet(set_);
  EXPECT_THAT(OpenSet(set_).bytes, ElementsAre(1, 2, 3));
  EXPECT_EQ(built_, 2);
}

class CacheDirectoryTest : public ::testing::Test {
 protected:
  fs::path Directory() const {
    return CacheDirectory([this](const char* name) {
      const auto found = variables_.find(name);
      return found == variables_.end() ? std::nullopt
                                       : std::optional(found->second);
    });
  }
  std::map<std::string, std::string> variables_;
};

TEST_F(CacheDirectoryTest, FollowsTheVariable) {
  variables_ = {{"XDG_CACHE_HOME", "/c"}, {"HOME", "/home/u"}};
  EXPECT_EQ(Directory(), "/c/dtrain");
}

TEST_F(CacheDirectoryTest, IsInTheHomeDirectoryByDefault) {
  variables_ = {{"XDG_CACHE_HOME", ""}, {"HOME", "/home/u"}};
  EXPECT_EQ(Directory(), "/home/u/.cache/dtrain");
}

TEST_F(CacheDirectoryTest, IsEmptyWithoutAHome) { EXPECT_EQ(Directory(), ""); }

}  // namespace

}  // namespace dtrain
