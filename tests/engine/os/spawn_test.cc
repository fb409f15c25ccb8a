#include "engine/os/spawn.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "tests/support/old_kernel.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

constexpr Duration kLong = std::chrono::minutes(2);

Duration In(Duration time) { return Clock::System().monotonic() + time; }

// Returns what the shell script prints when started with `spawn`.
std::string RunScript(Spawn& spawn, const std::string& script) {
  Pipe pipe = MakePipe();
  const pid_t pid = spawn.Duplicate(pipe.writing.get(), STDOUT_FILENO)
                        .Run("/bin/sh", {"sh", "-c", script});
  pipe.writing.reset();
  if (pid < 0) return "not started";
  const auto text = ReadUntil(pipe.reading.get(), In(kLong));
  AwaitExit(pid);
  return text.value_or("too late");
}

TEST(SpawnTest, RunsAProgramWithItsArguments) {
  const pid_t pid = Spawn().Run("/bin/sh", {"sh", "-c", "exit $1", "sh", "7"});
  ASSERT_GT(pid, 0);
  EXPECT_EQ(AwaitExit(pid).code, 7);
}

TEST(SpawnTest, ReportsTheSignalThatEndsAProgram) {
  const pid_t pid = Spawn().Run("/bin/sh", {"sh", "-c", "kill -9 $$"});
  const ExitStatus status = AwaitExit(pid);
  EXPECT_EQ(status.code, -1);
  EXPECT_EQ(status.signal, SIGKILL);
}

TEST(SpawnTest, SearchesThePath) {
  const pid_t pid = Spawn().RunFromPath({"true"});
  ASSERT_GT(pid, 0);
  EXPECT_EQ(AwaitExit(pid).code, 0);
  EXPECT_LT(Spawn().RunFromPath({"no-such-program-of-dtrain"}), 0);
  EXPECT_EQ(errno, ENOENT);
}

TEST(SpawnTest, RunDoesNotSearchThePath) {
  EXPECT_LT(Spawn().Run("true", {"true"}), 0);
  EXPECT_EQ(errno, ENOENT);
}

TEST(SpawnTest, WorksInAnotherDirectory) {
  const TemporaryDirectory directory;
  Spawn spawn;
  spawn.ChangeDirectory(directory.path());
  EXPECT_EQ(RunScript(spawn, "pwd -P"),
            std::filesystem::canonical(directory.path()).string() + "\n");
}

TEST(SpawnTest, ReplacesTheEnvironment) {
  Spawn spawn;
  spawn.Environment({"ONLY=this"});
  EXPECT_EQ(RunScript(spawn, "echo \"$ONLY$HOME\""), "this\n");
}

TEST(SpawnTest, OpensFilesInTheChild) {
  const TemporaryDirectory directory;
  const std::filesystem::path file = directory.path() / "out";
  const pid_t pid = Spawn()
                        .Open(STDOUT_FILENO, file, O_WRONLY | O_CREAT, 0640)
                        .Run("/bin/sh", {"sh", "-c", "echo text"});
  EXPECT_EQ(AwaitExit(pid).code, 0);
  EXPECT_EQ(std::filesystem::file_size(file), 5U);
}

TEST(SpawnTest, ClosesDescriptors) {
  const UniqueFd inherited(::fcntl(STDIN_FILENO, F_DUPFD, 50));
  Spawn open;
  const std::string ask = "[ -e /proc/self/fd/50 ] && echo open || echo closed";
  EXPECT_EQ(RunScript(open, ask), "open\n");
  Spawn closed;
  closed.CloseFrom(50);
  EXPECT_EQ(RunScript(closed, ask), "closed\n");
}

TEST(SpawnTest, ResetsSignals) {
  sigset_t blocked;
  sigset_t before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGUSR1);
  ::sigprocmask(SIG_BLOCK, &blocked, &before);
  const auto old = std::signal(SIGUSR2, SIG_IGN);
  Spawn spawn;
  spawn.ResetSignals();
  const std::string masks = RunScript(
      spawn,
      "grep -c -e 'SigBlk:.*0000$' -e 'SigIgn:.*0000$' /proc/self/status");
  std::signal(SIGUSR2, old);
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  EXPECT_EQ(masks, "2\n");
}

TEST(SpawnTest, StartsASession) {
  const pid_t pid = Spawn().NewSession().RunFromPath({"sleep", "60"});
  EXPECT_EQ(::getsid(pid), pid);
  ::kill(pid, SIGKILL);
  EXPECT_EQ(AwaitExit(pid).signal, SIGKILL);
}

