#include "engine/process/orphans.h"

#include <csignal>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/os/process.h"

namespace dtrain {
namespace {

constexpr Duration kGiveUpAfter = std::chrono::seconds(10);

}  // namespace

Orphans::Orphans(Clock clock) : clock_(std::move(clock)) {
  for (const Process& process : ReadProcesses()) {
    if (process.parent == ::getpid()) known_.insert(process.pid);
  }
  ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
}

bool Orphans::Sweep(const std::set<std::int64_t>& others) {
  bool clean = true;
  for (const Process& process : ReadProcesses()) {
    if (process.parent != ::getpid() || known_.count(process.pid) > 0 ||
        others.count(process.pid) > 0) {
      continue;
    }
    const auto pid = static_cast<pid_t>(process.pid);
    ::kill(pid, SIGKILL);
    if (::waitpid(pid, nullptr, WNOHANG) == pid) {
      killed_at_.erase(process.pid);
      clean = false;  // It may have had children, which are ours now.
      continue;
    }
    const Duration now = clock_.monotonic();
    const auto [first, added] = killed_at_.emplace(process.pid, now);
    if (now - first->second < kGiveUpAfter) clean = false;
  }
  return clean;
}

}  // namespace dtrain
