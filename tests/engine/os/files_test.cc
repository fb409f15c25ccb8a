#include "engine/os/files.h"

#include <cerrno>
#include <chrono>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

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
  std::uint64_t Key() const { return SetKey(first_, second_); }
  static std::uint64_t SetKey(const fs::path& a, const fs::path& b) {
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

std::string ReadText(const fs::path& file) {
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

  EXPECT_EQ(ReadText(file_), "short");
  EXPECT_EQ(Names(), std::vector<std::string>{"file"});
  EXPECT_EQ(fs::status(file_).permissions(),
            fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(WriteFileTest, HidesAFileUntilItIsComplete) {
  DurableFile file(file_, 0644);
  ASSERT_TRUE(file);
  EXPECT_TRUE(file.Write("one "));
  EXPECT_FALSE(fs::exists(file_));
  EXPECT_TRUE(file.Write("two"));
  EXPECT_TRUE(file.Commit());
  EXPECT_EQ(ReadText(file_), "one two");
  EXPECT_EQ(Names(), std::vector<std::string>{"file"});
}

TEST_F(WriteFileTest, RemovesAnUncommittedFile) {
  {
    DurableFile file(file_);
    EXPECT_TRUE(file.Write("text"));
    EXPECT_EQ(Names().size(), 1U);
  }
  EXPECT_TRUE(Names().empty());
}

TEST_F(WriteFileTest, KeepsAnExistingFile) {
  std::ofstream(file_) << "old";
  DurableFile file(file_);
  ASSERT_TRUE(file.Write("new"));
  EXPECT_FALSE(file.Commit(DurableFile::Existing::kKeep));
  EXPECT_EQ(errno, EEXIST);
  EXPECT_EQ(ReadText(file_), "old");
}

TEST_F(WriteFileTest, TwoWritersDoNotDisturbEachOther) {
  DurableFile first(file_);
  DurableFile second(file_);
  EXPECT_TRUE(first.Write("first"));
  EXPECT_TRUE(second.Write("second"));
  EXPECT_TRUE(second.Commit());
  EXPECT_TRUE(first.Commit());
  EXPECT_EQ(ReadText(file_), "first");
}

TEST_F(WriteFileTest, FailsWithoutADirectory) {
  const DurableFile file(directory_.path() / "none" / "file");
  EXPECT_EQ(errno, ENOENT);
  EXPECT_FALSE(file);
}

TEST_F(WriteFileTest, ReadsAFile) {
  EXPECT_FALSE(ReadFile(file_));
  EXPECT_EQ(errno, ENOENT);
  std::ofstream(file_) << std::string(10'000, 'x');
  EXPECT_EQ(ReadFile(file_), std::string(10'000, 'x'));
  EXPECT_EQ(ReadFile(file_, 3), "xxx");
  EXPECT_FALSE(ReadFile(directory_.path()));
  EXPECT_EQ(errno, EISDIR);
}

TEST_F(WriteFileTest, ReadsAKernelFile) {
  const auto text = ReadFile("/proc/self/status");
  ASSERT_TRUE(text);
  EXPECT_NE(text->find("VmRSS"), std::string::npos);
}

TEST_F(WriteFileTest, LeavesNothingBehindOnFailure) {
  fs::create_directory(file_);

  EXPECT_THROW(WriteFileDurably(file_, "text"), Error);

  EXPECT_TRUE(fs::is_directory(file_));
  EXPECT_EQ(Names(), std::vector<std::string>{"file"});
}

TEST(FileSystemTest, RecognizesKernelFileSystems) {
  struct statfs system {};
  ASSERT_EQ(::statfs("/proc/self", &system), 0);
  EXPECT_TRUE(IsKernelFileSystem(system));
  ASSERT_EQ(::statfs(fs::temp_directory_path().c_str(), &system), 0);
  EXPECT_FALSE(IsKernelFileSystem(system));
}

TEST_F(FileSetKeyTest, IsStable) { EXPECT_EQ(Key(), before_); }

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
  EXPECT_NE(SetKey(second_, first_), before_);
  EXPECT_NE(SetKey(first_, first_), before_);
}

TEST_F(FileSetKeyTest, ChangesWhenAFileIsRemoved) {
  fs::remove(first_);
  EXPECT_NE(Key(), before_);
}

}  // namespace
}  // namespace dtrain
