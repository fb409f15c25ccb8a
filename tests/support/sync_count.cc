#include "tests/support/sync_count.h"

#include <atomic>

#include <sys/syscall.h>
#include <unistd.h>

namespace {

std::atomic<int> syncs = 0;

}  // namespace

// An executable's functions come before those of the libraries that it loads.
extern "C" __attribute__((visibility("default"))) int fsync(int file) {
  ++syncs;
  return static_cast<int>(::syscall(SYS_fsync, file));
}
extern "C" __attribute__((visibility("default"))) int fdatasync(int file) {
  ++syncs;
  return static_cast<int>(::syscall(SYS_fdatasync, file));
}

namespace dtrain {

int SyncCount() { return syncs; }

}  // namespace dtrain
