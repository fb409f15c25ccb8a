#include "engine/os/signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include "engine/os/system_error.h"

namespace dtrain {

// sigabbrev_np(3) is newer than some of the C libraries that dtrain runs with.
std::string SignalName(int signal) {
  struct Row {
    int signal;
    const char* name;
  };
  constexpr Row kNames[] = {
      {SIGHUP, "SIGHUP"},       {SIGINT, "SIGINT"},       {SIGQUIT, "SIGQUIT"},
      {SIGILL, "SIGILL"},       {SIGTRAP, "SIGTRAP"},     {SIGABRT, "SIGABRT"},
      {SIGBUS, "SIGBUS"},       {SIGFPE, "SIGFPE"},       {SIGKILL, "SIGKILL"},
      {SIGUSR1, "SIGUSR1"},     {SIGSEGV, "SIGSEGV"},     {SIGUSR2, "SIGUSR2"},
      {SIGPIPE, "SIGPIPE"},     {SIGALRM, "SIGALRM"},     {SIGTERM, "SIGTERM"},
      {SIGSTKFLT, "SIGSTKFLT"}, {SIGCHLD, "SIGCHLD"},     {SIGCONT, "SIGCONT"},
      {SIGSTOP, "SIGSTOP"},     {SIGTSTP, "SIGTSTP"},     {SIGTTIN, "SIGTTIN"},
      {SIGTTOU, "SIGTTOU"},     {SIGURG, "SIGURG"},       {SIGXCPU, "SIGXCPU"},
      {SIGXFSZ, "SIGXFSZ"},     {SIGVTALRM, "SIGVTALRM"}, {SIGPROF, "SIGPROF"},
      {SIGWINCH, "SIGWINCH"},   {SIGPOLL, "SIGPOLL"},     {SIGPWR, "SIGPWR"},
      {SIGSYS, "SIGSYS"}};
  for (const Row& row : kNames) {
    if (row.signal == signal) return row.name;
  }
  return "signal " + std::to_string(signal);
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
