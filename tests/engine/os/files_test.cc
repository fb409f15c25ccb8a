#include "engine/os/files.h"

#include <chrono>
#include <fstream>

#include <gtest/gtest.h>

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
