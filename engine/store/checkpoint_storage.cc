// checkpoint_storage names a directory outside the store, perhaps one that
// several stores use. In it each store has a directory named by its UUID, with
// a file "store" that names the store. A copied store has the same UUID as the
// original; the file shows which of them owns the directory, and the other one
// may neither write nor delete there. A store that was moved takes it over,
// since at the old path there is no store with its UUID any more.

#include "engine/store/checkpoint_storage.h"

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "engine/base/text.h"
#include "engine/os/files.h"
#include "engine/os/system_error.h"
#include "engine/os/unique_fd.h"
#include "engine/store/file_tree.h"
#include "engine/store/store.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMinSpace = std::uint64_t{1} << 20;

// True if other users may rename and replace its entries.
bool IsOpenToOthers(const struct stat& status) {
  return (status.st_mode & (S_IWGRP | S_IWOTH)) != 0 &&
         (status.st_mode & S_ISVTX) == 0;
}

// Returns why the path cannot name a directory for checkpoints, as text; empty
// if it can.
std::string PathProblem(const fs::path& directory) {
  struct stat status {};
  if (::stat(directory.c_str(), &status) != 0) {
    const std::string why = errno == ENOENT ? "does not exist" : ErrnoText();
    return why + "; create it (mkdir), or mount it";
  }
  if (!S_ISDIR(status.st_mode)) {
    return "is not a directory; name a directory";
  }
  struct statfs kind {};
  if (::statfs(directory.c_str(), &kind) == 0 && IsKernelFileSystem(kind)) {
    return "is a kernel file system; name a directory on a disk";
  }
  if (!IsOwnUser(status.st_uid) && status.st_uid != 0) {
    return "belongs to another user (uid " + std::to_string(status.st_uid) +
           "), who could replace checkpoints; name a directory of your own";
  }
  if (IsOpenToOthers(status)) {
    return "others may write to it and replace checkpoints; 'chmod go-w "
           "DIRECTORY' or 'chmod +t DIRECTORY' prevents that";
  }
  return "";
}

std::optional<StorageProblem> FindProblem(const fs::path& directory) {
  const std::string start = directory.string() + ": ";
  if (const auto why = PathProblem(directory); !why.empty()) {
    return StorageProblem{ErrorKind::kUsage, start + why};
  }
  if (::faccessat(AT_FDCWD, directory.c_str(), W_OK | X_OK, AT_EACCESS) != 0) {
    return StorageProblem{ErrorKind::kStore,
                          start + "cannot be written to: " + ErrnoText() +
                              "; check who may write there, or name another"};
  }
  struct statvfs system {};
  const bool is_known =
      ::statvfs(directory.c_str(), &system) == 0 && system.f_blocks > 0;
  if (is_known && (system.f_bavail * system.f_frsize < kMinSpace ||
                   (system.f_files > 0 && system.f_favail == 0))) {
    return StorageProblem{
        ErrorKind::kDiskFull,
        start + "has no space left; free some there, or name another"};
  }
  return std::nullopt;
}

// True if it was created, false if it exists.
bool MakeOne(const fs::path& directory) {
  if (::mkdir(directory.c_str(), 0700) == 0) {
    SyncDirectory(directory.parent_path());
    return true;
  }
  const int error = errno;
  if (error == EEXIST) return false;
  const bool full = error == ENOSPC || error == EDQUOT;
  throw Error(
      full ? ErrorKind::kDiskFull : ErrorKind::kStore,
      "checkpoint_storage: " + directory.string() +
          ": cannot be created: " + ErrnoText(error) +
          (full ? "; free some space there" : "; check who may write there"));
}

fs::path CanonicalRoot(const Store& store) {
  std::error_code error;
  const fs::path root = fs::canonical(store.layout().root(), error);
  return error ? fs::absolute(store.layout().root()) : root;
}

// Returns the path of the store that claimed `root`; empty if none has.
std::string ReadOwner(const fs::path& root) {
  std::ifstream file(root / kStorageOwnerFile);
  std::string owner;
  std::getline(file, owner);
  return owner;
}

// True if another store with the UUID of `store` is at `path`. A store that
// cannot be read may have it.
bool IsSameStore(const Store& store, const fs::path& path) {
  const StoreLayout other(path);
  std::error_code error;
  if (!fs::exists(other.Database(), error) ||
      fs::equivalent(other.Database(), store.layout().Database(), error)) {
    return false;
  }
  try {
    return Store::OpenForReading(other).uuid() == store.uuid();
  } catch (const Error&) {
    return true;
  }
}

