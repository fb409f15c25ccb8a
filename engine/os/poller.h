#pragma once

#include <cstdint>
#include <vector>

#include "engine/base/clock.h"
#include "engine/os/unique_fd.h"

namespace dtrain {

/// Waits for many descriptors at once (epoll). Each has a token, a number
/// chosen by the caller. One thread.
class Poller {
 public:
  struct Ready {
    std::uint64_t token = 0;
    bool readable = false;  // also at the end of a stream, and on an error
    bool writable = false;
  };

  /// Throws Error(kFailed).
  Poller();

  /// Readable while a watched descriptor is ready: for another poller.
  int fd() const { return epoll_.get(); }

  /// Watches `fd` for reading; remove it before closing it. Throws
  /// Error(kFailed).
  void Add(int fd, std::uint64_t token);
  /// Starts or stops watching `fd` for writing, too.
  void WatchForWrite(int fd, std::uint64_t token, bool enabled);
  /// Does nothing if `fd` is not watched.
  void Remove(int fd);

  /// Returns the ready descriptors; waits up to `timeout` for the first.
  std::vector<Ready> Wait(Duration timeout);

 private:
  UniqueFd epoll_;
};

}  // namespace dtrain
