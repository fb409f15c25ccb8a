// The trial host. Loading LibTorch takes seconds, so a host process loads it
// once and forks a trial from itself in milliseconds. A trial must be a child
// of the runner, which reaps it and adopts its orphans; the host therefore
// calls clone with CLONE_PARENT, which makes the new process its sibling. The
// child shares no threads, so the host must have one thread only: a lock that
// another thread held would stay locked for ever. The C library knows nothing
// of a bare clone; the thread id and the robust-mutex list that it caches are
// set again (ThreadRecords). In the child, all descriptors but the trial's own
// are closed and a session of its own is made. When the runner dies, the host's
// socket closes, and the host ends every process that descends from its trials.

#include "engine/process/trial_host.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <filesystem>
#include <iterator>
#include <new>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "engine/base/clock.h"
#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/os/process.h"
#include "engine/os/sha256.h"
#include "engine/os/socket.h"
#include "engine/os/spawn.h"
#include "engine/os/system_error.h"
#include "engine/os/unique_fd.h"
#include "engine/wire/trial_spec.h"

namespace dtrain {
namespace {

// Descriptors and variables of a trial process. The host keeps no copy.
struct TrialForkRequest {
  UniqueFd control;
  UniqueFd standard_output;
  UniqueFd standard_error;
  std::vector<UniqueFd> locks;  // of its slots and others, held to its end
  UniqueFd rendezvous;  // memory or socket shared with the other ranks, or none
  std::vector<std::pair<std::string, std::string>> environment;
};

// A trial process that the host forked.
struct ForkedTrial {
  std::int64_t pid = 0;
  UniqueFd pidfd;                // none on kernels before 5.2
  std::int64_t start_ticks = 0;  // without a pidfd
};

// State of the C library for its thread that a bare clone does not update.
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

// Calls clone, because older container runtimes forbid clone3. The exit signal
// is that of the calling process. Kernels before 5.2 ignore CLONE_PIDFD and
// leave `pidfd` as it is.
long CloneAsSibling(const ThreadRecords& records, int* pidfd) {
  unsigned long flags = CLONE_PARENT | (pidfd == nullptr ? 0 : CLONE_PIDFD);
  if (records.thread_id != nullptr) {
    flags |= CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID;
  }
#if defined(__x86_64__)
  return ::syscall(SYS_clone, flags, nullptr, pidfd, records.thread_id, 0);
#else
  return ::syscall(SYS_clone, flags, nullptr, pidfd, 0, records.thread_id);
#endif
}

// Names a lack of memory in the host, in a trial or in one of its threads,
// which nothing may catch. Otherwise as the library does.
[[noreturn]] void Terminate() {
  if (const std::exception_ptr thrown = std::current_exception()) {
    try {
      std::rethrow_exception(thrown);
    } catch (const std::bad_alloc&) {
      constexpr std::string_view kText =
          "<3>dtrain: out of memory; free some, allow it more, or run fewer "
          "trials at once\n";
      [[maybe_unused]] const auto written =
          ::write(STDERR_FILENO, kText.data(), kText.size());
      ::_exit(1);
    } catch (...) {
    }
  }
  __gnu_cxx::__verbose_terminate_handler();
  std::abort();  // not reached; the handler's declaration does not say so
}

// SIGUSR2 stays ignored.
void ResetSignals() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE}) {
    std::signal(signal, SIG_DFL);
  }
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

