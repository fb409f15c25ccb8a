// Files of a fetch (fetch_set.cc has their places and the order of the steps).
// A PartFile only grows, so a later run continues where the last one ended.
// Place puts a whole directory in its final place by one rename if nothing is
// there, and otherwise file by file, each by a rename. Names are synced in
// either case; the contents are synced before, by SyncFileSystem.

#include "engine/fetch/fetch_files.h"

#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/os/sha256.h"
#include "engine/os/system_error.h"
#include "engine/os/unique_fd.h"

namespace dtrain {
namespace {

constexpr std::size_t kPiece = std::size_t{1} << 20;

[[noreturn]] void FailReading(const std::filesystem::path& path, int error) {
  throw Error(ErrorKind::kFailed, EscapeForTerminal(path.string()) +
                                      ": cannot be read: " + ErrnoText(error) +
                                      "; check the path and its permissions");
}

}  // namespace

void FailWriting(const std::filesystem::path& path, int error) {
  const bool full = error == ENOSPC || error == EDQUOT;
  throw Error(full ? ErrorKind::kDiskFull : ErrorKind::kFailed,
              EscapeForTerminal(path.string()) +
                  ": cannot be written: " + ErrnoText(error) +
                  (full ? "; free some space and run the command again, which "
                          "resumes it, or choose another directory with --to"
                        : "; check its permissions, or choose another "
                          "directory with --to"));
}

PartFile::PartFile(std::filesystem::path path)
    : path_(std::move(path)),
      file_(::open(path_.c_str(),
                   O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW,
                   0666)) {
  struct stat status {};
  if (!file_ || ::fstat(file_.get(), &status) != 0) FailWriting(path_, errno);
  size_ = status.st_size;
}

int PartFile::Append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(file_.get(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return count < 0 ? errno : EIO;
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    size_ += count;
  }
  return 0;
}

void PartFile::Clear() {
  if (::ftruncate(file_.get(), 0) != 0) FailWriting(path_, errno);
  size_ = 0;
}

void PartFile::Sync() {
  if (::fsync(file_.get()) != 0) FailWriting(path_, errno);
}

std::optional<std::string> FileSha256(const std::filesystem::path& path,
                                      const std::function<bool()>& stop) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) FailReading(path, errno);
  Sha256 sha;
  std::vector<std::byte> piece(kPiece);
  while (true) {
    if (stop && stop()) return std::nullopt;
    const ssize_t count = ::read(file.get(), piece.data(), piece.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) FailReading(path, errno);
    if (count == 0) return sha.Finish();
    sha.Update(std::span(piece).first(static_cast<std::size_t>(count)));
  }
}

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

// Moves the files into `to`, a directory that exists.
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
  // For a link to a directory the call above fails, but it will do.
  if (error && !fs::is_directory(path)) FailWriting(path, error.value());
}

void MakeOwnDirectory(const fs::path& path) {
  std::error_code error;
  fs::create_directory(path, error);
  if (error) FailWriting(path, error.value());
  if (fs::is_directory(fs::symlink_status(path, error))) return;
  throw Error(ErrorKind::kFailed, EscapeForTerminal(path.string()) +
                                      ": exists and is not a directory; "
                                      "remove it and retry");
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
                  " are free there; free some space, or choose another "
                  "directory with --to");
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
