#include "engine/store/write_lock.h"

#include <cerrno>
#include <chrono>
#include <system_error>
#include <thread>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "engine/base/error.h"
#include "engine/base/host_name.h"
#include "engine/base/text.h"

namespace dtrain {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr std::size_t kNoteSize = 128;
constexpr seconds kPatience{30};

[[noreturn]] void Fail(const std::filesystem::path& path, int error) {
  throw Error(ErrorKind::kStore, "store " + path.parent_path().string() +
                                     ": cannot lock it for writing: " +
                                     std::generic_category().message(error) +
                                     "; choose another with --store");
}

// Padded to one length, so that a shorter note leaves nothing of a longer one.
std::string Note() {
  std::string note =
      "pid " + std::to_string(::getpid()) + " on " + HostName().substr(0, 64);
  note.resize(kNoteSize - 1, ' ');
  return note + '\n';
}

}  // namespace

WriteLock::WriteLock(std::filesystem::path path)
    : path_(std::move(path)),
      note_(Note()),
      file_(::open(path_.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC,
                   0600)) {
  if (!file_) Fail(path_, errno);
}

bool WriteLock::TryAcquire() {
  while (::flock(file_.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return false;
    if (errno != EINTR) Fail(path_, errno);
  }
  // The note only serves a message, so a full disk is no reason to give up.
  if (::pwrite(file_.get(), note_.data(), note_.size(), 0) < 0) errno = 0;
  return true;
}

void WriteLock::Acquire() {
  const auto deadline = steady_clock::now() + kPatience;
  while (!TryAcquire()) {
    if (steady_clock::now() >= deadline) {
      throw Error(ErrorKind::kStore,
                  "store " + path_.parent_path().string() +
                      ": has been held for writing by " + Holder() +
                      " for 30 s; see what that process does, then try again");
    }
    std::this_thread::sleep_for(milliseconds(1));
  }
}

void WriteLock::Release() { ::flock(file_.get(), LOCK_UN); }

std::string WriteLock::Holder() const {
  std::string note(kNoteSize, '\0');
  const ssize_t size = ::pread(file_.get(), note.data(), note.size(), 0);
  note.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  note.erase(note.find_last_not_of(" \n") + 1);
  return note.empty() ? "another process" : EscapeForTerminal(note);
}

}  // namespace dtrain
