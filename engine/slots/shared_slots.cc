// A directory for all users is safe if nobody can remove or replace another's
// file (the sticky bit) and nothing in it is followed, read or written: links
// are refused, and locks are the only information. Tests for a lock
// (F_OFD_GETLK) take none, so they disturb no holder. Two users who take a slot
// at the same time see each other's lock; both give it back and try again
// later.

#include "engine/slots/shared_slots.h"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <pwd.h>

#include "engine/slots/slot_directory.h"

namespace dtrain {
namespace {

// The bytes that a lock on a part, or on all of a slot, covers.
struct flock RangeLock(short type, std::optional<int> part) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = part.value_or(0);
  lock.l_len = part ? 1 : kQuarters;
  return lock;
}

}  // namespace

std::string SharedSlots::Path() {
  const char* configured = std::getenv("DTRAIN_RUNTIME_DIR");
  if (configured == nullptr || *configured == '\0') {
    return "/var/tmp/dtrain-slots";
  }
  // As in SlotDirectory::Path: a directory of one's own is shared with nobody.
  return SlotDirectory::Path() == configured
             ? ""
             : std::string(configured) + "/dtrain-slots";
}

SharedSlots SharedSlots::Open() {
  const std::string path = Path();
  if (path.empty()) return SharedSlots(UniqueFd());
  if (::mkdir(path.c_str(), 0700) == 0) {
    // The umask has no say in it.
    ::chmod(path.c_str(), S_ISVTX | 0777);
  }
  UniqueFd directory(
      ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat status {};
  if (!directory || ::fstat(directory.get(), &status) != 0 ||
      (status.st_mode & S_ISVTX) == 0 ||
      ::faccessat(directory.get(), ".", R_OK | W_OK | X_OK, AT_EACCESS) != 0) {
    return SharedSlots(UniqueFd());
  }
  return SharedSlots(std::move(directory));
}

std::optional<uid_t> SharedSlots::FindHolder(const std::string& slot) const {
  if (!directory_) return std::nullopt;
  for (const std::string& name : ListNames(directory_.get(), slot + ".")) {
    const UniqueFd file(
        ::openat(directory_.get(), name.c_str(),
                 O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    struct stat status {};
    struct flock lock = RangeLock(F_RDLCK, std::nullopt);
    if (file && ::fstat(file.get(), &status) == 0 && S_ISREG(status.st_mode) &&
        status.st_uid != ::geteuid() &&
        ::fcntl(file.get(), F_OFD_GETLK, &lock) == 0 &&
        lock.l_type != F_UNLCK) {
      return status.st_uid;
    }
  }
  return std::nullopt;
}

std::optional<UniqueFd> SharedSlots::Take(const std::string& slot,
                                          std::optional<int> part) const {
  if (!directory_) return UniqueFd();
  if (FindHolder(slot)) return std::nullopt;
  const std::string name = slot + "." + std::to_string(::geteuid());
  UniqueFd file(::openat(
      directory_.get(), name.c_str(),
      O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0644));
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode) ||
      status.st_uid != ::geteuid() || status.st_nlink != 1) {
    // Another user has prepared a file of this name: the others do not learn of
    // this holder, which is all that it can do.
    return UniqueFd();
  }
  if ((status.st_mode & 0777) != 0644) ::fchmod(file.get(), 0644);
  struct flock lock = RangeLock(F_WRLCK, part);
  if (::fcntl(file.get(), F_OFD_SETLK, &lock) != 0) return UniqueFd();
  if (FindHolder(slot)) return std::nullopt;
  return file;
}

std::string UserText(uid_t user) {
  std::array<char, 4096> buffer{};
  struct passwd entry {};
  struct passwd* found = nullptr;
  ::getpwuid_r(user, &entry, buffer.data(), buffer.size(), &found);
  return "user " + (found != nullptr ? std::string(found->pw_name)
                                     : std::to_string(user));
}

}  // namespace dtrain
