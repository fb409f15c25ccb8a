#include "engine/os/process.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class FindProgramTest : public testing::Test {
 protected:
  FindProgramTest() {
    MakeProgram("bin/tool");
    MakeProgram("other/tool");
    MakeProgram("run.sh");
    std::ofstream(directory_.path() / "bin" / "text");
  }

  void MakeProgram(const std::string& name) {
    const fs::path path = directory_.path() / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path).flush();
    fs::permissions(path, fs::perms::owner_all);
  }
  // Returns the path relative to the directory, or the error.
  std::string Find(const std::string& word, const std::string& path) {
    try {
      return FindProgram(word, directory_.path(), path)
          .lexically_relative(directory_.path());
    } catch (const Error& error) {
      return error.what();
    }
  }

  TemporaryDirectory directory_;
};

TEST_F(FindProgramTest, ReportsTheProblem) {
  EXPECT_THAT(Find("none", "bin:other"),
              HasSubstr("there is no program 'none' in PATH (bin:other)"));
  EXPECT_THAT(Find("text", "bin"), HasSubstr("there is no program 'text'"));
  EXPECT_THAT(Find("./none", "bin"), HasSubstr("there is no such file"));
  EXPECT_THAT(Find("bin/text", ""), HasSubstr("chmod +x"));
  EXPECT_THAT(Find("./bin", ""), HasSubstr("is not a regular file"));
  EXPECT_THAT(Find("\x1b[2J", ""), HasSubstr("'\\x1b[2J'"));
}

TEST_F(FindProgramTest, TakesTheFirstInPath) {
  EXPECT_EQ(Find("tool", "none:other:bin"), "other/tool");
  EXPECT_EQ(Find("tool", (directory_.path() / "bin").string()), "bin/tool");
}

TEST_F(FindProgramTest, EmptyPartIsTheWorkingDirectory) {
  EXPECT_EQ(Find("run.sh", "bin:"), "run.sh");
  EXPECT_THAT(Find("run.sh", "bin"), HasSubstr("./run.sh"));
}

TEST_F(FindProgramTest, NameWithASlashIsAPath) {
  EXPECT_EQ(Find("./run.sh", ""), "run.sh");
  EXPECT_EQ(Find("bin/tool", "other"), "bin/tool");
  EXPECT_EQ(Find((directory_.path() / "run.sh").string(), ""), "run.sh");
}

TEST(ProcessTableTest, DescribesThisProcess) {
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

TEST(ProcessTableTest, RecognizesZombies) {
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