// The descriptors of `request` stay open until the process ends. An exception
// would unwind to Serve, which would go on as a second host.
[[noreturn]] void BecomeTrial(TrialForkRequest& request,
                              int (*run_trial)(int)) noexcept {
  ::setsid();
  // Orphans of the trial become its children as long as it lives, and fall
  // to the runner, which sweeps it, afterwards.
  ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  ResetSignals();
  // The kernel kills a trial rather than the runner when memory runs out. Best
  // effort.
  const UniqueFd score(
      ::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC));
  constexpr std::string_view kScore = "500";
  if (score && ::write(score.get(), kScore.data(), kScore.size()) < 0) {
    // as it was
  }
  ::dup2(request.standard_output.get(), STDOUT_FILENO);
  ::dup2(request.standard_error.get(), STDERR_FILENO);
  std::vector<int> kept = {request.control.get()};
  for (const UniqueFd& lock : request.locks) {
    // Inherited by programs that the trial executes: a slot is free only when
    // all its users have ended.
    ::fcntl(lock.get(), F_SETFD, 0);
    kept.push_back(lock.get());
  }
  // It is for the trial itself only and stays close-on-exec.
  if (request.rendezvous) kept.push_back(request.rendezvous.get());
  std::ranges::sort(kept);
  unsigned first = 3;
  for (const int fd : kept) {
    const auto next = static_cast<unsigned>(fd);
    if (first < next) CloseRange(first, next - 1);
    first = next + 1;
  }
  CloseRange(first, ~0U);
  for (const auto& [name, value] : request.environment) {
    ::setenv(name.c_str(), value.c_str(), /*replace=*/1);
  }
  if (request.rendezvous) {
    const std::string number = std::to_string(request.rendezvous.get());
    ::setenv(kRankFdVariable, number.c_str(), /*replace=*/1);
  }
  const int exit_code = run_trial(request.control.get());
  std::fflush(nullptr);
  ::_exit(exit_code);
}

// Forks a trial as a child of this process's parent, which reaps it. The trial
// calls `run_trial` with the control socket, which returns the exit code.
// REQUIRES: this process has one thread. Throws Error(kFailed).
ForkedTrial ForkTrial(TrialForkRequest request, int (*run_trial)(int)) {
  std::fflush(nullptr);
  const ThreadRecords records = ThreadRecords::OfThisThread();
  int pidfd = -1;
  long pid = CloneAsSibling(records, &pidfd);
  // The seccomp profile of a container may forbid the flag.
  if (pid < 0 && (errno == ENOSYS || errno == EPERM || errno == EINVAL)) {
    pid = CloneAsSibling(records, nullptr);
  }
  if (pid < 0) ThrowSystemError("fork a trial");
  if (pid == 0) {
    ::syscall(SYS_set_robust_list, records.robust_list, records.robust_size);
    BecomeTrial(request, run_trial);
  }
  ForkedTrial trial{.pid = pid, .pidfd = UniqueFd(pidfd)};
  if (!trial.pidfd) {
    trial.start_ticks = ReadProcess(pid).value_or(Process()).start_ticks;
  }
  return trial;
}

// The set of processes that belong to the trials. A process that was once seen
// as a member stays one after its ancestors have died.
class Family {
 public:
  Family(std::span<const ForkedTrial> trials, const std::string& mark)
      : mark_(mark) {
    for (const ForkedTrial& trial : trials) sessions_.insert(trial.pid);
  }

