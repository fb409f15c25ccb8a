#include "engine/slots/slot_directory.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <system_error>

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/error.h"

namespace dtrain {
namespace {

[[noreturn]] void Fail(const std::string& path, const std::string& what) {
  throw Error(ErrorKind::kResources,
              path + ": " + what +
                  "; set DTRAIN_RUNTIME_DIR to a directory of your own on this "
                  "machine");
}

std::string Reason() { return std::generic_category().message(errno); }

// In a directory that others can write to, anybody could have made it first.
void RequirePrivate(int directory, const std::string& path) {
  struct stat status {};
  if (::fstat(directory, &status) != 0) Fail(path, Reason());
  if (status.st_uid != ::geteuid()) Fail(path, "belongs to another user");
  if ((status.st_mode & 0077) != 0 && ::fchmod(directory, 0700) != 0) {
    Fail(path, "is open to other users");
  }
}

}  // namespace

std::filesystem::path SlotDirectory::Path() {
  const auto named = [](const char* variable) -> std::string {
    const char* value = std::getenv(variable);
    return value == nullptr ? "" : value;
  };
  const std::string own = "dtrain-" + std::to_string(::geteuid());
  struct stat status {};
  if (const std::string given = named("DTRAIN_RUNTIME_DIR"); !given.empty()) {
    // One that is there and is for others too stays as it is.
    const bool is_shared =
        ::lstat(given.c_str(), &status) == 0 && S_ISDIR(status.st_mode) &&
        (status.st_uid != ::geteuid() || (status.st_mode & 0077) != 0);
    return is_shared ? given + "/" + own : given;
  }
  const std::string standard = "/var/tmp/" + own;
  const bool is_foreign =
      ::lstat(standard.c_str(), &status) == 0 && status.st_uid != ::geteuid();
  // A relative one is to be ignored, says the XDG Base Directory Specification.
  const std::string session = named("XDG_RUNTIME_DIR");
  return is_foreign && session.starts_with('/') ? session + "/" + own
                                                : standard;
}

SlotDirectory SlotDirectory::Open() {
  const std::string path = Path();
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    Fail(path, "cannot be made: " + Reason());
  }
  std::optional<SlotDirectory> directory = OpenExisting();
  if (!directory) Fail(path, "was removed");
  return *std::move(directory);
}

std::optional<SlotDirectory> SlotDirectory::OpenExisting() {
  const std::string path = Path();
  UniqueFd directory(
      ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!directory) {
    if (errno == ENOENT) return std::nullopt;
    if (errno == ENOTDIR || errno == ELOOP) Fail(path, "is no directory");
    Fail(path, "cannot be opened: " + Reason());
  }
  RequirePrivate(directory.get(), path);
  return SlotDirectory(std::move(directory));
}

UniqueFd SlotDirectory::OpenFile(const std::string& name) const {
  UniqueFd file(::openat(directory_.get(), name.c_str(),
                         O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file) Fail(Path() / name, "cannot be opened: " + Reason());
  return file;
}

UniqueFd SlotDirectory::OpenToRead(const std::string& name) const {
  return UniqueFd(::openat(directory_.get(), name.c_str(),
                           O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
}

void SlotDirectory::Remove(const std::string& name) const {
  ::unlinkat(directory_.get(), name.c_str(), 0);
}

std::vector<std::string> SlotDirectory::List(const std::string& prefix) const {
  std::vector<std::string> names;
  const UniqueFd directory(
      ::openat(directory_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(
      ::fdopendir(::dup(directory.get())), ::closedir);
  if (stream == nullptr) return names;
  while (const dirent* entry = ::readdir(stream.get())) {
    const std::string name = entry->d_name;
    if (name.starts_with(prefix)) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool TryLock(int file) { return ::flock(file, LOCK_EX | LOCK_NB) == 0; }

void WriteContent(int file, const std::string& text) {
  const bool emptied = ::ftruncate(file, 0) == 0;
  const ssize_t written = ::pwrite(file, text.data(), text.size(), 0);
  if (emptied && written != static_cast<ssize_t>(text.size())) {
    [[maybe_unused]] const int ignored = ::ftruncate(file, 0);
  }
}

std::string ReadContent(int file) {
  std::array<char, 16384> text{};
  const ssize_t size = ::pread(file, text.data(), text.size(), 0);
  return std::string(text.data(),
                     size > 0 ? static_cast<std::size_t>(size) : 0);
}

}  // namespace dtrain
