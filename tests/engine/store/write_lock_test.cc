#include "engine/store/write_lock.h"

#include <optional>
#include <string>

#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

using testing::HasSubstr;

class WriteLockTest : public testing::Test {
 protected:
  TemporaryDirectory directory_;
  std::filesystem::path path_ = directory_.path() / "lock";
};

TEST_F(WriteLockTest, IsHeldByOneAtATime) {
  WriteLock first(path_);
  WriteLock second(path_);

  EXPECT_TRUE(first.TryAcquire());
  EXPECT_FALSE(second.TryAcquire());
  first.Release();
  EXPECT_TRUE(second.TryAcquire());
}

TEST_F(WriteLockTest, NamesItsHolder) {
  WriteLock first(path_);
  WriteLock second(path_);
  EXPECT_EQ(second.Holder(), "another process");

  ASSERT_TRUE(first.TryAcquire());

  EXPECT_THAT(second.Holder(),
              HasSubstr("pid " + std::to_string(::getpid()) + " on "));
}

TEST_F(WriteLockTest, DeathOfTheHolderFreesIt) {
  const pid_t child = ::fork();
  if (child == 0) {
    WriteLock held(path_);
    ::_exit(held.TryAcquire() ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);

  WriteLock lock(path_);

  EXPECT_TRUE(lock.TryAcquire());
}

TEST_F(WriteLockTest, MissingDirectoryIsAnError) {
  EXPECT_THROW(WriteLock(directory_.path() / "no/lock"), Error);
}

}  // namespace
}  // namespace dtrain
