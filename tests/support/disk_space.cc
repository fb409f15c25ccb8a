#include "tests/support/disk_space.h"

#include <atomic>

#include <dlfcn.h>
#include <sys/statvfs.h>

namespace {

std::atomic<bool> full = false;

// What the library's function of that name tells, but for what is free.
template <typename Where>
int Tell(const char* function, Where where, struct statvfs* system) {
  using Function = int (*)(Where, struct statvfs*);
  const auto real = reinterpret_cast<Function>(::dlsym(RTLD_NEXT, function));
  const int result = real(where, system);
  if (result == 0 && full) {
    system->f_bfree = system->f_bavail = 0;
    system->f_ffree = system->f_favail = 0;
  }
  return result;
}

}  // namespace

// An executable's functions come before those of the libraries that it loads.
extern "C" __attribute__((visibility("default"))) int statvfs(
    const char* path, struct statvfs* system) {
  return Tell("statvfs", path, system);
}
extern "C" __attribute__((visibility("default"))) int fstatvfs(
    int file, struct statvfs* system) {
  return Tell("fstatvfs", file, system);
}

namespace dtrain {

void SetDisksFull(bool are_full) { full = are_full; }

}  // namespace dtrain
