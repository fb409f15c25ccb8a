#include "engine/process/survivors.h"

#include <csignal>
#include <ctime>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>

#include "engine/os/process.h"

namespace dtrain {
namespace {

// Every process that belongs to the trials, as far as was ever seen: one whose
// ancestors have died since is still known for what it is.
class Family {
 public:
  Family(std::span<const ForkedTrial> trials, const std::string& mark)
      : mark_(mark) {
    for (const ForkedTrial& trial : trials) sessions_.insert(trial.pid);
  }

  // Looks again, and gives those that live.
  std::vector<Process> Living() {
    const std::vector<Process> processes = ReadProcesses();
    while (AddRelatives(processes)) {
    }
    std::vector<Process> living;
    for (const Process& process : processes) {
      if (!process.zombie && IsMember(process)) living.push_back(process);
    }
    return living;
  }

 private:
  bool IsMember(const Process& process) const {
    return members_.count({process.pid, process.start_ticks}) > 0;
  }

  // True if there was a new one, whose children are to be looked for.
  bool AddRelatives(const std::vector<Process>& processes) {
    bool added = false;
    for (const Process& process : processes) {
      if (process.pid == ::getpid() || IsMember(process)) continue;
      const bool related = sessions_.count(process.session) > 0 ||
                           pids_.count(process.parent) > 0 ||
                           WasStartedWith(process.pid, mark_);
      if (!related) continue;
      members_.emplace(process.pid, process.start_ticks);
      pids_.insert(process.pid);
      added = true;
    }
    return added;
  }

  std::string mark_;
  std::set<std::int64_t> sessions_;
  std::set<std::int64_t> pids_;
  std::set<std::pair<std::int64_t, std::int64_t>> members_;
};

}  // namespace

void EndSurvivors(std::span<const ForkedTrial> trials, const std::string& mark,
                  Duration grace) {
  const Clock clock = Clock::System();
  const Duration deadline = clock.monotonic() + grace;
  Family family(trials, mark);
  for (auto living = family.Living(); !living.empty();
       living = family.Living()) {
    if (clock.monotonic() >= deadline) {
      for (const Process& process : living) {
        ::kill(static_cast<pid_t>(process.pid), SIGKILL);
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

}  // namespace dtrain