  // Updates the set and returns the living members.
  std::vector<Process> Living() {
    const std::vector<Process> processes = ReadProcesses();
    // A member's children may stand before it in the table.
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

  // Returns true if a member was added, whose children may be members too.
  bool AddRelatives(const std::vector<Process>& processes) {
    bool added = false;
    for (const Process& process : processes) {
      if (process.pid == ::getpid() || IsMember(process)) continue;
      // A process may leave its session and lose its parent, but not its first
      // environment, which the mark is in.
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

// Ends the trials of a dead runner: lets them exit within `grace`, and then
// kills them and the processes they started (their descendants, their sessions,
// and every process with `mark`, "NAME=value", in its initial environment)
// until none lives.
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

using nlohmann::json;

// Time for a trial to exit after its control socket was closed. With the kill,
// the processes of a dead runner end within two seconds.
constexpr Duration kSurvivorsGrace = std::chrono::seconds(1);

TrialForkRequest RequestFrom(Packet packet) {
  const json object = json::parse(packet.text);
  const bool has_rendezvous = object.at("meeting").get<bool>();
  if (packet.fds.size() < (has_rendezvous ? 4 : 3)) {
    throw Error(ErrorKind::kFailed, "a request to fork lacks descriptors");
  }
  TrialForkRequest request{.control = std::move(packet.fds[0]),
                           .standard_output = std::move(packet.fds[1]),
                           .standard_error = std::move(packet.fds[2])};
  if (has_rendezvous) {
    request.rendezvous = std::move(packet.fds.back());
    packet.fds.pop_back();
  }
  std::move(packet.fds.begin() + 3, packet.fds.end(),
            std::back_inserter(request.locks));
  for (const auto& [name, value] : object.at("env").items()) {
    request.environment.emplace_back(name, value.get<std::string>());
  }
  return request;
}

// Returns the reply to one request, and adds a forked trial to `trials`.
json Serve(Packet packet, const TrialHostHooks& hooks,
           std::vector<ForkedTrial>& trials) {
  try {
    // A fork copies one thread only, and a lock that another one held would
    // stay locked in the trial.
    const std::filesystem::directory_iterator tasks("/proc/self/task");
    const auto threads = std::distance(begin(tasks), end(tasks));
    if (threads != 1) {
      throw Error(ErrorKind::kFailed,
                  "the trial host has " + std::to_string(threads) +
                      " threads and so cannot be forked; a library that it "
                      "has loaded started them");
    }
    trials.push_back(
        ForkTrial(RequestFrom(std::move(packet)), hooks.run_trial));
    return {{"pid", trials.back().pid}};
  } catch (const Error& error) {
    return {{"error", error.what()}};
  } catch (const json::exception& error) {
    return {{"error",
             std::string("a request to fork is not JSON: ") + error.what()}};
  }
}

// Waits for a message or the end of the runner. Removes trials that end in the
// meantime, since their pids may be reused.
void AwaitRunner(int socket, std::vector<ForkedTrial>& trials) {
  constexpr int kLookMilliseconds = 100;
  while (true) {
    // Another process may have the number of a trial without a pidfd.
    std::erase_if(trials, [](const ForkedTrial& trial) {
      if (trial.pidfd) return false;
      const auto process = ReadProcess(trial.pid);
      return !process || process->zombie ||
             process->start_ticks != trial.start_ticks;
    });
    const bool looks = std::ranges::any_of(
        trials, [](const ForkedTrial& trial) { return !trial.pidfd; });
    std::vector<pollfd> entries = {{.fd = socket, .events = POLLIN}};
    for (const ForkedTrial& trial : trials) {
      entries.push_back({.fd = trial.pidfd.get(), .events = POLLIN});
    }
    const int timeout = looks ? kLookMilliseconds : -1;
    if (::poll(entries.data(), entries.size(), timeout) < 0) continue;
    for (std::size_t i = trials.size(); i > 0; --i) {
      if (entries[i].revents != 0) trials.erase(trials.begin() + (i - 1));
    }
    if (entries[0].revents != 0) return;
  }
}

std::string Mark() {
  const char* token = std::getenv(kTokenVariable);
  return std::string(kTokenVariable) + "=" + (token == nullptr ? "" : token);
}

}  // namespace

Duration StopGrace() {
  const char* text = std::getenv("DTRAIN_STOP_GRACE");
  if (text == nullptr || *text == '\0') return std::chrono::seconds(30);
  return ParseDuration(text, "DTRAIN_STOP_GRACE");
}

int RunTrialHost(int socket, const TrialHostHooks& hooks) {
  std::set_terminate(Terminate);
  // The signals of the terminal, and SIGUSR2, by which Slurm announces the end
  // of a job to all its processes. Trials ignore them too: the worker asks them
  // to stop.
  for (const int signal :
       {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGUSR2}) {
    std::signal(signal, SIG_IGN);
  }
  ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  std::vector<ForkedTrial> trials;
  try {
    bool runner_lives = SendPacket(socket, R"({"ready":true})", {});
    try {
      // Opens the library that checksums need, once for all trials, which then
      // need not open it beside their threads. A failure is reported by the
      // trial that needs a checksum.
      (void)ComputeSha256({});
    } catch (const Error&) {
    }
    while (runner_lives) {
      AwaitRunner(socket, trials);
      std::optional<Packet> packet = ReceivePacket(socket);
      if (!packet) break;
      const json reply = Serve(*std::move(packet), hooks, trials);
      runner_lives = SendPacket(socket, reply.dump(), {});
    }
  } catch (const Error&) {
    return 1;  // The runner lives, and starts another host.
  }
  EndSurvivors(trials, Mark(), kSurvivorsGrace);
  return 0;
}

}  // namespace dtrain