// Returns what OpenExitFd does wrong, or empty.
std::string ExitFdFault() {
  const pid_t pid = Spawn().RunFromPath({"sleep", "60"});
  const UniqueFd end = OpenExitFd(pid);
  if (!end) return "holds none";
  pollfd entry{.fd = end.get(), .events = POLLIN, .revents = 0};
  if (::poll(&entry, 1, /*milliseconds=*/20) != 0) return "readable too early";
  ::kill(pid, SIGKILL);
  if (::poll(&entry, 1, 60'000) != 1) return "not readable at the end";
  if (AwaitExit(pid).signal != SIGKILL) return "reaps the child";
  return OpenExitFd(pid) ? "watches a child that was reaped" : "";
}

TEST(SpawnTest, ExitFdIsReadableAtTheEnd) { EXPECT_EQ(ExitFdFault(), ""); }

// What a parent may leave to this process.
class IgnoredChildSignalTest : public testing::Test {
 protected:
  IgnoredChildSignalTest() { std::signal(SIGCHLD, SIG_IGN); }
  ~IgnoredChildSignalTest() override { std::signal(SIGCHLD, SIG_DFL); }
};

TEST_F(IgnoredChildSignalTest, AnExitThatNobodySawIsUnknown) {
  const ExitStatus status = AwaitExit(Spawn().RunFromPath({"false"}));
  EXPECT_EQ(status.code, -1);
  EXPECT_EQ(status.signal, 0);
  EXPECT_EQ(FormatExit(status), "ended in an unknown way");

  EXPECT_FALSE(
      RunCaptured({"false"}, {"PATH=/usr/bin:/bin"}, kLong).succeeded());
  EXPECT_EQ(CallInChild([] { return std::string("answer"); }, kLong).end,
            ChildAnswer::End::kUnknown);
}

TEST(FormatExitTest, NamesTheCodeOrTheSignal) {
  EXPECT_EQ(FormatExit({.code = 3}), "exited with code 3");
  EXPECT_EQ(FormatExit({.signal = SIGKILL}), "killed by signal 9 (SIGKILL)");
}

TEST(HasEndedTest, LeavesTheChildToBeReaped) {
  const pid_t pid = Spawn().RunFromPath({"true"});
  EXPECT_TRUE(HasEnded(pid, kLong));
  EXPECT_TRUE(HasEnded(pid, Duration::zero()));
  EXPECT_EQ(AwaitExit(pid).code, 0);
  EXPECT_TRUE(HasEnded(pid, Duration::zero()));
}

TEST(HasEndedTest, FalseWhileTheChildLives) {
  const pid_t pid = Spawn().RunFromPath({"sleep", "60"});
  EXPECT_FALSE(HasEnded(pid, std::chrono::milliseconds(20)));
  ::kill(pid, SIGKILL);
  EXPECT_TRUE(HasEnded(pid, kLong));
  AwaitExit(pid);
}

std::string CapturedRunFault() {
  return RunCaptured({"true"}, {"PATH=/usr/bin:/bin"}, kLong).succeeded()
             ? ""
             : "did not see the end";
}

std::string ClosedDescriptorsFault() {
  const UniqueFd inherited(::fcntl(STDIN_FILENO, F_DUPFD, 50));
  const UniqueFd kept(::fcntl(STDIN_FILENO, F_DUPFD, 60));
  CloseRange(50, 59);
  if (::fcntl(50, F_GETFD) >= 0) return "left one open";
  if (::fcntl(60, F_GETFD) < 0) return "closed one beyond the range";
  Spawn spawn;
  spawn.CloseFrom(60);
  const std::string open =
      RunScript(spawn, "[ -e /proc/self/fd/60 ] && echo open || echo closed");
  return open == "closed\n" ? "" : "the child has: " + open;
}

std::string ChildCallFault() {
  const auto answer = CallInChild([] { return std::string("yes"); }, kLong);
  return answer.text == "yes" ? "" : "no answer";
}

struct OldKernel {
  const char* name;
  MissingCall call;
  std::string (*fault)();
};

class OldKernelTest : public testing::TestWithParam<OldKernel> {};

TEST_P(OldKernelTest, HasAFallback) {
  constexpr int kForbidden = 2;
  Pipe pipe = MakePipe();
  const pid_t child = ::fork();
  if (child == 0) {
    const auto& [name, call, fault_of] = GetParam();
    if (!Forbid(call)) std::_Exit(kForbidden);
    if (::syscall(call.number, ~0U, 0, 0) == 0 || errno != call.error) {
      std::_Exit(kForbidden + 1);
    }
    const std::string fault = fault_of();
    std::_Exit(::write(pipe.writing.get(), fault.data(), fault.size()) < 0);
  }
  pipe.writing.reset();
  const auto fault = ReadUntil(pipe.reading.get(), In(kLong));
  const int code = AwaitExit(child).code;
  if (code == kForbidden) GTEST_SKIP() << "seccomp is forbidden here";
  EXPECT_EQ(code, 0);
  EXPECT_EQ(fault, "");
}

INSTANTIATE_TEST_SUITE_P(
    Calls, OldKernelTest,
    testing::Values(
        OldKernel{"ExitFd", {SYS_pidfd_open}, ExitFdFault},
        OldKernel{"ExitFdInAContainer", {SYS_pidfd_open, EPERM}, ExitFdFault},
        OldKernel{"CapturedRun", {SYS_pidfd_open}, CapturedRunFault},
        OldKernel{"Descriptors", {SYS_close_range}, ClosedDescriptorsFault},
        OldKernel{"DescriptorsInAContainer",
                  {SYS_close_range, EPERM},
                  ClosedDescriptorsFault},
        OldKernel{"ChildCall", {SYS_close_range}, ChildCallFault}),
    [](const auto& row) { return std::string(row.param.name); });

TEST(ReadUntilTest, ReadsToTheEnd) {
  Pipe pipe = MakePipe();
  ASSERT_EQ(::write(pipe.writing.get(), "text", 4), 4);
  pipe.writing.reset();
  EXPECT_EQ(ReadUntil(pipe.reading.get(), In(kLong)), "text");
}

TEST(ReadUntilTest, StopsAtTheDeadlineAndAtTheLimit) {
  const Pipe pipe = MakePipe();
  ASSERT_EQ(::write(pipe.writing.get(), "text", 4), 4);
  EXPECT_EQ(ReadUntil(pipe.reading.get(), In(kLong), 3), "text");
  EXPECT_FALSE(
      ReadUntil(pipe.reading.get(), In(std::chrono::milliseconds(20))));
  EXPECT_FALSE(ReadUntil(-1, In(std::chrono::milliseconds(20))));
}

TEST(CallInChildTest, ReturnsTheAnswer) {
  const ChildAnswer answer =
      CallInChild([] { return std::string(200'000, 'x'); }, kLong);
  EXPECT_EQ(answer.end, ChildAnswer::End::kAnswered);
  EXPECT_EQ(answer.text, std::string(200'000, 'x'));
}

TEST(CallInChildTest, ReportsACrash) {
  const auto crash = []() -> std::string {
    std::raise(SIGKILL);
    return "";
  };
  EXPECT_EQ(CallInChild(crash, kLong).end, ChildAnswer::End::kCrashed);
}

TEST(CallInChildTest, TimesOut) {
  const auto hang = []() -> std::string {
    while (true) ::pause();
  };
  EXPECT_EQ(CallInChild(hang, std::chrono::milliseconds(50)).end,
            ChildAnswer::End::kTooLate);
}

// The caller's handlers must not run in the child, where they would continue as
// a second dtrain.
template <typename Call>
void ExpectNoHandlerInTheChild(Call call) {
  const TemporaryDirectory directory;
  const std::filesystem::path mark = directory.path() / "handler-ran";
  const pid_t parent = ::getpid();
  try {
    call();
  } catch (...) {
    std::ofstream(mark) << "here";
    if (::getpid() != parent) std::_Exit(0);
  }
  EXPECT_FALSE(std::filesystem::exists(mark));
}

TEST(CallInChildTest, AnExceptionIsACrash) {
  ExpectNoHandlerInTheChild([] {
    const auto fail = []() -> std::string { throw std::bad_alloc(); };
    EXPECT_EQ(CallInChild(fail, kLong).end, ChildAnswer::End::kCrashed);
  });
}

TEST(ChildCallTest, AnExceptionIsACrash) {
  ExpectNoHandlerInTheChild([] {
    ChildCall call([]() -> std::string {
      throw Error(ErrorKind::kFailed, "the probe failed");
    });
    EXPECT_EQ(call.Await(kLong).end, ChildAnswer::End::kCrashed);
  });
}

TEST(ForkDetachedTest, AnExceptionEndsTheChild) {
  ExpectNoHandlerInTheChild([] {
    const UniqueFd pipe = ForkDetached([](UniqueFd writing) -> int {
      [[maybe_unused]] const auto written = ::write(writing.get(), "x", 1);
      throw std::runtime_error("failed");
    });
    EXPECT_EQ(ReadUntil(pipe.get(), In(kLong)), "x");
  });
}

TEST(ChildCallTest, ReturnsTheAnswerOnceThereIsOne) {
  const std::string word = "yes";
  ChildCall call([&word] { return word; });
  std::optional<ChildAnswer> answer;
  while (!(answer = call.Poll())) ::poll(nullptr, 0, /*milliseconds=*/1);
  EXPECT_EQ(answer->end, ChildAnswer::End::kAnswered);
  EXPECT_EQ(answer->text, "yes");
}

TEST(ChildCallTest, ReportsACrash) {
  ChildCall call([]() -> std::string {
    std::raise(SIGKILL);
    return "";
  });
  std::optional<ChildAnswer> answer;
  while (!(answer = call.Poll())) ::poll(nullptr, 0, /*milliseconds=*/1);
  EXPECT_EQ(answer->end, ChildAnswer::End::kCrashed);
}

TEST(ChildCallTest, KillsItsChildWhenDestroyed) {
  pid_t child = -1;
  {
    ChildCall call([]() -> std::string {
      while (true) ::pause();
    });
    child = call.pid();
    EXPECT_FALSE(call.Poll());
  }
  EXPECT_EQ(::kill(child, 0), -1);
}

TEST(ForkDetachedTest, ChildHasASessionAndAPipe) {
  const UniqueFd pipe = ForkDetached([](UniqueFd writing) {
    const pid_t answer[] = {::getpid(), ::getsid(0)};
    return ::write(writing.get(), answer, sizeof(answer)) > 0 ? 7 : 1;
  });
  ASSERT_TRUE(pipe);
  pid_t answer[] = {0, 0};
  ASSERT_EQ(::read(pipe.get(), answer, sizeof(answer)),
            static_cast<ssize_t>(sizeof(answer)));
  EXPECT_EQ(answer[0], answer[1]);
  EXPECT_NE(answer[0], ::getpid());
  EXPECT_EQ(AwaitExit(answer[0]).code, 7);
}

TEST(CallInChildTest, ChildInheritsNoDescriptors) {
  static const UniqueFd ours(::fcntl(STDIN_FILENO, F_DUPFD, 100));
  ASSERT_GE(ours.get(), 100);
  const auto ask = [] {
    return std::string(::fcntl(ours.get(), F_GETFD) < 0 ? "closed" : "open");
  };
  EXPECT_EQ(CallInChild(ask, kLong).text, "closed");
}

CapturedRun RunScript(const std::string& script, Duration limit = kLong) {
  return RunCaptured({"sh", "-c", script}, {"WORD=there", "PATH=/usr/bin:/bin"},
                     limit);
}

TEST(RunCapturedTest, ReturnsBothOutputsAndTheExitCode) {
  const CapturedRun run = RunScript("echo hello $WORD; echo no >&2; exit 3");
  EXPECT_EQ(run.end, CapturedRun::End::kExited);
  EXPECT_EQ(run.status.code, 3);
  EXPECT_EQ(run.output, "hello there\n");
  EXPECT_EQ(run.errors, "no\n");
  EXPECT_FALSE(run.succeeded());
  EXPECT_TRUE(RunScript("read line; [ -z \"$line\" ]").succeeded());
}

TEST(RunCapturedTest, ReturnsMoreThanAPipeHolds) {
  EXPECT_EQ(RunScript("head -c 3000000 /dev/zero").output.size(), 3'000'000);
  EXPECT_EQ(RunScript("head -c 300000 /dev/zero >&2").errors.size(), 65536);
}

TEST(RunCapturedTest, NamesTheErrorIfTheProgramIsMissing) {
  const CapturedRun run = RunCaptured({"no-such-program-of-dtrain"}, {}, kLong);
  EXPECT_EQ(run.end, CapturedRun::End::kNotStarted);
  EXPECT_EQ(run.error, ENOENT);
}

TEST(RunCapturedTest, KillsAProgramAndItsChildrenAtTheLimit) {
  const auto limit = std::chrono::milliseconds(300);
  const CapturedRun waits = RunScript("sleep 600 & echo $!; wait", limit);
  EXPECT_EQ(waits.end, CapturedRun::End::kTooLate);
  EXPECT_EQ(waits.status.signal, SIGKILL);
  const CapturedRun silent = RunScript("exec >&- 2>&-; sleep 600", limit);
  EXPECT_EQ(silent.end, CapturedRun::End::kTooLate);
}

}  // namespace
}  // namespace dtrain
