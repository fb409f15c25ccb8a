// Runners share slots without a server. Each slot is a file of the slot
// directory, and the flock on it is the slot: a trial's processes inherit the
// locked file, so the kernel frees the slot when the last of them is gone,
// however it died. Runners that find too few free slots queue: each has a
// ticket, a file "wait-N" with the slots that it could use, which it keeps
// locked while it lives. All changes are made under the lock of the file
// "queue". A runner takes slots when no older ticket that is still held, and
// whose time stamp is fresh, lists one of them.

#include "engine/slots/slot_directory.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/os/files.h"
#include "engine/os/system_error.h"

namespace dtrain {
namespace {

[[noreturn]] void Fail(const std::string& path, const std::string& what) {
  throw Error(ErrorKind::kResources,
              path + ": " + what +
                  "; set DTRAIN_RUNTIME_DIR to a directory of your own on this "
                  "machine");
}

}  // namespace

std::filesystem::path SlotDirectory::Path() {
  const auto named = [](const char* variable) -> std::string {
    const char* value = std::getenv(variable);
    return value == nullptr ? "" : value;
  };
  const std::string own = "dtrain-" + std::to_string(::geteuid());
  struct stat status {};
  if (const std::string configured = named("DTRAIN_RUNTIME_DIR");
      !configured.empty()) {
    // An existing directory that other users have access to is left as it is.
    const bool is_shared =
        ::lstat(configured.c_str(), &status) == 0 && S_ISDIR(status.st_mode) &&
        (status.st_uid != ::geteuid() || (status.st_mode & 0077) != 0);
    return is_shared ? configured + "/" + own : configured;
  }
  const std::string standard = "/var/tmp/" + own;
  const bool is_foreign =
      ::lstat(standard.c_str(), &status) == 0 && status.st_uid != ::geteuid();
  // The XDG Base Directory Specification says to ignore relative paths.
  const std::string session = named("XDG_RUNTIME_DIR");
  return is_foreign && session.starts_with('/') ? session + "/" + own
                                                : standard;
}

SlotDirectory SlotDirectory::Open() {
  const std::string path = Path();
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    Fail(path, "cannot be created: " + ErrnoText());
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
    if (errno == ENOTDIR || errno == ELOOP) Fail(path, "is not a directory");
    Fail(path, "cannot be opened: " + ErrnoText());
  }
  // In a directory that others can write to, another user may have created it.
  struct stat status {};
  if (::fstat(directory.get(), &status) != 0) Fail(path, ErrnoText());
  if (status.st_uid != ::geteuid()) Fail(path, "belongs to another user");
  if ((status.st_mode & 0077) != 0 && ::fchmod(directory.get(), 0700) != 0) {
    Fail(path, "is open to other users");
  }
  return SlotDirectory(std::move(directory));
}

UniqueFd SlotDirectory::OpenFile(const std::string& name) const {
  UniqueFd file(::openat(directory_.get(), name.c_str(),
                         O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file) Fail(Path() / name, "cannot be opened: " + ErrnoText());
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
  return ListNames(directory_.get(), prefix);
}

std::vector<std::string> ListNames(int of, const std::string& prefix) {
  std::vector<std::string> names;
  UniqueFd directory(::openat(of, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(directory.get()),
                                                   ::closedir);
  if (stream == nullptr) return names;
  directory.release();  // closedir closes it
  while (const dirent* entry = ::readdir(stream.get())) {
    const std::string name = entry->d_name;
    if (name.starts_with(prefix)) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

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

bool SlotFiles::TryLock(const std::string& name, FileLock::Mode mode) {
  FileLock& file = files_[name];
  struct stat status {};
  const bool is_removed =  // not the file that others lock
      file && (::fstat(file.fd(), &status) != 0 || status.st_nlink == 0);
  if (is_removed) file = FileLock();
  if (!file) file = FileLock(directory_.OpenFile(name));
  return file.TryLock(mode);
}

void SlotFiles::Unlock(const std::string& name) { files_.at(name).Unlock(); }

UniqueFd SlotFiles::Release(const std::string& name) {
  return files_.extract(name).mapped().Release();
}

namespace {

constexpr const char* kTicketPrefix = "wait-";

// A waiting runner tries again every half second; after this time without a try
// it is stopped or hangs.
constexpr Timestamp kSignOfLife = std::chrono::seconds(10);

}  // namespace

std::optional<FileLock> SlotQueue::Lock() const {
  FileLock file(directory_.OpenFile("queue"));
  if (!file.TryLock()) return std::nullopt;
  return file;
}

bool SlotQueue::IsMyTurn(const std::vector<std::string>& slots) const {
  for (const std::string& ticket : directory_.List(kTicketPrefix)) {
    if (ticket == name_) return true;
    FileLock file(directory_.OpenToRead(ticket));
    if (!file) continue;
    if (file.TryLock()) {
      directory_.Remove(ticket);  // Its holder is dead.
      continue;
    }
    struct stat status {};
    ::fstat(file.fd(), &status);
    if (clock_.now() - ModificationTime(status) > kSignOfLife) continue;
    const auto wanted = Split(ReadContent(file.fd()), '\n');
    if (std::ranges::find_first_of(wanted, slots) != wanted.end()) return false;
  }
  return true;
}

void SlotQueue::Wait(const std::vector<std::string>& slots,
                     const std::string& waiter) {
  const std::string content = Join(slots, "\n") + "\n" + waiter;
  if (ticket_) {
    ::futimens(ticket_.fd(), nullptr);
    if (content != content_) WriteContent(ticket_.fd(), content);
    content_ = content;
    return;
  }
  const std::vector<std::string> tickets = directory_.List(kTicketPrefix);
  std::int64_t last = 0;
  if (!tickets.empty()) {
    const std::string& ticket = tickets.back();
    const std::size_t prefix = std::string_view(kTicketPrefix).size();
    std::from_chars(ticket.data() + prefix, ticket.data() + ticket.size(),
                    last);
  }
  // The names sort as their numbers.
  std::array<char, 40> name{};
  std::snprintf(name.data(), name.size(), "%s%018lld", kTicketPrefix,
                static_cast<long long>(last + 1));
  name_ = name.data();
  ticket_ = FileLock(directory_.OpenFile(name_));
  // No other process can hold it: the number is new, and the queue is locked.
  [[maybe_unused]] const bool locked = ticket_.TryLock();
  WriteContent(ticket_.fd(), content);
  content_ = content;
}

std::vector<std::vector<std::string>> SlotQueue::Tickets() const {
  std::vector<std::vector<std::string>> tickets;
  for (const std::string& name : directory_.List(kTicketPrefix)) {
    FileLock file(directory_.OpenToRead(name));
    if (!file || file.TryLock()) continue;  // Its holder is dead.
    tickets.push_back(Split(ReadContent(file.fd()), '\n'));
  }
  return tickets;
}

void SlotQueue::Leave() {
  if (!ticket_) return;
  directory_.Remove(name_);
  name_.clear();
  ticket_ = FileLock();
}

}  // namespace dtrain
