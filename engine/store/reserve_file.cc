#include "engine/store/reserve_file.h"

#include <cerrno>
#include <system_error>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/os/unique_fd.h"

namespace dtrain {
namespace {

// Enough for the pages that a last transaction touches, in the write-ahead log
// and in the database.
constexpr off_t kBytes = 1 << 20;

bool IsWhole(int file) {
  struct stat status {};
  return ::fstat(file, &status) == 0 && status.st_size >= kBytes;
}

}  // namespace

void KeepReserve(const StoreLayout& layout) {
  const std::string path = layout.Reserve().string();
  const UniqueFd file(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  // A reserve that cannot be had for another reason is no reason not to run.
  int error = errno;
  if (file) {
    if (IsWhole(file.get())) return;
    error = ::posix_fallocate(file.get(), 0, kBytes);
  }
  if (error != ENOSPC && error != EDQUOT) return;
  ::unlink(path.c_str());
  throw Error(ErrorKind::kDiskFull,
              "store " + layout.root().string() + ": " +
                  std::generic_category().message(error) +
                  ", not even for a reserve of " + FormatBytes(kBytes) +
                  "; free some space, then go on with `dtrain resume`");
}

bool GiveUpReserve(const StoreLayout& layout) {
  return ::unlink(layout.Reserve().c_str()) == 0;
}

}  // namespace dtrain
