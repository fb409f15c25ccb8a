// posix_spawn(3) creates the child as vfork does: without copying the page
// tables of this process, and without running code between fork and exec in
// which a lock of another thread could hang. CallInChild, which executes no
// program, has to fork, and therefore must run before there are other threads
// whose locks its function needs.
//
// The end of a child is awaited by a pidfd where the kernel has one: unlike a
// signal it belongs to one child, and unlike waitpid(2) it can wait with a
// limit and beside other descriptors. Elsewhere a thread waits for the child
// and then writes into a pipe. RunCaptured ends a child that is too late by
// SIGKILL to its process group, so that no grandchild is left.
//
// System calls newer than Linux 4.18 have a fallback, since RHEL 8 and Ubuntu
// 20.04 lack pidfd_open (5.3) and close_range (5.9): ENOSYS, or EPERM under the
// seccomp profiles of older container runtimes.

#include "engine/os/spawn.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/os/line_reader.h"
#include "engine/os/signals.h"
#include "engine/os/system_error.h"

namespace dtrain {
namespace {

// The form in which posix_spawn takes arguments; valid until `texts` changes.
std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// True if the last system call failed because this kernel, or the seccomp
// profile of a container, does not have it.
bool IsMissingCall() { return errno == ENOSYS || errno == EPERM; }

// Returns the descriptors of this process from `first` to `last`.
std::vector<int> OpenDescriptors(unsigned first, unsigned last) {
  std::vector<int> open;
  DIR* const directory = ::opendir("/proc/self/fd");
  if (directory == nullptr) return open;
  while (const dirent* entry = ::readdir(directory)) {
    const std::string_view name = entry->d_name;
    unsigned fd = 0;
    const auto [end, error] =
        std::from_chars(name.data(), name.data() + name.size(), fd);
    if (error != std::errc() || end != name.data() + name.size()) continue;
    if (fd < first || fd > last) continue;
    if (static_cast<int>(fd) == ::dirfd(directory)) continue;
    open.push_back(static_cast<int>(fd));
  }
  ::closedir(directory);
  return open;
}

}  // namespace

void CloseRange(unsigned first, unsigned last) {
  if (::syscall(SYS_close_range, first, last, 0) == 0) return;
  if (!IsMissingCall()) return;
  for (const int fd : OpenDescriptors(first, last)) ::close(fd);
}

Spawn::Spawn() {
  ::posix_spawn_file_actions_init(&actions_);
  ::posix_spawnattr_init(&attributes_);
}

Spawn::~Spawn() {
  const int error = errno;  // of Run; freeing memory may change it
  ::posix_spawn_file_actions_destroy(&actions_);
  ::posix_spawnattr_destroy(&attributes_);
  errno = error;
}

Spawn& Spawn::Open(int fd, const std::filesystem::path& path, int flags,
                   mode_t mode) {
  ::posix_spawn_file_actions_addopen(&actions_, fd, path.c_str(), flags, mode);
  return *this;
}

Spawn& Spawn::Duplicate(int from, int to) {
  ::posix_spawn_file_actions_adddup2(&actions_, from, to);
  return *this;
}

// The C library has an action for this since 2.34 only.
Spawn& Spawn::CloseFrom(int first) {
  for (const int fd : OpenDescriptors(static_cast<unsigned>(first), ~0U)) {
    const int flags = ::fcntl(fd, F_GETFD);
    if (flags < 0 || (flags & FD_CLOEXEC) != 0) continue;
    ::posix_spawn_file_actions_addclose(&actions_, fd);
  }
  return *this;
}

Spawn& Spawn::ChangeDirectory(const std::filesystem::path& directory) {
  ::posix_spawn_file_actions_addchdir_np(&actions_, directory.c_str());
  return *this;
}

Spawn& Spawn::ResetSignals(std::initializer_list<int> kept) {
  sigset_t none;
  sigemptyset(&none);
  sigset_t all;
  sigfillset(&all);
  for (const int signal : kept) sigdelset(&all, signal);
  ::posix_spawnattr_setsigmask(&attributes_, &none);
  ::posix_spawnattr_setsigdefault(&attributes_, &all);
  flags_ = static_cast<short>(flags_ | POSIX_SPAWN_SETSIGMASK |
                              POSIX_SPAWN_SETSIGDEF);
  return *this;
}

Spawn& Spawn::NewSession() {
  flags_ = static_cast<short>(flags_ | POSIX_SPAWN_SETSID);
  return *this;
}

Spawn& Spawn::Environment(std::vector<std::string> environment) {
  environment_ = std::move(environment);
  return *this;
}

pid_t Spawn::Run(const std::filesystem::path& file,
                 std::vector<std::string> words) {
  return Start(::posix_spawn, file.c_str(), std::move(words));
}

pid_t Spawn::RunFromPath(std::vector<std::string> words) {
  const std::string file = words.front();
  return Start(::posix_spawnp, file.c_str(), std::move(words));
}

pid_t Spawn::Start(SpawnFunction* spawn, const char* file,
                   std::vector<std::string> words) {
  ::posix_spawnattr_setflags(&attributes_, flags_);
  std::vector<char*> variables;
  if (environment_) variables = Pointers(*environment_);
  pid_t pid = -1;
  const int error =
      spawn(&pid, file, &actions_, &attributes_, Pointers(words).data(),
            environment_ ? variables.data() : ::environ);
  if (error == 0) return pid;
  errno = error;
  return -1;
}

namespace {

UniqueFd OpenPidFd(pid_t pid) {
  return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

// Waits for the end of the child without reaping it.
int WaitForEnd(pid_t pid, int flags) {
  siginfo_t info{};
  int result = 0;
  do {
    result = ::waitid(P_PID, static_cast<id_t>(pid), &info,
                      WEXITED | WNOWAIT | flags);
  } while (result != 0 && errno == EINTR);
  return result;
}

// Returns the reading end of a pipe into which a thread writes at the end of
// the child. The thread ends then, or with this process.
UniqueFd WatchByThread(pid_t pid) {
  if (WaitForEnd(pid, WNOHANG) != 0) return {};
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return {};
  UniqueFd reading(ends[0]);
  UniqueFd writing(ends[1]);
  const SignalsBlocked blocked;  // also SIGPIPE, if nobody reads any more
  try {
    std::thread([pid, writing = std::move(writing)] {
      WaitForEnd(pid, 0);
      [[maybe_unused]] const auto count = ::write(writing.get(), "", 1);
    }).detach();
  } catch (const std::system_error& error) {
    reading.reset();
    errno = error.code().value();
  }
  return reading;
}

}  // namespace

UniqueFd OpenExitFd(pid_t pid) {
  UniqueFd pidfd = OpenPidFd(pid);
  return pidfd || !IsMissingCall() ? std::move(pidfd) : WatchByThread(pid);
}

std::string FormatExit(const ExitStatus& status) {
  if (status.signal != 0) {
    return "killed by signal " + std::to_string(status.signal) + " (" +
           SignalName(status.signal) + ")";
  }
  if (status.code < 0) return "ended in an unknown way";
  return "exited with code " + std::to_string(status.code);
}

// Polls if the kernel has no pidfd_open(2). WNOWAIT leaves the process to
// AwaitExit, which needs its status.
bool HasEnded(pid_t pid, Duration limit) {
  using std::chrono::milliseconds;
  constexpr milliseconds kLookInterval(10);
  const Clock clock = Clock::System();
  const Duration deadline = clock.monotonic() + limit;
  const UniqueFd exit = OpenPidFd(pid);
  while (true) {
    siginfo_t info{};
    const int result = ::waitid(P_PID, static_cast<id_t>(pid), &info,
                                WEXITED | WNOHANG | WNOWAIT);
    if (result == 0 ? info.si_pid != 0 : errno == ECHILD) return true;
    auto left = std::chrono::ceil<milliseconds>(deadline - clock.monotonic());
    if (left.count() <= 0) return false;
    if (!exit) left = std::min(left, kLookInterval);
    pollfd entry{.fd = exit.get(), .events = POLLIN, .revents = 0};
    ::poll(&entry, 1, static_cast<int>(left.count()));
  }
}

ExitStatus AwaitExit(pid_t pid) {
  int status = 0;
  pid_t reaped = -1;
  do {
    reaped = ::waitpid(pid, &status, 0);
  } while (reaped < 0 && errno == EINTR);
  if (reaped < 0) return {};
  return {.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1,
          .signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0};
}

Pipe MakePipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) ThrowSystemError("make a pipe");
  return {.reading = UniqueFd(ends[0]), .writing = UniqueFd(ends[1])};
}

