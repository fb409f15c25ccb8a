#include "engine/os/signals.h"

#include <cstring>

#include <sys/signalfd.h>
#include <unistd.h>

#include "engine/os/system_error.h"

namespace dtrain {

std::string SignalName(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name == nullptr ? "signal " + std::to_string(signal)
                         : "SIG" + std::string(name);
}

SignalsBlocked::SignalsBlocked() {
  sigset_t all;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before_);
}

SignalsBlocked::~SignalsBlocked() {
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

SignalWatch::SignalWatch(std::initializer_list<int> more) {
  sigset_t watched;
  sigemptyset(&watched);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    sigaddset(&watched, signal);
  }
  for (const int signal : more) sigaddset(&watched, signal);
  fd_.reset(::signalfd(-1, &watched, SFD_NONBLOCK | SFD_CLOEXEC));
  if (!fd_) ThrowSystemError("watch for signals");
  ::sigprocmask(SIG_BLOCK, &watched, &old_mask_);
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &ignore, &old_pipe_);
  ::sigaction(SIGXFSZ, &ignore, &old_file_size_);
  // If SIGCHLD is ignored, as some shells leave it, the kernel reaps children
  // itself and their exit codes are lost.
  std::signal(SIGCHLD, SIG_DFL);
}

SignalWatch::~SignalWatch() {
  ::sigaction(SIGPIPE, &old_pipe_, nullptr);
  ::sigaction(SIGXFSZ, &old_file_size_, nullptr);
  ::sigprocmask(SIG_SETMASK, &old_mask_, nullptr);
}

int SignalWatch::Read() {
  signalfd_siginfo info{};
  const ssize_t size = ::read(fd_.get(), &info, sizeof(info));
  return size == sizeof(info) ? static_cast<int>(info.ssi_signo) : 0;
}

}  // namespace dtrain
