#pragma once

#include <csignal>
#include <initializer_list>
#include <string>

#include "engine/os/unique_fd.h"

namespace dtrain {

/// Name of a signal, such as "SIGTERM".
std::string SignalName(int signal);

/// Blocks all signals in this thread, and in threads that it starts, until it
/// is destroyed. All threads but the main one are started under it, so only the
/// main thread handles signals.
class SignalsBlocked {
 public:
  SignalsBlocked();
  ~SignalsBlocked();
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

/// Blocks SIGINT, SIGTERM, SIGHUP and `more` in the calling thread and makes
/// them readable from a descriptor; ignores SIGPIPE and SIGXFSZ, so that a
/// failed write returns an error. The destructor restores the former
/// dispositions. REQUIRES: the process has no other thread yet.
class SignalWatch {
 public:
  /// Throws Error(kFailed).
  explicit SignalWatch(std::initializer_list<int> more = {});
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  /// Readable while a signal is pending.
  int fd() const { return fd_.get(); }
  /// Returns the next pending signal, or 0 if there is none.
  int Read();

 private:
  UniqueFd fd_;
  sigset_t old_mask_;
  struct sigaction old_pipe_ {};
  struct sigaction old_file_size_ {};
};

}  // namespace dtrain
