#include "engine/data/set_cache.h"

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

TEST_F(SetCacheTest, KeepsItsBytesWhenTheFileGoes) {
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

TEST_F(SetCacheTest, GoesWithoutAFileThatCannotBeWritten) {
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

TEST_F(CacheDirectoryTest, IsWhereTheVariableSays) {
  variables_ = {{"XDG_CACHE_HOME", "/c"}, {"HOME", "/home/u"}};
  EXPECT_EQ(Directory(), "/c/dtrain");
}

TEST_F(CacheDirectoryTest, IsInTheHomeDirectoryByDefault) {
  variables_ = {{"XDG_CACHE_HOME", ""}, {"HOME", "/home/u"}};
  EXPECT_EQ(Directory(), "/home/u/.cache/dtrain");
}

TEST_F(CacheDirectoryTest, IsNowhereWithoutAHome) {
  EXPECT_EQ(Directory(), "");
}

}  // namespace
}  // namespace dtrain
