#include "engine/process/trial_fork.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "engine/os/system_error.h"
#include "engine/wire/trial_spec.h"

namespace dtrain {
namespace {

// What the C library knows of its thread and a bare clone would not renew.
struct ThreadRecords {
  int* thread_id = nullptr;
  void* robust_list = nullptr;
  std::size_t robust_size = 0;

  static ThreadRecords OfThisThread() {
    ThreadRecords records;
#ifdef PR_GET_TID_ADDRESS
    ::prctl(PR_GET_TID_ADDRESS, &records.thread_id, 0, 0, 0);
#endif
    ::syscall(SYS_get_robust_list, 0, &records.robust_list,
              &records.robust_size);
    return records;
  }
};

// clone and not clone3, which older container runtimes forbid; it does here
// all that clone3 would. The exit signal is that of the calling process.
long CloneAsSibling(const ThreadRecords& records, int* pidfd) {
  unsigned long flags = CLONE_PARENT | CLONE_PIDFD;
  if (records.thread_id != nullptr) {
    flags |= CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID;
  }
#if defined(__x86_64__)
  return ::syscall(SYS_clone, flags, nullptr, pidfd, records.thread_id, 0);
#else
  return ::syscall(SYS_clone, flags, nullptr, pidfd, 0, records.thread_id);
#endif
}

void ResetSignals() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE}) {
    std::signal(signal, SIG_DFL);
  }
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

// Where memory runs out, a trial goes before the runner. Best effort.
void OfferToOutOfMemoryKiller() {
  const UniqueFd file(::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC));
  constexpr std::string_view kScore = "500";
  if (!file) return;
  [[maybe_unused]] const auto count =
      ::write(file.get(), kScore.data(), kScore.size());
}

void CloseAllBut(std::vector<int> kept) {
  std::sort(kept.begin(), kept.end());
  unsigned first = 3;
  for (const int fd : kept) {
    const auto next = static_cast<unsigned>(fd);
    if (first < next) ::close_range(first, next - 1, 0);
    first = next + 1;
  }
  ::close_range(first, ~0U, 0);
}

// The descriptors of `request` stay open until the process ends.
[[noreturn]] void BecomeTrial(TrialForkRequest& request,
                              int (*run_trial)(int)) {
  ::setsid();
  // What the trial sets loose stays its child as long as it lives, and falls
  // to the runner, which sweeps it, afterwards.
  ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  ResetSignals();
  OfferToOutOfMemoryKiller();
  ::dup2(request.standard_output.get(), STDOUT_FILENO);
  ::dup2(request.standard_error.get(), STDERR_FILENO);
  std::vector<int> kept = {request.control.get()};
  for (const UniqueFd& lock : request.locks) {
    // Held by whatever the trial executes, too: a slot is free only when all
    // that used it is gone.
    ::fcntl(lock.get(), F_SETFD, 0);
    kept.push_back(lock.get());
  }
  // For the trial itself only: it stays close-on-exec.
  if (request.meeting) kept.push_back(request.meeting.get());
  CloseAllBut(std::move(kept));
  for (const auto& [name, value] : request.environment) {
    ::setenv(name.c_str(), value.c_str(), /*replace=*/1);
  }
  if (request.meeting) {
    const std::string number = std::to_string(request.meeting.get());
    ::setenv(kRankMeetingVariable, number.c_str(), /*replace=*/1);
  }
  const int exit_code = run_trial(request.control.get());
  std::fflush(nullptr);
  ::_exit(exit_code);
}

}  // namespace

ForkedTrial ForkTrial(TrialForkRequest request, int (*run_trial)(int)) {
  std::fflush(nullptr);
  const ThreadRecords records = ThreadRecords::OfThisThread();
  int pidfd = -1;
  const long pid = CloneAsSibling(records, &pidfd);
  if (pid < 0) ThrowSystemError("fork a trial");
  if (pid == 0) {
    ::syscall(SYS_set_robust_list, records.robust_list, records.robust_size);
    BecomeTrial(request, run_trial);
  }
  return {.pid = pid, .pidfd = UniqueFd(pidfd)};
}

}  // namespace dtrain
