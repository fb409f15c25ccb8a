#include <algorithm>
#include <csignal>
#include <cstdlib>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>

#include "engine/os/process.h"
#include "engine/os/unique_fd.h"
#include "tests/engine/process/launcher_fixture.h"

namespace dtrain {
namespace {

using ::testing::SizeIs;

constexpr Duration kGoneWithin = std::chrono::seconds(2);

/// A runner in a process of its own, which the test may kill.
class RunnerDeathTest : public LauncherFixture {
 protected:
  /// Gives the runner's pid once both of its trials have said Ready.
  pid_t StartRunner(const std::string& behaviour) {
    return StartRunner(Options(2),
                       {Spec(behaviour, /*number=*/1), Spec(behaviour, 2)});
  }

  pid_t StartRunner(LocalLauncherOptions options,
                    const std::vector<TrialSpec>& trials) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return -1;
    const UniqueFd reader(ends[0]);
    UniqueFd writer(ends[1]);
    const pid_t runner = ::fork();
    if (runner == 0) Run(std::move(options), trials, writer.get());
    writer.reset();
    char byte = 0;
    return ::read(reader.get(), &byte, 1) == 1 ? runner : -1;
  }

  static void KillAndReap(pid_t runner) {
    ::kill(runner, SIGKILL);
    ::waitpid(runner, nullptr, 0);
  }

  static std::vector<std::int64_t> Living() {
    return LivingProcesses(Experiment());
  }

  /// Children of trials whose environment does not say where they come from.
  static std::vector<Process> HiddenDaemons() {
    const std::vector<std::int64_t> marked = Living();
    std::vector<Process> daemons;
    for (const Process& process : ReadProcesses()) {
      if (!process.zombie &&
          std::count(marked.begin(), marked.end(), process.parent) > 0 &&
          std::count(marked.begin(), marked.end(), process.pid) == 0) {
        daemons.push_back(process);
      }
    }
    return daemons;
  }

  static bool Lives(const Process& process) {
    const auto now = ReadProcess(process.pid);
    return now && !now->zombie && now->start_ticks == process.start_ticks;
  }

 private:
  [[noreturn]] void Run(LocalLauncherOptions options,
                        const std::vector<TrialSpec>& trials, int ready) {
    const auto launcher = MakeLocalLauncher(std::move(options));
    for (const TrialSpec& trial : trials) launcher->Start(trial);
    for (std::size_t i = 0; i < trials.size(); ++i) {
      AwaitMessage<Ready>(*launcher);
    }
    if (::write(ready, "r", 1) != 1) ::_exit(1);
    while (true) launcher->Wait(kLong);
  }
};

TEST_F(RunnerDeathTest, TrialsThatReadTheirSocketEndAtOnce) {
  const pid_t runner = StartRunner("echo");
  ASSERT_GT(runner, 0);
  EXPECT_THAT(Living(), SizeIs(3)) << "the host and two trials";
  KillAndReap(runner);
  EXPECT_TRUE(
      Within(std::chrono::milliseconds(900), [] { return Living().empty(); }));
}

TEST_F(RunnerDeathTest, TrialsThatHangAreKilled) {
  const pid_t runner = StartRunner("hang");
  ASSERT_GT(runner, 0);
  KillAndReap(runner);
  EXPECT_TRUE(Within(kGoneWithin, [] { return Living().empty(); }));
}

TEST_F(RunnerDeathTest, MonitorEnds) {
  LocalLauncherOptions options = Options();
  options.system_period = std::chrono::milliseconds(10);
  const pid_t runner = StartRunner(std::move(options), {Spec("hang")});
  ASSERT_GT(runner, 0);
  const std::vector<std::int64_t> marked = Living();
  std::vector<Process> monitors;
  for (const Process& process : ReadProcesses()) {
    if (process.parent == runner &&
        std::count(marked.begin(), marked.end(), process.pid) == 0) {
      monitors.push_back(process);
    }
  }
  ASSERT_THAT(monitors, SizeIs(1));
  KillAndReap(runner);
  EXPECT_TRUE(
      Within(kGoneWithin, [&monitors] { return !Lives(monitors.front()); }));
}

TEST_F(RunnerDeathTest, AllRanksThatHangAreKilled) {
  const pid_t runner = StartRunner(TwoRankOptions(), {TwoRanks("hang")});
  ASSERT_GT(runner, 0);
  ASSERT_TRUE(Within(kLong, [] { return Living().size() == 3; }))
      << "the host and two ranks";
  KillAndReap(runner);
  EXPECT_TRUE(Within(kGoneWithin, [] { return Living().empty(); }));
}

TEST_F(RunnerDeathTest, DaemonsOfTrialsAreKilled) {
  const pid_t runner = StartRunner("daemons and stay");
  ASSERT_GT(runner, 0);
  std::vector<Process> daemons;
  ASSERT_TRUE(Within(kLong, [&daemons] {
    daemons = HiddenDaemons();
    return daemons.size() == 2;
  }));
  KillAndReap(runner);
  EXPECT_TRUE(Within(kGoneWithin, [&daemons] {
    return Living().empty() &&
           std::none_of(daemons.begin(), daemons.end(), Lives);
  }));
}

TEST_F(RunnerDeathTest, TrialsOfAnEarlierHostAreKilled) {
  const pid_t runner = StartRunner("hang");
  ASSERT_GT(runner, 0);
  const std::vector<std::int64_t> started = Living();
  ASSERT_THAT(started, SizeIs(3)) << "the host and two trials";
  // It came before its trials, whose PIDs may be lower.
  const std::int64_t host = *std::ranges::min_element(
      started, {},
      [](std::int64_t pid) { return ReadProcess(pid)->start_ticks; });
  ::kill(static_cast<pid_t>(host), SIGKILL);
  ASSERT_TRUE(Within(kLong, [host] {
    const std::vector<std::int64_t> living = Living();
    return living.size() == 3 &&
           std::count(living.begin(), living.end(), host) == 0;
  }));
  KillAndReap(runner);
  EXPECT_TRUE(Within(kGoneWithin, [] { return Living().empty(); }));
}

}  // namespace
}  // namespace dtrain
