// A library that tests preload to fake the answers of the system. Each fake is
// active only if its environment variables are set:
//
// - BEFORE_OPEN_NAME, BEFORE_OPEN_COMMAND: the shell command runs right before
//   the process first opens this name with openat(2)
// - FAKE_CPUINFO: this file is opened instead of /proc/cpuinfo
// - FAKE_STATFS_DIR, FAKE_STATFS_TYPE: files in this directory are reported to
//   be on a file system of this type

#include <array>
#include <climits>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/vfs.h>
#include <unistd.h>

#define DTRAIN_VISIBLE extern "C" __attribute__((visibility("default")))

namespace {

// Returns libc's own function of this name.
template <typename Function>
Function* Real(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

// Returns the value of a variable and removes it, or "" if it is not set.
std::string PopVariable(const char* name) {
  const char* value = std::getenv(name);
  const std::string text = value == nullptr ? "" : value;
  ::unsetenv(name);
  return text;
}

void RunCommandBefore(const char* opened) {
  const char* name = std::getenv("BEFORE_OPEN_NAME");
  if (name == nullptr || std::string(name) != opened) return;
  // Removed, so that neither a second open nor the command's processes run it.
  PopVariable("BEFORE_OPEN_NAME");
  const std::string command = PopVariable("BEFORE_OPEN_COMMAND");
  if (std::system(command.c_str()) != 0) std::abort();
}

int OpenAt(const char* function, int directory, const char* name, int flags,
           mode_t mode) {
  RunCommandBefore(name);
  return Real<int(int, const char*, int, ...)>(function)(directory, name, flags,
                                                         mode);
}

// Returns the file to open for this path.
const char* FindFake(const char* path) {
  const char* fake = std::getenv("FAKE_CPUINFO");
  const bool is_fake =
      fake != nullptr && std::strcmp(path, "/proc/cpuinfo") == 0;
  return is_fake ? fake : path;
}

int Open(const char* function, const char* path, int flags, mode_t mode) {
  return Real<int(const char*, int, ...)>(function)(FindFake(path), flags,
                                                    mode);
}

std::FILE* OpenStream(const char* function, const char* path,
                      const char* mode) {
  return Real<std::FILE*(const char*, const char*)>(function)(FindFake(path),
                                                              mode);
}

bool IsOnFakeSystem(std::string_view path) {
  const char* directory = std::getenv("FAKE_STATFS_DIR");
  return directory != nullptr && path.starts_with(directory);
}

bool IsOnFakeSystem(int fd) {
  if (std::getenv("FAKE_STATFS_DIR") == nullptr) return false;
  std::array<char, PATH_MAX> path{};
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t length = ::readlink(link.c_str(), path.data(), path.size());
  return length > 0 && IsOnFakeSystem(std::string_view(
                           path.data(), static_cast<std::size_t>(length)));
}

template <typename Where, typename State>
int Statfs(const char* function, Where where, State* state) {
  const int result = Real<int(Where, State*)>(function)(where, state);
  const char* type = std::getenv("FAKE_STATFS_TYPE");
  if (result == 0 && type != nullptr && IsOnFakeSystem(where)) {
    state->f_type = std::strtol(type, nullptr, /*base=*/0);
  }
  return result;
}

}  // namespace

// The mode of a new file, the last argument if `flags` say that it is created.
#define DTRAIN_MODE(mode, flags)                                  \
  va_list rest;                                                   \
  va_start(rest, flags);                                          \
  const bool creates = (flags & (O_CREAT | __O_TMPFILE)) != 0;    \
  const mode_t mode = creates ? va_arg(rest, mode_t) : mode_t{0}; \
  va_end(rest)

#define DTRAIN_OPEN(name)                                     \
  DTRAIN_VISIBLE int name(const char* file, int flags, ...) { \
    DTRAIN_MODE(mode, flags);                                 \
    return Open(#name, file, flags, mode);                    \
  }

#define DTRAIN_OPENAT(name)                                                  \
  DTRAIN_VISIBLE int name(int directory, const char* file, int flags, ...) { \
    DTRAIN_MODE(mode, flags);                                                \
    return OpenAt(#name, directory, file, flags, mode);                      \
  }

DTRAIN_OPEN(open)
DTRAIN_OPEN(open64)
DTRAIN_OPENAT(openat)
DTRAIN_OPENAT(openat64)

DTRAIN_VISIBLE std::FILE* fopen(const char* path, const char* mode) {
  return OpenStream("fopen", path, mode);
}

DTRAIN_VISIBLE std::FILE* fopen64(const char* path, const char* mode) {
  return OpenStream("fopen64", path, mode);
}

DTRAIN_VISIBLE int statfs(const char* path, struct statfs* state) {
  return Statfs("statfs", path, state);
}

DTRAIN_VISIBLE int statfs64(const char* path, struct statfs64* state) {
  return Statfs("statfs64", path, state);
}

DTRAIN_VISIBLE int fstatfs(int fd, struct statfs* state) {
  return Statfs("fstatfs", fd, state);
}

DTRAIN_VISIBLE int fstatfs64(int fd, struct statfs64* state) {
  return Statfs("fstatfs64", fd, state);
}