std::optional<std::string> ReadUntil(int fd, Duration deadline,
                                     std::size_t max_bytes) {
  const Clock clock = Clock::System();
  std::string text;
  std::array<char, 4096> chunk;
  while (text.size() < max_bytes) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(
        deadline - clock.monotonic());
    if (left.count() <= 0) return std::nullopt;
    pollfd entry{.fd = fd, .events = POLLIN, .revents = 0};
    if (::poll(&entry, 1, static_cast<int>(left.count())) <= 0) continue;
    const ssize_t count = ::read(fd, chunk.data(), chunk.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return std::nullopt;
    if (count == 0) break;
    text.append(chunk.data(), static_cast<std::size_t>(count));
  }
  return std::make_optional(std::move(text));
}

namespace {

constexpr std::size_t kMaxOutput = std::size_t{16} << 20;
constexpr std::size_t kMaxErrors = std::size_t{64} << 10;

}  // namespace

CapturedRun RunCaptured(const std::vector<std::string>& words,
                        std::vector<std::string> environment, Duration limit,
                        std::string_view input) {
  const Duration deadline = Clock::System().monotonic() + limit;
  Pipe pipe = MakePipe();
  const UniqueFd errors(::memfd_create("errors", MFD_CLOEXEC));
  const UniqueFd in(::memfd_create("input", MFD_CLOEXEC));
  if (!errors || !in || !WriteAll(in.get(), input) ||
      ::lseek(in.get(), 0, SEEK_SET) != 0) {
    ThrowSystemError("make a file in memory");
  }
  const pid_t pid = Spawn()
                        .Duplicate(in.get(), STDIN_FILENO)
                        .Duplicate(pipe.writing.get(), STDOUT_FILENO)
                        .Duplicate(errors.get(), STDERR_FILENO)
                        .CloseFrom(STDERR_FILENO + 1)
                        .ResetSignals()
                        .NewSession()
                        .Environment(std::move(environment))
                        .RunFromPath(words);
  if (pid < 0) {
    return {.end = CapturedRun::End::kNotStarted, .error = errno};
  }
  pipe.writing.reset();
  CapturedRun run;
  auto output = ReadUntil(pipe.reading.get(), deadline, kMaxOutput);
  pipe.reading.reset();
  const bool ended =
      output && HasEnded(pid, deadline - Clock::System().monotonic());
  if (!ended) ::kill(-pid, SIGKILL);
  run.status = AwaitExit(pid);
  run.end = ended ? CapturedRun::End::kExited : CapturedRun::End::kTooLate;
  if (output) run.output = *std::move(output);
  run.errors.resize(kMaxErrors);
  const ssize_t count =
      ::pread(errors.get(), run.errors.data(), run.errors.size(), 0);
  run.errors.resize(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  return run;
}

namespace {

constexpr int kAnswerFd = 3;

// kAnswered if the child ended with exit code 0. A process that hangs within a
// driver may not even die; after a moment it is left alone.
ChildAnswer::End ReapSoon(pid_t pid) {
  using enum ChildAnswer::End;
  for (int tries = 0; tries < 100; ++tries) {
    int status = 0;
    const pid_t reaped = ::waitpid(pid, &status, WNOHANG);
    if (reaped < 0) return kUnknown;
    if (reaped > 0) return status == 0 ? kAnswered : kCrashed;
    ::poll(nullptr, 0, /*milliseconds=*/1);
  }
  return kCrashed;
}

}  // namespace

ChildAnswer CallInChild(std::string (*function)(), Duration limit) {
  return ChildCall(function).Await(limit);
}

ChildCall::ChildCall(const std::function<std::string()>& function) {
  Pipe pipe = MakePipe();
  pid_ = ::fork();
  if (pid_ < 0) ThrowSystemError("fork a process");
  // Libraries print to the terminal as they like, and a child that hangs must
  // not keep the locks of this process. An exception would unwind to the
  // handlers of the caller, which would go on in the child.
  const auto answer_and_exit = [&]() noexcept {
    ::dup2(pipe.writing.get(), kAnswerFd);
    const int null = ::open("/dev/null", O_RDWR);
    for (int fd = 0; fd < kAnswerFd; ++fd) ::dup2(null, fd);
    CloseRange(kAnswerFd + 1, ~0U);
    std::signal(SIGPIPE, SIG_IGN);
    const bool written = WriteAll(kAnswerFd, function());
    ::_exit(written ? 0 : 1);
  };
  if (pid_ == 0) answer_and_exit();
  answer_ = std::move(pipe.reading);
}

ChildCall::~ChildCall() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ReapSoon(pid_);
}

