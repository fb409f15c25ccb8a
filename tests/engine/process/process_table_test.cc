#include "engine/process/process_table.h"

#include <algorithm>

#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

namespace dtrain {
namespace {

TEST(ProcessTableTest, KnowsThisProcess) {
  const auto process = ReadProcess(::getpid());
  ASSERT_TRUE(process);
  EXPECT_EQ(process->pid, ::getpid());
  EXPECT_EQ(process->parent, ::getppid());
  EXPECT_EQ(process->session, ::getsid(0));
  EXPECT_GT(process->start_ticks, 0);
  EXPECT_FALSE(process->zombie);
}

TEST(ProcessTableTest, ListsThisProcess) {
  const auto processes = ReadProcesses();
  EXPECT_TRUE(std::any_of(
      processes.begin(), processes.end(),
      [](const Process& process) { return process.pid == ::getpid(); }));
}

TEST(ProcessTableTest, TellsZombies) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  siginfo_t info{};
  ::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT);
  EXPECT_TRUE(ReadProcess(child)->zombie);
  ::waitpid(child, nullptr, 0);
  EXPECT_FALSE(ReadProcess(child));
}

TEST(ProcessTableTest, FindsWholeAssignmentsOnly) {
  const std::string path = "PATH=" + std::string(::getenv("PATH"));
  EXPECT_TRUE(WasStartedWith(::getpid(), path));
  EXPECT_FALSE(WasStartedWith(::getpid(), path + "x"));
  EXPECT_FALSE(WasStartedWith(::getpid(), "PATH="));
}

}  // namespace
}  // namespace dtrain
