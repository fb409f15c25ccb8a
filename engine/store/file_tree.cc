// Directories of the store: to create, measure and remove them. Removing one
// takes two steps, because a crash may come at any time: first it gets a trash
// name beside it, then its files are deleted. A directory under its usual name
// is thus never partly deleted, and what an interrupted removal left is known
// by its name: TrashIn finds it, and 'dtrain gc' deletes it.

#include "engine/store/file_tree.h"

#include <algorithm>
#include <cerrno>
#include <functional>
#include <map>
#include <string>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>

#include "engine/base/error.h"
#include "engine/os/system_error.h"
#include "engine/os/unique_fd.h"

namespace dtrain {
namespace {

[[noreturn]] void Fail(const std::filesystem::path& path, int error) {
  throw Error(ErrorKind::kStore,
              path.string() + ": cannot be created: " + ErrnoText(error) +
                  "; choose another place with --store");
}

// Makes the names in the directory durable.
void SyncNames(const std::filesystem::path& directory) {
  const UniqueFd open(::open(directory.empty() ? "." : directory.c_str(),
                             O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // A writable directory may be unreadable.
  if (!open && errno == EACCES) return;
  // Some file systems cannot sync directories.
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
  // On a read-only file system mkdir fails even if the directory exists.
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
  // An existing file is not opened: closing a database file drops the locks
  // that this process has on it.
  const UniqueFd created(
      ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!created && errno != EEXIST) Fail(file, errno);
  // A link may have been planted by another user.
  std::error_code ignored;
  if (std::filesystem::is_symlink(file, ignored)) Fail(file, ELOOP);
}

namespace {

namespace fs = std::filesystem;

[[noreturn]] void Fail(const fs::path& path, const std::error_code& error) {
  throw Error(ErrorKind::kFailed,
              path.string() + ": cannot be removed: " + error.message() +
                  "; check its permissions, then run 'dtrain gc'");
}

// Programs may make directories read-only, which prevents removal.
void MakeWritable(const fs::path& directory) {
  std::error_code error;
  if (!fs::is_directory(fs::symlink_status(directory, error))) return;
  fs::permissions(directory, fs::perms::owner_all, fs::perm_options::add,
                  error);
  for (const std::string& name : NamesIn(directory)) {
    MakeWritable(directory / name);
  }
}

void RemoveAll(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error == std::errc::permission_denied) {
    MakeWritable(path);
    fs::remove_all(path, error);
  }
  if (error) Fail(path, error);
}

// Calls `visit` with the status of the file `path`, or of each below it. Links
// are not followed.
void VisitFiles(const fs::path& path,
                const std::function<void(const struct stat&)>& visit) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) return;
  if (S_ISREG(status.st_mode)) return visit(status);
  if (!S_ISDIR(status.st_mode)) return;
  std::error_code error;
  fs::directory_iterator entry(path, error);
  for (const fs::directory_iterator end; !error && entry != end;
       entry.increment(error)) {
    VisitFiles(entry->path(), visit);
  }
}

}  // namespace

std::vector<std::string> NamesIn(const fs::path& directory) {
  std::vector<std::string> names;
  std::error_code error;
  if (!fs::is_directory(fs::symlink_status(directory, error))) return names;
  fs::directory_iterator entry(directory, error);
  for (const fs::directory_iterator end; !error && entry != end;
       entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

std::vector<fs::path> TrashIn(const fs::path& directory) {
  std::vector<fs::path> trash;
  for (const std::string& name : NamesIn(directory)) {
    if (name.ends_with(kTrashSuffix)) trash.push_back(directory / name);
  }
  return trash;
}

std::int64_t TreeBytes(const fs::path& path) {
  std::int64_t bytes = 0;
  VisitFiles(path, [&](const struct stat& file) { bytes += file.st_size; });
  return bytes;
}

std::int64_t FreeableBytes(const fs::path& path) {
  // A file counts once all its links were seen.
  std::map<std::pair<dev_t, ino_t>, nlink_t> seen;
  std::int64_t bytes = 0;
  VisitFiles(path, [&](const struct stat& file) {
    const nlink_t links = ++seen[{file.st_dev, file.st_ino}];
    if (links == file.st_nlink) bytes += file.st_size;
  });
  return bytes;
}

std::int64_t RemoveTree(const fs::path& path) {
  std::error_code error;
  fs::path trash = path;
  if (!path.filename().string().ends_with(kTrashSuffix)) {
    trash += kTrashSuffix;
    RemoveAll(trash);  // an earlier attempt
  }
  if (!fs::exists(fs::symlink_status(path, error))) return 0;
  const std::int64_t bytes = FreeableBytes(path);
  if (trash != path) {
    fs::rename(path, trash, error);
    if (error) Fail(path, error);
  }
  RemoveAll(trash);
  return bytes;
}

}  // namespace dtrain
