#include "engine/fetch/fetch_lock.h"

#include <cerrno>
#include <chrono>
#include <system_error>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>

#include "engine/base/error.h"
#include "engine/base/text.h"

namespace dtrain {

FetchLock::FetchLock(std::filesystem::path path)
    : path_(std::move(path)),
      file_(::open(path_.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC,
                   0666)) {
  if (!file_) FailWriting(path_, errno);
}

bool FetchLock::Try() const {
  while (::flock(file_.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return false;
    if (errno == EINTR) continue;
    throw Error(ErrorKind::kFailed,
                EscapeForTerminal(path_.string()) + ": cannot be locked: " +
                    std::generic_category().message(errno) +
                    "; fetch into a directory of another file system with "
                    "--to");
  }
  return true;
}

FetchLock::Got FetchLock::Acquire(const FetchListener& listener) {
  if (Try()) return Got::kAtOnce;
  if (listener.say) {
    listener.say("another dtrain fetches it right now; waiting for it");
  }
  while (!Try()) {
    if (listener.Stops()) return Got::kNot;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return Got::kAfterWaiting;
}

}  // namespace dtrain
