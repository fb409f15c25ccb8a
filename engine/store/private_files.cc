#include "engine/store/private_files.h"

#include <cerrno>
#include <string>
#include <system_error>

#include <fcntl.h>
#include <sys/stat.h>

#include "engine/base/error.h"
#include "engine/os/unique_fd.h"

namespace dtrain {
namespace {

[[noreturn]] void Fail(const std::filesystem::path& path, int error) {
  throw Error(ErrorKind::kStore, path.string() + ": cannot be created: " +
                                     std::generic_category().message(error) +
                                     "; choose another place with --store");
}

// Has on the disk which names the directory has.
void SyncNames(const std::filesystem::path& directory) {
  const UniqueFd open(::open(directory.empty() ? "." : directory.c_str(),
                             O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // A directory that may be written to need not be readable.
  if (!open && errno == EACCES) return;
  // Some file systems sync no directories.
  if (open && (::fsync(open.get()) == 0 || errno == EINVAL)) return;
  Fail(directory, errno);
}

void MakeDirectories(const std::filesystem::path& directory, bool durable) {
  if (::mkdir(directory.c_str(), 0700) == 0) {
    if (durable) SyncNames(directory.parent_path());
    return;
  }
  const int error = errno;
  if (error == ENOENT && directory.has_parent_path() &&
      directory.parent_path() != directory) {
    MakeDirectories(directory.parent_path(), durable);
    if (::mkdir(directory.c_str(), 0700) == 0) {
      if (durable) SyncNames(directory.parent_path());
      return;
    }
    if (errno == EEXIST) return;
    Fail(directory, errno);
  }
  // A read-only place says so even of a directory that exists.
  std::error_code ignored;
  if (std::filesystem::is_directory(directory, ignored)) return;
  Fail(directory, error);
}

}  // namespace

void MakePrivateDirectories(const std::filesystem::path& directory) {
  MakeDirectories(directory, /*durable=*/false);
}

void MakeDurableDirectories(const std::filesystem::path& directory) {
  MakeDirectories(directory, /*durable=*/true);
}

void MakePrivateFile(const std::filesystem::path& file) {
  // Never opens a file that is there: closing a database file drops the locks
  // that this process has on it.
  const UniqueFd created(
      ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!created && errno != EEXIST) Fail(file, errno);
  // What a planted link leads to is not ours to write to.
  std::error_code ignored;
  if (std::filesystem::is_symlink(file, ignored)) Fail(file, ELOOP);
}

}  // namespace dtrain
