#include "engine/os/file_lock.h"

#include <cerrno>

#include <fcntl.h>
#include <sys/file.h>

namespace dtrain {
namespace {

bool Flock(int file, int operation) {
  while (::flock(file, operation) != 0) {
    if (errno != EINTR) return false;
  }
  return true;
}

struct flock WholeFile() {
  struct flock range {};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  return range;
}

}  // namespace

FileLock FileLock::Open(const std::filesystem::path& path, mode_t mode) {
  return FileLock(UniqueFd(
      ::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, mode)));
}

bool FileLock::TryLock(Mode mode) {
  const int lock = mode == Mode::kExclusive ? LOCK_EX : LOCK_SH;
  return Flock(file_.get(), lock | LOCK_NB);
}

bool FileLock::Lock() { return Flock(file_.get(), LOCK_EX); }

void FileLock::Unlock() { ::flock(file_.get(), LOCK_UN); }

bool FileLock::TryLockRecord() {
  struct flock range = WholeFile();
  while (::fcntl(file_.get(), F_OFD_SETLK, &range) != 0) {
    if (errno == EACCES) errno = EWOULDBLOCK;
    if (errno != EINTR) return false;
  }
  return true;
}

bool FileLock::IsRecordLocked() const {
  struct flock range = WholeFile();
  return ::fcntl(file_.get(), F_OFD_GETLK, &range) == 0 &&
         range.l_type != F_UNLCK;
}

}  // namespace dtrain
