// Records the changes that programs make to files below a directory, in order
// and across processes. ./run preloads this library into all processes of an
// experiment.
//
// DTRAIN_POWER_ROOT is the directory, DTRAIN_POWER_LOG the log; without both
// nothing is recorded. Every call is made and recorded under one lock that all
// processes share, so the log has the order in which the calls took effect.
// Files and directories are identified by their inodes; the creation of one is
// recorded with its inode before anything is written to it.
//
// An fsync is recorded but not made: the replayer decides what it keeps. Writes
// through mmap, stdio and io_uring and system calls that bypass libc are not
// recorded. ./run compares the replayed log with the real files, so a missed
// change fails the test.

#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <stdio.h>

#include "tests/power/log.h"

namespace {

using dtrain::power::Die;
using dtrain::power::Header;
using dtrain::power::Log;
using dtrain::power::Op;

std::uint64_t ModifiedTime(const struct stat& status) {
  return static_cast<std::uint64_t>(status.st_mtim.tv_sec) * 1'000'000'000U +
         static_cast<std::uint64_t>(status.st_mtim.tv_nsec);
}

class Locked {
 public:
  explicit Locked(bool wanted = true) : wanted_(wanted) {
    if (wanted_) Log::Get().Lock();
  }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;
  ~Locked() {
    const int error = errno;
    if (wanted_) Log::Get().Unlock();
    errno = error;
  }

 private:
  const bool wanted_;
};

std::string FindFdPath(int fd) {
  std::string path(4096, '\0');
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t count = ::readlink(link.c_str(), path.data(), path.size());
  path.resize(count < 0 ? 0 : static_cast<std::size_t>(count));
  return path;
}

// The parent directory of a path, and the name in it.
struct Place {
  Place(int at, const char* path) {
    if (!Log::Get().on() || path == nullptr || *path == '\0') return;
    const int error = errno;
    std::string text(path);
    while (text.size() > 1 && text.back() == '/') text.pop_back();
    const std::size_t slash = text.rfind('/');
    name = slash == std::string::npos ? text : text.substr(slash + 1);
    const std::string parent = slash == std::string::npos ? "."
                               : slash == 0               ? "/"
                                            : text.substr(0, slash);
    static auto* const open = REAL(openat);
    const int fd = open(at, parent.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct stat status {};
    if (fd >= 0 && ::fstat(fd, &status) == 0) {
      noted = Log::Get().IsBelow(FindFdPath(fd));
      directory = status.st_ino;
    }
    if (fd >= 0) ::close(fd);
    errno = error;
  }

  bool noted = false;
  std::uint64_t directory = 0;
  std::string name;
};

// An open file or directory, if it is to be recorded.
struct Open {
  explicit Open(int fd) {
    struct stat status {};
    if (!Log::Get().on()) return;
    const int error = errno;
    if (::fstat(fd, &status) == 0 &&
        (S_ISREG(status.st_mode) || S_ISDIR(status.st_mode)) &&
        Log::Get().IsBelow(FindFdPath(fd))) {
      noted = true;
      node = status.st_ino;
      bytes = static_cast<std::uint64_t>(status.st_size);
      time = ModifiedTime(status);
    }
    errno = error;
  }

