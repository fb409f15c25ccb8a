// A library that tests load before the C library: it says that what lies in
// the directory $LYING_STATFS_DIR is on a file system of $LYING_STATFS_TYPE.

#include <array>
#include <climits>
#include <cstdlib>
#include <string>
#include <string_view>

#include <dlfcn.h>
#include <sys/vfs.h>
#include <unistd.h>

namespace {

bool LiesThere(std::string_view path) {
  const char* directory = std::getenv("LYING_STATFS_DIR");
  return directory != nullptr && path.starts_with(directory);
}

bool LiesThere(int fd) {
  std::array<char, PATH_MAX> path{};
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t length = ::readlink(link.c_str(), path.data(), path.size());
  return length > 0 && LiesThere(std::string_view(
                           path.data(), static_cast<std::size_t>(length)));
}

// What the function of that name says, but for the type.
template <typename Where, typename State>
int Lie(const char* function, Where where, State* state) {
  using Function = int (*)(Where, State*);
  const auto real = reinterpret_cast<Function>(::dlsym(RTLD_NEXT, function));
  const int result = real(where, state);
  const char* type = std::getenv("LYING_STATFS_TYPE");
  if (result == 0 && type != nullptr && LiesThere(where)) {
    state->f_type = std::strtol(type, nullptr, /*base=*/0);
  }
  return result;
}

}  // namespace

#define DTRAIN_VISIBLE extern "C" __attribute__((visibility("default")))

DTRAIN_VISIBLE int statfs(const char* path, struct statfs* state) {
  return Lie("statfs", path, state);
}

DTRAIN_VISIBLE int statfs64(const char* path, struct statfs64* state) {
  return Lie("statfs64", path, state);
}

DTRAIN_VISIBLE int fstatfs(int fd, struct statfs* state) {
  return Lie("fstatfs", fd, state);
}

DTRAIN_VISIBLE int fstatfs64(int fd, struct statfs64* state) {
  return Lie("fstatfs64", fd, state);
}
