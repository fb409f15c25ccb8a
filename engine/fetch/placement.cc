#include "engine/fetch/placement.h"

#include <cerrno>
#include <cstdio>
#include <system_error>

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/fetch/part_file.h"
#include "engine/os/unique_fd.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

UniqueFd OpenDirectory(const fs::path& path) {
  UniqueFd directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory) FailWriting(path, errno);
  return directory;
}

void Rename(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) FailWriting(to, errno);
}

// Into a directory that is there.
void Merge(const fs::path& from, const fs::path& to) {
  for (const fs::directory_entry& entry : fs::directory_iterator(from)) {
    const fs::path target = to / entry.path().filename();
    if (entry.is_directory()) {
      MakeDirectories(target);
      Merge(entry.path(), target);
    } else {
      Rename(entry.path(), target);
    }
  }
  if (::fsync(OpenDirectory(to).get()) != 0) FailWriting(to, errno);
}

}  // namespace

void MakeDirectories(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  // A link to a directory is fine, and no success to the call above.
  if (error && !fs::is_directory(path)) FailWriting(path, error.value());
}

void MakeOwnDirectory(const fs::path& path) {
  std::error_code error;
  fs::create_directory(path, error);
  if (error) FailWriting(path, error.value());
  if (fs::is_directory(fs::symlink_status(path, error))) return;
  throw Error(ErrorKind::kFailed, EscapeForTerminal(path.string()) +
                                      ": is in the way and no directory; "
                                      "remove it, then say the same again");
}

void RequireSpace(const fs::path& path, std::int64_t bytes) {
  struct statvfs system {};
  if (::statvfs(path.c_str(), &system) != 0) FailWriting(path, errno);
  const auto free = static_cast<std::int64_t>(system.f_bavail) *
                    static_cast<std::int64_t>(system.f_frsize);
  if (free >= bytes) return;
  throw Error(ErrorKind::kDiskFull,
              EscapeForTerminal(path.string()) + ": needs " +
                  FormatBytes(bytes) + ", only " + FormatBytes(free) +
                  " are free there; free some space, or go elsewhere with "
                  "--to");
}

void SyncFileSystem(const fs::path& directory) {
  if (::syncfs(OpenDirectory(directory).get()) != 0) {
    FailWriting(directory, errno);
  }
}

void Place(const fs::path& from, const fs::path& to) {
  std::error_code error;
  if (fs::is_directory(to, error)) {
    Merge(from, to);
    return;
  }
  Rename(from, to);
  const fs::path parent = to.parent_path();
  if (::fsync(OpenDirectory(parent).get()) != 0) FailWriting(parent, errno);
}

}  // namespace dtrain
