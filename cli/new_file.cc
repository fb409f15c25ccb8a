#include "cli/new_file.h"

#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/error.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void RefuseExisting(const fs::path& path) {
  throw Error(ErrorKind::kUsage,
              "--out: '" + path.string() +
                  "' is there already; name another file, or replace it with "
                  "--force");
}

}  // namespace

NewFile::NewFile(fs::path path, bool replace)
    : path_(std::move(path)),
      temporary_(path_.string() + "." + std::to_string(::getpid()) + ".tmp"),
      replace_(replace) {
  RequireAbsent();
  file_.reset(::open(temporary_.c_str(),
                     O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
                     0666));
  if (!file_) Fail(errno);
}

NewFile::~NewFile() {
  if (file_) ::unlink(temporary_.c_str());
}

void NewFile::Fail(int error) const {
  const char* remedy = error == ENOSPC || error == EDQUOT
                           ? "free some space there, or name a file elsewhere"
                           : "name a file in a directory that is yours";
  throw Error(ErrorKind::kFailed,
              "--out: cannot write '" + path_.string() + "': " +
                  std::generic_category().message(error) + "; " + remedy);
}

void NewFile::RequireAbsent() const {
  struct stat status {};
  if (::lstat(path_.c_str(), &status) != 0) return;
  if (!replace_) RefuseExisting(path_);
  if (S_ISREG(status.st_mode)) return;
  throw Error(ErrorKind::kUsage, "--out: '" + path_.string() +
                                     "' is there and no plain file, so it is "
                                     "not replaced; name another");
}

void NewFile::Write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(file_.get(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) Fail(count < 0 ? errno : EIO);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    bytes_ += count;
  }
}

void NewFile::Keep() {
  if (::fsync(file_.get()) != 0) Fail(errno);
  const unsigned flags = replace_ ? 0U : RENAME_NOREPLACE;
  if (::renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, path_.c_str(),
                  flags) != 0) {
    if (errno == EEXIST) RefuseExisting(path_);
    // Some file systems know no flags.
    if (errno != EINVAL || flags == 0) Fail(errno);
    RequireAbsent();
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) Fail(errno);
  }
  file_.reset();
  const fs::path parent = path_.parent_path();
  const UniqueFd directory(::open(parent.empty() ? "." : parent.c_str(),
                                  O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory) static_cast<void>(::fsync(directory.get()));
}

}  // namespace dtrain
