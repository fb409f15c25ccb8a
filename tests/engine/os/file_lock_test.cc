#include "engine/os/file_lock.h"

#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

class FileLockTest : public testing::Test {
 protected:
  FileLock Open() const { return FileLock::Open(directory_.path() / "lock"); }

  TemporaryDirectory directory_;
};

TEST_F(FileLockTest, CreatesAPrivateFile) {
  const FileLock lock = Open();
  ASSERT_TRUE(lock);
  struct stat status {};
  ASSERT_EQ(::fstat(lock.fd(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0600U);
  EXPECT_NE(::fcntl(lock.fd(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST_F(FileLockTest, DoesNotFollowALink) {
  ASSERT_EQ(::symlink("target", (directory_.path() / "lock").c_str()), 0);
  const FileLock lock = Open();
  EXPECT_EQ(errno, ELOOP);
  EXPECT_FALSE(lock);
}

TEST_F(FileLockTest, IsHeldByOneOpenFileAtATime) {
  FileLock first = Open();
  FileLock second = Open();
  EXPECT_TRUE(first.TryLock());
  EXPECT_TRUE(first.TryLock());
  EXPECT_FALSE(second.TryLock());
  EXPECT_EQ(errno, EWOULDBLOCK);
  first.Unlock();
  EXPECT_TRUE(second.TryLock());
}

TEST_F(FileLockTest, AllowsSharedHolders) {
  FileLock first = Open();
  FileLock second = Open();
  FileLock third = Open();
  EXPECT_TRUE(first.TryLock(FileLock::Mode::kShared));
  EXPECT_TRUE(second.TryLock(FileLock::Mode::kShared));
  EXPECT_FALSE(third.TryLock());
}

TEST_F(FileLockTest, IsReleasedWhenTheFileCloses) {
  FileLock first = Open();
  FileLock second = Open();
  ASSERT_TRUE(first.Lock());
  first = FileLock();
  EXPECT_TRUE(second.TryLock());
}

TEST_F(FileLockTest, StaysWithTheReleasedDescriptor) {
  FileLock first = Open();
  FileLock second = Open();
  ASSERT_TRUE(first.TryLock());
  UniqueFd file = first.Release();
  EXPECT_FALSE(first);
  EXPECT_FALSE(second.TryLock());
  file.reset();
  EXPECT_TRUE(second.TryLock());
}

TEST_F(FileLockTest, IsReleasedWhenItsHolderDies) {
  FileLock ours = Open();
  const pid_t pid = ::fork();
  if (pid == 0) {
    FileLock theirs = Open();
    ::_exit(theirs.TryLock() && theirs.TryLockRecord() ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(pid, &status, 0), pid);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(ours.TryLock());
  EXPECT_TRUE(ours.TryLockRecord());
}

TEST_F(FileLockTest, FailsWithoutAFile) {
  FileLock none;
  EXPECT_FALSE(none.TryLock());
  EXPECT_EQ(errno, EBADF);
  EXPECT_FALSE(none.Lock());
  EXPECT_FALSE(none.TryLockRecord());
  EXPECT_FALSE(none.IsRecordLocked());
}

TEST_F(FileLockTest, ProbesARecordLockWithoutTakingIt) {
  FileLock holder = Open();
  const FileLock prober(
      UniqueFd(::open((directory_.path() / "lock").c_str(), O_RDONLY)));
  EXPECT_FALSE(prober.IsRecordLocked());
  ASSERT_TRUE(holder.TryLockRecord());
  EXPECT_TRUE(prober.IsRecordLocked());
  EXPECT_FALSE(holder.IsRecordLocked());  // not by another
}

TEST_F(FileLockTest, GivesARecordLockToOneOpenFile) {
  FileLock first = Open();
  FileLock second = Open();
  ASSERT_TRUE(first.TryLockRecord());
  EXPECT_FALSE(second.TryLockRecord());
  EXPECT_EQ(errno, EWOULDBLOCK);
  EXPECT_TRUE(second.TryLock());  // the other kind of lock
}

}  // namespace
}  // namespace dtrain