  bool noted = false;
  std::uint64_t node = 0;
  std::uint64_t bytes = 0;
  std::uint64_t time = 0;
};

void Record(Header header, const std::string& name = "",
            const std::string& name2 = "") {
  Log::Get().Append(header, name, name2);
}

// Returns the bytes that a call has just written, read back from the file,
// since they may have come from another file.
void RecordBytes(int fd, std::uint64_t node, std::uint64_t offset,
                 std::uint64_t count) {
  const int error = errno;
  static auto* const open = REAL(open);
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const int file = open(link.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) Die("cannot read what was written");
  std::vector<char> bytes(count);
  std::uint64_t done = 0;
  while (done < count) {
    const ssize_t got = ::pread(file, bytes.data() + done, count - done,
                                static_cast<off_t>(offset + done));
    if (got <= 0) Die("cannot read what was written");
    done += static_cast<std::uint64_t>(got);
  }
  ::close(file);
  Log::Get().Append(
      {.op = Op::kWrite, .a = node, .b = offset, .time = Open(fd).time}, "", "",
      bytes.data(), count);
  errno = error;
}

// `call` writes to `fd` at its offset and returns the number of bytes.
template <typename Call>
ssize_t WriteHere(int fd, Call&& call) {
  const Open file(fd);
  if (!file.noted) return call();
  const Locked locked;
  const ssize_t count = call();
  if (count > 0) {
    // The offset after the write, with or without O_APPEND.
    const off_t end = ::lseek(fd, 0, SEEK_CUR);
    RecordBytes(fd, file.node, static_cast<std::uint64_t>(end - count),
                static_cast<std::uint64_t>(count));
  }
  return count;
}

template <typename Call>
ssize_t WriteAt(int fd, off_t offset, Call&& call) {
  const Open file(fd);
  if (!file.noted) return call();
  const Locked locked;
  const ssize_t count = call();
  if (count > 0) {
    RecordBytes(fd, file.node, static_cast<std::uint64_t>(offset),
                static_cast<std::uint64_t>(count));
  }
  return count;
}

// Records the effect of `call` on a whole file: its size, or all of its bytes.
template <typename Call>
int ChangeWhole(int fd, Call&& call) {
  const Open file(fd);
  if (!file.noted) return call();
  const Locked locked;
  const int code = call();
  if (code != 0) return code;
  const Open now(fd);
  Record({.op = Op::kTruncate, .a = now.node, .b = 0});
  RecordBytes(fd, now.node, 0, now.bytes);
  return code;
}

template <typename Call>
int Resize(int fd, Call&& call) {
  if (!Open(fd).noted) return call();
  const Locked locked;
  const Open before(fd);
  const int code = call();
  const Open now(fd);
  if (code == 0 && now.bytes != before.bytes) {
    Record(
        {.op = Op::kTruncate, .a = now.node, .b = now.bytes, .time = now.time});
  }
  return code;
}

int Sync(int fd, std::uint64_t only_data) {
  const Open file(fd);
  if (!file.noted) return 0;
  const Locked locked;
  Record({.op = Op::kSync, .a = file.node, .b = only_data});
  return 0;
}

// `call` opens a file; a creation or truncation is recorded. `mode`: of a new
// file.
template <typename Call>
int OpenAt(int at, const char* path, int flags, Call&& call) {
  const bool changes =
      (flags & (O_CREAT | O_TRUNC)) != 0 && (flags & O_TMPFILE) != O_TMPFILE;
  const Place place(changes ? at : AT_FDCWD, changes ? path : nullptr);
  if (!place.noted) return call();
  const Locked locked;
  struct stat before {};
  const bool was_there = ::fstatat(at, path, &before, 0) == 0;
  const int fd = call();
  struct stat now {};
  if (fd < 0 || ::fstat(fd, &now) != 0 || !S_ISREG(now.st_mode)) return fd;
  if (!was_there) {
    Record({.op = Op::kCreate,
            .a = place.directory,
            .b = now.st_ino,
            .c = now.st_mode & 07777,
            .time = ModifiedTime(now)},
           place.name);
  } else if ((flags & O_TRUNC) != 0 && before.st_size > 0) {
    Record({.op = Op::kTruncate,
            .a = now.st_ino,
            .b = 0,
            .time = ModifiedTime(now)});
  }
  return fd;
}

// `call` creates an entry of the kind `op`.
template <typename Call>
int Enter(Op op, int at, const char* path, const char* target, Call&& call) {
  const Place place(at, path);
  if (!place.noted) return call();
  const Locked locked;
  const int code = call();
  struct stat now {};
  if (code == 0 && ::fstatat(at, path, &now, AT_SYMLINK_NOFOLLOW) == 0) {
    Log::Get().Append({.op = op,
                       .a = place.directory,
                       .b = now.st_ino,
                       .c = now.st_mode & 07777,
                       .time = ModifiedTime(now)},
                      place.name, "", target,
                      target == nullptr ? 0 : ::strlen(target));
  }
  return code;
}

template <typename Call>
int Remove(Op op, int at, const char* path, Call&& call) {
  const Place place(at, path);
  if (!place.noted) return call();
  const Locked locked;
  const int code = call();
  if (code == 0) Record({.op = op, .a = place.directory}, place.name);
  return code;
}

template <typename Call>
int Rename(int from_at, const char* from, int to_at, const char* to,
           unsigned flags, Call&& call) {
  const Place source(from_at, from);
  const Place target(to_at, to);
  if (!source.noted && !target.noted) return call();
  if (source.noted != target.noted) {
    errno = EXDEV;
    Die("a file came from outside");
  }
  const Locked locked;
  const int code = call();
  if (code == 0) {
    Record({.op = Op::kRename,
            .a = source.directory,
            .b = target.directory,
            .c = flags & RENAME_EXCHANGE},
           source.name, target.name);
  }
  return code;
}

template <typename Call>
int Chmod(int at, const char* path, Call&& call) {
  const Place place(at, path);
  const int code = call();
  struct stat now {};
  if (code == 0 && place.noted && ::fstatat(at, path, &now, 0) == 0) {
    const Locked locked;
    Record({.op = Op::kChmod, .a = now.st_ino, .b = now.st_mode & 07777U});
  }
  return code;
}

}  // namespace

namespace {

// The boot ID changes after a power cut: it is read from the file
// DTRAIN_POWER_BOOT_ID instead.
const char* AfterTheCut(const char* path) {
  const char* other = ::getenv("DTRAIN_POWER_BOOT_ID");
  const bool asks = std::strcmp(path, "/proc/sys/kernel/random/boot_id") == 0;
  return asks && other != nullptr ? other : path;
}

}  // namespace

// Replacements of libc's functions, with the attributes and exceptions of libc.
// NOLINTBEGIN(readability-identifier-naming,cert-dcl50-cpp)
extern "C" {

#define OPEN_MODE(flags)                                            \
  mode_t mode = 0;                                                  \
  if (((flags)&O_CREAT) != 0 || ((flags)&O_TMPFILE) == O_TMPFILE) { \
    va_list list;                                                   \
    va_start(list, flags);                                          \
    mode = va_arg(list, mode_t);                                    \
    va_end(list);                                                   \
  }

int open(const char* path, int flags, ...) {
  OPEN_MODE(flags)
  static auto* const real = REAL(open);
  return OpenAt(AT_FDCWD, path, flags,
                [&] { return real(AfterTheCut(path), flags, mode); });
}
int openat(int at, const char* path, int flags, ...) {
  OPEN_MODE(flags)
  static auto* const real = REAL(openat);
  return OpenAt(at, path, flags, [&] { return real(at, path, flags, mode); });
}
int creat(const char* path, mode_t mode) {
  return open(path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

// Records only the opening of stdio; the streams of libstdc++ use `write`.
FILE* fopen(const char* path, const char* how) {
  static auto* const real = REAL(fopen);
  FILE* file = nullptr;
  const int flags = how[0] == 'w'   ? O_CREAT | O_TRUNC
                    : how[0] == 'a' ? O_CREAT
                                    : 0;
  OpenAt(AT_FDCWD, path, flags, [&] {
    file = real(AfterTheCut(path), how);
    return file == nullptr ? -1 : ::fileno(file);
  });
  return file;
}
ssize_t write(int fd, const void* bytes, size_t count) {
  static auto* const real = REAL(write);
  return WriteHere(fd, [&] { return real(fd, bytes, count); });
}
ssize_t writev(int fd, const iovec* pieces, int count) {
  static auto* const real = REAL(writev);
  return WriteHere(fd, [&] { return real(fd, pieces, count); });
}
ssize_t pwrite(int fd, const void* bytes, size_t count, off_t offset) {
  static auto* const real = REAL(pwrite);
  return WriteAt(fd, offset, [&] { return real(fd, bytes, count, offset); });
}
ssize_t pwritev(int fd, const iovec* pieces, int count, off_t offset) {
  static auto* const real = REAL(pwritev);
  return WriteAt(fd, offset, [&] { return real(fd, pieces, count, offset); });
}
ssize_t sendfile(int to, int from, off_t* offset, size_t count) {
  static auto* const real = REAL(sendfile);
  return WriteHere(to, [&] { return real(to, from, offset, count); });
}
ssize_t copy_file_range(int from, off64_t* in, int to, off64_t* out,
                        size_t count, unsigned flags) {
  static auto* const real = REAL(copy_file_range);
  const auto call = [&] { return real(from, in, to, out, count, flags); };
  return out == nullptr ? WriteHere(to, call) : WriteAt(to, *out, call);
}

int ioctl(int fd, unsigned long request, ...) noexcept {
  va_list list;
  va_start(list, request);
  void* const argument = va_arg(list, void*);
  va_end(list);
  static auto* const real = REAL(ioctl);
  const auto call = [&] { return real(fd, request, argument); };
  const bool clones = request == FICLONE || request == FICLONERANGE;
  return clones ? ChangeWhole(fd, call) : call();
}

int ftruncate(int fd, off_t bytes) noexcept {
  static auto* const real = REAL(ftruncate);
  return Resize(fd, [&] { return real(fd, bytes); });
}
int truncate(const char* path, off_t bytes) noexcept {
  const int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  const int code = ftruncate(fd, bytes);
  ::close(fd);
  return code;
}
int fallocate(int fd, int mode, off_t offset, off_t bytes) {
  static auto* const real = REAL(fallocate);
  const auto call = [&] { return real(fd, mode, offset, bytes); };
  const bool keeps = (mode & ~FALLOC_FL_KEEP_SIZE) == 0;
  return keeps ? Resize(fd, call) : ChangeWhole(fd, call);
}
int posix_fallocate(int fd, off_t offset, off_t bytes) {
  static auto* const real = REAL(posix_fallocate);
  return Resize(fd, [&] { return real(fd, offset, bytes); });
}

int fsync(int fd) { return Sync(fd, 0); }
int fdatasync(int fd) { return Sync(fd, 1); }
// Only starts writing; according to its manual nothing is durable afterwards.
int sync_file_range(int, off64_t, off64_t, unsigned) { return 0; }

int mkdir(const char* path, mode_t mode) noexcept {
  static auto* const real = REAL(mkdir);
  return Enter(Op::kMkdir, AT_FDCWD, path, nullptr,
               [&] { return real(path, mode); });
}
int mkdirat(int at, const char* path, mode_t mode) noexcept {
  static auto* const real = REAL(mkdirat);
  return Enter(Op::kMkdir, at, path, nullptr,
               [&] { return real(at, path, mode); });
}
int symlink(const char* target, const char* path) noexcept {
  static auto* const real = REAL(symlink);
  return Enter(Op::kSymlink, AT_FDCWD, path, target,
               [&] { return real(target, path); });
}
int symlinkat(const char* target, int at, const char* path) noexcept {
  static auto* const real = REAL(symlinkat);
  return Enter(Op::kSymlink, at, path, target,
               [&] { return real(target, at, path); });
}
int link(const char* from, const char* to) noexcept {
  static auto* const real = REAL(link);
  return Enter(Op::kLink, AT_FDCWD, to, nullptr,
               [&] { return real(from, to); });
}
int linkat(int from_at, const char* from, int to_at, const char* to,
           int flags) noexcept {
  static auto* const real = REAL(linkat);
  return Enter(Op::kLink, to_at, to, nullptr,
               [&] { return real(from_at, from, to_at, to, flags); });
}

int unlink(const char* path) noexcept {
  static auto* const real = REAL(unlink);
  return Remove(Op::kUnlink, AT_FDCWD, path, [&] { return real(path); });
}
int rmdir(const char* path) noexcept {
  static auto* const real = REAL(rmdir);
  return Remove(Op::kRmdir, AT_FDCWD, path, [&] { return real(path); });
}
int unlinkat(int at, const char* path, int flags) noexcept {
  static auto* const real = REAL(unlinkat);
  const Op op = (flags & AT_REMOVEDIR) != 0 ? Op::kRmdir : Op::kUnlink;
  return Remove(op, at, path, [&] { return real(at, path, flags); });
}
int remove(const char* path) noexcept {
  static auto* const real = REAL(remove);
  return Remove(Op::kUnlink, AT_FDCWD, path, [&] { return real(path); });
}

int rename(const char* from, const char* to) noexcept {
  static auto* const real = REAL(rename);
  return Rename(AT_FDCWD, from, AT_FDCWD, to, 0,
                [&] { return real(from, to); });
}
int renameat(int from_at, const char* from, int to_at,
             const char* to) noexcept {
  static auto* const real = REAL(renameat);
  return Rename(from_at, from, to_at, to, 0,
                [&] { return real(from_at, from, to_at, to); });
}
int renameat2(int from_at, const char* from, int to_at, const char* to,
              unsigned flags) noexcept {
  static auto* const real = REAL(renameat2);
  return Rename(from_at, from, to_at, to, flags,
                [&] { return real(from_at, from, to_at, to, flags); });
}

int chmod(const char* path, mode_t mode) noexcept {
  static auto* const real = REAL(chmod);
  return Chmod(AT_FDCWD, path, [&] { return real(path, mode); });
}
int fchmodat(int at, const char* path, mode_t mode, int flags) noexcept {
  static auto* const real = REAL(fchmodat);
  return Chmod(at, path, [&] { return real(at, path, mode, flags); });
}
int fchmod(int fd, mode_t mode) noexcept {
  static auto* const real = REAL(fchmod);
  const Open file(fd);
  const Locked locked(file.noted);
  const int code = real(fd, mode);
  if (code == 0 && file.noted) {
    Record({.op = Op::kChmod, .a = file.node, .b = mode & 07777U});
  }
  return code;
}

int futimens(int fd, const timespec times[2]) noexcept {
  static auto* const real = REAL(futimens);
  const Locked locked(Open(fd).noted);
  const int code = real(fd, times);
  const Open file(fd);
  if (code == 0 && file.noted) {
    Record({.op = Op::kTime, .a = file.node, .time = file.time});
  }
  return code;
}
int utimensat(int at, const char* path, const timespec times[2],
              int flags) noexcept {
  static auto* const real = REAL(utimensat);
  const Place place(at, path);
  const Locked locked(place.noted);
  const int code = real(at, path, times, flags);
  struct stat now {};
  if (code == 0 && place.noted && ::fstatat(at, path, &now, flags) == 0) {
    Record({.op = Op::kTime, .a = now.st_ino, .time = ModifiedTime(now)});
  }
  return code;
}

// Variants of these functions for 64-bit off_t.
static_assert(sizeof(off_t) == sizeof(off64_t));
#define SAME(name64, name) \
  decltype(::name64) name64 __attribute__((alias(#name)))
SAME(open64, open);
SAME(openat64, openat);
SAME(creat64, creat);
SAME(pwrite64, pwrite);
SAME(pwritev64, pwritev);
SAME(sendfile64, sendfile);
SAME(ftruncate64, ftruncate);
SAME(truncate64, truncate);
SAME(fallocate64, fallocate);
SAME(posix_fallocate64, posix_fallocate);
SAME(fopen64, fopen);
#undef SAME

}  // extern "C"
// NOLINTEND(readability-identifier-naming,cert-dcl50-cpp)