// A child writes its short answer at once and exits.
std::optional<ChildAnswer> ChildCall::Poll() {
  constexpr Duration kToExit = std::chrono::milliseconds(200);
  pollfd entry{.fd = answer_.get(), .events = POLLIN, .revents = 0};
  if (::poll(&entry, 1, /*timeout=*/0) <= 0) return std::nullopt;
  ChildAnswer answer = Await(kToExit);
  if (answer.end == ChildAnswer::End::kTooLate) {
    answer.end = ChildAnswer::End::kCrashed;
  }
  return answer;
}

ChildAnswer ChildCall::Await(Duration limit) {
  std::optional<std::string> text =
      ReadUntil(answer_.get(), Clock::System().monotonic() + limit);
  if (!text && pid_ > 0) ::kill(pid_, SIGKILL);
  const ChildAnswer::End end = ReapSoon(std::exchange(pid_, -1));
  if (!text) return {.end = ChildAnswer::End::kTooLate};
  if (end != ChildAnswer::End::kAnswered) return {.end = end};
  return {.end = end, .text = *std::move(text)};
}

UniqueFd ForkDetached(const std::function<int(UniqueFd pipe)>& function) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return {};
  UniqueFd reading(ends[0]);
  UniqueFd writing(ends[1]);
  const pid_t pid = ::fork();
  if (pid < 0) {
    const int error = errno;
    reading.reset();
    writing.reset();
    errno = error;
    return {};
  }
  if (pid > 0) return reading;
  const auto become_child = [&]() noexcept {
    reading.reset();
    ::setsid();
    std::_Exit(function(std::move(writing)));
  };
  become_child();
  return {};
}

}  // namespace dtrain
