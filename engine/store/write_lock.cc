// Who writes to a store. The lock is an flock on a file beside the database;
// the text in the file, its last writer, serves messages only and may be out of
// date. The holder is therefore looked up in the kernel's list, /proc/locks, by
// device and inode, and the text only adds what the list cannot know.
//
// DatabaseHolder must not open the database: closing any descriptor of a file
// drops all POSIX locks that this process has on it, and these are SQLite's
// locks.

#include "engine/store/write_lock.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <fstream>
#include <optional>
#include <sstream>
#include <thread>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/os/process.h"
#include "engine/os/system_error.h"

namespace dtrain {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr std::size_t kNoteSize = 128;
constexpr seconds kPatience{30};

[[noreturn]] void Fail(const std::filesystem::path& path, int error) {
  throw Error(ErrorKind::kStore,
              "store " + path.parent_path().string() +
                  ": cannot lock it for writing: " + ErrnoText(error) +
                  "; choose another with --store");
}

std::string Named(pid_t pid) {
  return "pid " + std::to_string(pid) + " on " + HostName().substr(0, 64);
}

// The living process that /proc/locks lists with a lock of `kind` ("FLOCK",
// "POSIX") for writing on the file; not this one where `others` only.
std::optional<pid_t> LockOwner(const struct stat& file, std::string_view kind,
                               bool others) {
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    // "7: POSIX  ADVISORY  WRITE 4711 fe:01:131105 120 120"; "7: -> …" waits.
    std::istringstream words(line);
    std::string number, type, advice, access;
    pid_t pid = 0;
    unsigned int device_major = 0, device_minor = 0;
    ino_t inode = 0;
    char colon = 0;
    words >> number >> type >> advice >> access >> pid >> std::hex >>
        device_major >> colon >> device_minor >> colon >> std::dec >> inode;
    const bool matches = words && type == kind && access == "WRITE" &&
                         inode == file.st_ino &&
                         device_major == major(file.st_dev) &&
                         device_minor == minor(file.st_dev);
    if (!matches || pid <= 0 || (others && pid == ::getpid())) continue;
    if (::kill(pid, 0) == 0 || errno != ESRCH) return pid;
  }
  return std::nullopt;
}

}  // namespace

WriteLock::WriteLock(std::filesystem::path path)
    : path_(std::move(path)),
      note_(Named(::getpid())),
      file_(FileLock::Open(path_)) {
  // Padded to a fixed length, so that a shorter note overwrites a longer one.
  note_.resize(kNoteSize - 1, ' ');
  note_ += '\n';
  if (!file_) Fail(path_, errno);
}

bool WriteLock::TryAcquire() {
  if (!file_.TryLock()) {
    if (errno == EWOULDBLOCK) return false;
    Fail(path_, errno);
  }
  // The note only serves a message, so a full disk is no reason to give up.
  if (::pwrite(file_.fd(), note_.data(), note_.size(), 0) < 0) errno = 0;
  return true;
}

void WriteLock::Acquire() {
  const auto deadline = steady_clock::now() + kPatience;
  while (!TryAcquire()) {
    if (steady_clock::now() >= deadline) {
      throw Error(ErrorKind::kStore,
                  "store " + path_.parent_path().string() +
                      ": has been held for writing by " + Holder() +
                      " for 30 s; check that process, then try again");
    }
    std::this_thread::sleep_for(milliseconds(1));
  }
}

void WriteLock::Release() { file_.Unlock(); }

std::string WriteLock::Holder() const {
  struct stat status {};
  if (::fstat(file_.fd(), &status) == 0) {
    const auto pid = LockOwner(status, "FLOCK", /*others=*/false);
    if (pid) return Named(*pid);
  }
  std::string note(kNoteSize, '\0');
  const ssize_t size = ::pread(file_.fd(), note.data(), note.size(), 0);
  note.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  note.erase(note.find_last_not_of(" \n") + 1);
  return "a process that cannot be seen from here" +
         (note.empty()
              ? ""
              : " (the last that wrote was " + EscapeForTerminal(note) + ")");
}

std::optional<std::string> DatabaseHolder(const std::filesystem::path& path) {
  for (const char* suffix : {"-shm", ""}) {
    struct stat status {};
    // Opened and closed it would lose the locks that SQLite has on it here.
    if (::stat((path.string() + suffix).c_str(), &status) != 0) continue;
    const auto pid = LockOwner(status, "POSIX", /*others=*/true);
    if (pid) return Named(*pid);
  }
  return std::nullopt;
}

}  // namespace dtrain
