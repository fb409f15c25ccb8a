#include "engine/os/files.h"

#include <chrono>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <unistd.h>

#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

class FileSetKeyTest : public ::testing::Test {
 protected:
  FileSetKeyTest() {
    std::ofstream(first_) << "one";
    std::ofstream(second_) << "two";
    before_ = Key();
  }
  std::uint64_t Key() const { return KeyOf(first_, second_); }
  static std::uint64_t KeyOf(const fs::path& a, const fs::path& b) {
    FileSetKey key;
    key.Add(a);
    key.Add(b);
    return key.value();
  }

  const TemporaryDirectory directory_;
  const fs::path first_ = directory_.path() / "a";
  const fs::path second_ = directory_.path() / "b";
  std::uint64_t before_ = 0;
};

std::string ContentOf(const fs::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

class WriteFileTest : public ::testing::Test {
 protected:
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(directory_.path())) {
      names.push_back(entry.path().filename());
    }
    return names;
  }

  const TemporaryDirectory directory_;
  const fs::path file_ = directory_.path() / "file";
};

TEST_F(WriteFileTest, ReplacesTheWholeFile) {
  WriteFileDurably(file_, "a longer text");
  WriteFileDurably(file_, "short");

  EXPECT_EQ(ContentOf(file_), "short");
  EXPECT_EQ(Names(), std::vector<std::string>{"file"});
  EXPECT_EQ(fs::status(file_).permissions(),
            fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(WriteFileTest, ReplacesWhatAKilledProcessLeft) {
  std::ofstream(file_.string() + "." + std::to_string(::getpid()) + ".tmp")
      << "half";

  WriteFileDurably(file_, "whole");

  EXPECT_EQ(ContentOf(file_), "whole");
  EXPECT_EQ(Names(), std::vector<std::string>{"file"});
}

TEST_F(WriteFileTest, LeavesNothingBehindWhereItFails) {
  fs::create_directory(file_);

  EXPECT_THROW(WriteFileDurably(file_, "text"), Error);

  EXPECT_TRUE(fs::is_directory(file_));
  EXPECT_EQ(Names(), std::vector<std::string>{"file"});
}

TEST(FileSystemTest, KnowsWhatTheKernelMakesUp) {
  struct statfs system {};
  ASSERT_EQ(::statfs("/proc/self", &system), 0);
  EXPECT_TRUE(IsKernelFileSystem(system));
  ASSERT_EQ(::statfs(fs::temp_directory_path().c_str(), &system), 0);
  EXPECT_FALSE(IsKernelFileSystem(system));
}

TEST_F(FileSetKeyTest, StaysWithTheFiles) { EXPECT_EQ(Key(), before_); }

TEST_F(FileSetKeyTest, ChangesWithASize) {
  const auto time = fs::last_write_time(first_);
  std::ofstream(first_) << "longer";
  fs::last_write_time(first_, time);
  EXPECT_NE(Key(), before_);
}

TEST_F(FileSetKeyTest, ChangesWithATime) {
  fs::last_write_time(second_,
                      fs::last_write_time(second_) + std::chrono::seconds(1));
  EXPECT_NE(Key(), before_);
}

TEST_F(FileSetKeyTest, ChangesWithANameAndWithTheOrder) {
  EXPECT_NE(KeyOf(second_, first_), before_);
  EXPECT_NE(KeyOf(first_, first_), before_);
}

TEST_F(FileSetKeyTest, ChangesWhenAFileGoes) {
  fs::remove(first_);
  EXPECT_NE(Key(), before_);
}

}  // namespace
}  // namespace dtrain
