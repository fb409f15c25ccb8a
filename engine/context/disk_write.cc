#include "engine/context/disk_write.h"

#include <cerrno>
#include <system_error>

#include <fcntl.h>
#include <unistd.h>

#include "engine/base/error.h"
#include "engine/base/unique_fd.h"

namespace dtrain {

void CannotWrite(const std::filesystem::path& path, int error) {
  const bool full = error == ENOSPC || error == EDQUOT;
  throw Error(
      full ? ErrorKind::kDiskFull : ErrorKind::kStore,
      path.string() +
          ": cannot be written: " + std::generic_category().message(error) +
          (full ? "; free some space there" : "; check who may write there"));
}

void WriteBytes(int fd, std::span<const std::byte> bytes,
                const std::filesystem::path& path) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(fd, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) CannotWrite(path, count < 0 ? errno : EIO);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

void SyncFile(int fd, const std::filesystem::path& path) {
  // Never tried again: a second try would succeed though the data is lost.
  if (::fsync(fd) != 0) CannotWrite(path, errno);
}

void SyncDirectory(const std::filesystem::path& path) {
  const UniqueFd directory(
      ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (!directory) CannotWrite(path, errno);
  SyncFile(directory.get(), path);
}

}  // namespace dtrain
