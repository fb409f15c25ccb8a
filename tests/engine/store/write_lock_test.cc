#include "engine/store/write_lock.h"

#include <fstream>
#include <optional>
#include <string>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

using testing::StartsWith;

class WriteLockTest : public testing::Test {
 protected:
  TemporaryDirectory directory_;
  std::filesystem::path path_ = directory_.path() / "lock";
};

TEST_F(WriteLockTest, HasOneHolderAtATime) {
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
  EXPECT_EQ(second.Holder(), "a process that cannot be seen from here");

  ASSERT_TRUE(first.TryAcquire());

  EXPECT_THAT(second.Holder(),
              StartsWith("pid " + std::to_string(::getpid()) + " on "));
}

TEST_F(WriteLockTest, NamesTheLastWriterOnlyAsSuch) {
  WriteLock first(path_);
  ASSERT_TRUE(first.TryAcquire());
  first.Release();

  EXPECT_THAT(first.Holder(),
              StartsWith("a process that cannot be seen from here (the last "
                         "that wrote was pid " +
                         std::to_string(::getpid()) + " on "));
}

TEST_F(WriteLockTest, NotesNothingOfAWriterBefore) {
  std::ofstream(path_) << std::string(127, 'x') << "\n";
  WriteLock first(path_);
  ASSERT_TRUE(first.TryAcquire());
  first.Release();

  EXPECT_THAT(first.Holder(), testing::Not(testing::HasSubstr("xx")));
  EXPECT_THAT(first.Holder(), testing::EndsWith(")"));
}

// Holds `path` until `done` is closed, by flock or by a lock as SQLite's.
pid_t HoldInAChild(const std::filesystem::path& path, bool posix, int* done) {
  int ready[2], end[2];
  if (::pipe(ready) != 0 || ::pipe(end) != 0) return -1;
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(end[1]);
    const int file = ::open(path.c_str(), O_RDWR | O_CREAT, 0600);
    struct flock range {
      .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 120, .l_len = 1
    };
    const int held = posix ? ::fcntl(file, F_SETLK, &range)
                           : ::flock(file, LOCK_EX | LOCK_NB);
    char byte = 0;
    const bool told = held == 0 && ::write(ready[1], "x", 1) == 1;
    ::_exit(told && ::read(end[0], &byte, 1) == 0 ? 0 : 1);
  }
  char byte = 0;
  ::close(ready[1]);
  EXPECT_EQ(::read(ready[0], &byte, 1), 1);
  ::close(ready[0]);
  ::close(end[0]);
  *done = end[1];
  return child;
}

TEST_F(WriteLockTest, NamesAHolderThatIsNotTheLastWriter) {
  WriteLock lock(path_);
  ASSERT_TRUE(lock.TryAcquire());
  lock.Release();
  int done = -1;
  const pid_t child = HoldInAChild(path_, /*posix=*/false, &done);

  EXPECT_FALSE(lock.TryAcquire());
  EXPECT_THAT(lock.Holder(), StartsWith("pid " + std::to_string(child) + " "));

  ::close(done);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(WriteLockTest, NamesTheProcessThatLocksTheDatabase) {
  const std::filesystem::path database = directory_.path() / "dtrain.db";
  EXPECT_EQ(DatabaseHolder(database), std::nullopt);
  int done = -1;
  const pid_t child =
      HoldInAChild(database.string() + "-shm", /*posix=*/true, &done);

  EXPECT_THAT(DatabaseHolder(database).value_or(""),
              StartsWith("pid " + std::to_string(child) + " on "));

  ::close(done);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
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