// Returns the directories from `base` down to `path`, both included.
std::vector<fs::path> Levels(const fs::path& base, const fs::path& path) {
  std::vector<fs::path> levels = {base};
  const fs::path inner = path.lexically_relative(base);
  if (inner.empty() || inner == ".") return levels;
  for (const fs::path& name : inner) levels.push_back(levels.back() / name);
  return levels;
}

}  // namespace

std::optional<StorageProblem> FindStorageProblem(const fs::path& base,
                                                 const fs::path& path) {
  std::optional<StorageProblem> problem;
  for (const fs::path& level : Levels(base, path)) {
    struct stat status {};
    const bool missing =
        ::lstat(level.c_str(), &status) != 0 && errno == ENOENT;
    if (missing && level != base) break;  // will be created in the parent
    if (level != base && S_ISLNK(status.st_mode)) {
      return StorageProblem{ErrorKind::kUsage,
                            level.string() +
                                ": is a link, which leads out of host_path; "
                                "name the directory itself"};
    }
    problem = FindProblem(level);
    // Nothing is written into the parents of the last existing directory.
    if (problem && problem->kind == ErrorKind::kUsage) break;
  }
  return problem;
}

fs::path MakeStorage(const fs::path& base, const fs::path& path,
                     const Store& store, std::int64_t experiment) {
  for (const fs::path& level : Levels(base, path)) {
    if (level != base) MakeOne(level);
  }
  const fs::path root = path / store.uuid();
  MakeOne(root);
  if (!IsOwnDirectory(root)) {
    throw Error(ErrorKind::kStore,
                "checkpoint_storage: " + root.string() +
                    ": is not a directory of this user alone, so others could "
                    "replace checkpoints; move it away");
  }
  if (const auto why = StorageOwnerProblem(store, root); !why.empty()) {
    throw Error(ErrorKind::kStore, why);
  }
  ClaimStorage(store, root);
  const fs::path made = root / std::to_string(experiment);
  if (!MakeOne(made) && (!IsOwnDirectory(made) || !NamesIn(made).empty())) {
    throw Error(ErrorKind::kStore,
                "checkpoint_storage: " + made.string() +
                    ": already exists, of an experiment that is not in this "
                    "database; move it away");
  }
  return made;
}

std::string StorageOwnerProblem(const Store& store, const fs::path& root) {
  const std::string owner = ReadOwner(root);
  const fs::path here = CanonicalRoot(store);
  if (owner.empty() || owner == here || !IsSameStore(store, owner)) return "";
  return "checkpoint_storage: " + root.string() +
         ": has the checkpoints of the store " + owner +
         ", which has the UUID of " + here.string() +
         ": one is a copy of the other, and each would delete the checkpoints "
         "of "
         "the other; use that one (--store " +
         QuotePathForShell(owner) + "), or move it away";
}

void ClaimStorage(const Store& store, const fs::path& root) {
  const std::string here = CanonicalRoot(store).string();
  if (ReadOwner(root) == here) return;
  WriteFileDurably(root / kStorageOwnerFile, here + "\n");
}

bool IsOwnDirectory(const fs::path& directory) {
  struct stat status {};
  return ::lstat(directory.c_str(), &status) == 0 && S_ISDIR(status.st_mode) &&
         IsOwnUser(status.st_uid) &&
         (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

std::string StorageFailure(const fs::path& directory) {
  const std::string start = "checkpoint_storage: " + directory.string() + ": ";
  struct stat status {};
  if (::lstat(directory.c_str(), &status) != 0) {
    return start + (errno == ENOENT ? "no longer exists" : ErrnoText()) +
           "; mount it or restore it";
  }
  if (!IsOwnDirectory(directory) || !IsOwnDirectory(directory.parent_path())) {
    return start + "is no longer a directory of this user alone; restore it";
  }
  if (::faccessat(AT_FDCWD, directory.c_str(), W_OK | X_OK, AT_EACCESS) != 0) {
    return start + "cannot be written to: " + ErrnoText() +
           "; check who may write there";
  }
  return "";
}

}  // namespace dtrain
