#pragma once

#include <csignal>

#include "engine/os/unique_fd.h"

namespace dtrain {

/// Blocks SIGINT, SIGTERM and SIGHUP in the calling thread and makes them
/// readable; ignores SIGPIPE and SIGXFSZ, so that a failed write says so
/// itself. The destructor puts all back. REQUIRES: no other thread yet.
class SignalWatch {
 public:
  /// Throws Error(kFailed).
  SignalWatch();
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  int fd() const { return fd_.get(); }
  /// The next signal, or 0 if there is none.
  int Read();

 private:
  UniqueFd fd_;
  sigset_t old_mask_;
  struct sigaction old_pipe_ {};
  struct sigaction old_file_size_ {};
};

}  // namespace dtrain
