#pragma once

#include <cstdint>
#include <vector>

#include "engine/base/clock.h"
#include "engine/os/unique_fd.h"

namespace dtrain {

/// Waits for many descriptors at once. Each is known by a number that its user
/// chose. One thread.
class Poller {
 public:
  struct Ready {
    std::uint64_t token = 0;
    bool readable = false;  // also at the end of a stream, and on an error
    bool writable = false;
  };

  /// Throws Error(kFailed).
  Poller();

  /// Readable while one that is watched is ready: for another poller.
  int fd() const { return epoll_.get(); }

  /// Watches `fd`, which is to be removed before it is closed. Throws
  /// Error(kFailed).
  void Add(int fd, std::uint64_t token);
  /// Whether `fd` is watched for room to write, too.
  void WantWrite(int fd, std::uint64_t token, bool wanted);
  /// Does nothing if `fd` is not watched.
  void Remove(int fd);

  /// Those that are ready, waiting up to `timeout` for the first.
  std::vector<Ready> Wait(Duration timeout);

 private:
  UniqueFd epoll_;
};

}  // namespace dtrain
