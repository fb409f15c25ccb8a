#include "engine/process/mps.h"

#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>

#include "engine/os/process.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

/// A machine of the test's own: its environment, the directory of MPS's pipes
/// and programs on the path.
class MpsTest : public ::testing::Test {
 protected:
  MpsTest() {
    fs::create_directory(pipes_);
    fs::create_directory(programs_);
    variables_["CUDA_MPS_PIPE_DIRECTORY"] = pipes_.string();
    variables_["PATH"] = "/none:" + programs_.string();
  }

  void MakeControl() {
    ASSERT_EQ(::mkfifo((pipes_ / "control").c_str(), 0600), 0);
  }
  void WritePid(const std::string& text) {
    std::ofstream(pipes_ / "nvidia-cuda-mps-control.pid") << text;
  }
  /// Pretends that the daemon runs, with the PID of this process.
  void Run() {
    MakeControl();
    WritePid(std::to_string(::getpid()) + "\n");
  }
  void Install() {
    const fs::path program = programs_ / "nvidia-cuda-mps-control";
    std::ofstream(program) << "#!/bin/false\n";
    fs::permissions(program, fs::perms::owner_all);
  }
  ReadVariable Environment() {
    return [this](const char* name) -> std::optional<std::string> {
      const auto found = variables_.find(name);
      if (found == variables_.end()) return std::nullopt;
      return found->second;
    };
  }

  TemporaryDirectory directory_;
  fs::path pipes_ = directory_.path() / "pipes";
  fs::path programs_ = directory_.path() / "programs";
  std::map<std::string, std::string> variables_;
};

TEST_F(MpsTest, DoesNotRunIfItsDirectoryIsEmptyOrMissing) {
  EXPECT_FALSE(MpsRuns(Environment()));
  variables_["CUDA_MPS_PIPE_DIRECTORY"] = "/none";
  EXPECT_FALSE(MpsRuns(Environment()));
}

TEST_F(MpsTest, DoesNotRunWithoutItsControlOrItsPid) {
  WritePid(std::to_string(::getpid()));
  EXPECT_FALSE(MpsRuns(Environment()));
  std::ofstream(pipes_ / "control") << "a file";
  EXPECT_FALSE(MpsRuns(Environment()));
  fs::remove(pipes_ / "control");
  fs::remove(pipes_ / "nvidia-cuda-mps-control.pid");
  MakeControl();
  EXPECT_FALSE(MpsRuns(Environment()));
}

TEST_F(MpsTest, DoesNotRunIfItsPidIsUnused) {
  const pid_t dead = ::fork();
  if (dead == 0) ::_exit(0);
  ::waitpid(dead, nullptr, 0);
  MakeControl();
  WritePid(std::to_string(dead));
  EXPECT_FALSE(MpsRuns(Environment()));
  WritePid("not a number");
  EXPECT_FALSE(MpsRuns(Environment()));
  WritePid("-1");
  EXPECT_FALSE(MpsRuns(Environment())) << "that would be everybody";
  WritePid("4294967295");
  EXPECT_FALSE(MpsRuns(Environment())) << "so would that";
}

TEST_F(MpsTest, PipeInPlaceOfThePidDoesNotBlock) {
  MakeControl();
  const fs::path pid = pipes_ / "nvidia-cuda-mps-control.pid";
  ASSERT_EQ(::mkfifo(pid.c_str(), 0600), 0);
  EXPECT_FALSE(MpsRuns(Environment()));
}

TEST_F(MpsTest, RunsIfItsControlExistsAndItsProcessLives) {
  Run();
  EXPECT_TRUE(MpsRuns(Environment()));
  WritePid("1");
  EXPECT_TRUE(MpsRuns(Environment())) << "another user's, as a rule";
}

TEST_F(MpsTest, QuarterMayUseHalfOfTheMultiprocessors) {
  Run();
  EXPECT_THAT(MpsVariables(0.25, Environment()),
              ElementsAre(Pair("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "50")));
}

TEST_F(MpsTest, LargerSharesAndWholeGpusHaveNoLimit) {
  Run();
  EXPECT_THAT(MpsVariables(0.5, Environment()), IsEmpty());
  EXPECT_THAT(MpsVariables(0.75, Environment()), IsEmpty());
  EXPECT_THAT(MpsVariables(1, Environment()), IsEmpty());
}

TEST_F(MpsTest, WithoutADaemonNothingIsSet) {
  EXPECT_THAT(MpsVariables(0.25, Environment()), IsEmpty());
}

TEST_F(MpsTest, KeepsTheUsersSettings) {
  Run();
  variables_["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = "30";
  EXPECT_THAT(MpsVariables(0.25, Environment()), IsEmpty());
}

TEST_F(MpsTest, AdvisesToStartAnInstalledDaemon) {
  Install();
  EXPECT_THAT(MpsAdvice(0.5, Environment()),
              HasSubstr("start one with 'nvidia-cuda-mps-control -d'"));
}

TEST_F(MpsTest, GivesNoAdviceWithoutAGain) {
  EXPECT_EQ(MpsAdvice(0.25, Environment()), "") << "it is not installed";
  variables_.erase("PATH");
  EXPECT_EQ(MpsAdvice(0.25, Environment()), "");
  variables_["PATH"] = programs_.string();
  Install();
  EXPECT_EQ(MpsAdvice(1, Environment()), "") << "no GPU is shared";
  Run();
  EXPECT_EQ(MpsAdvice(0.25, Environment()), "") << "it runs";
}

TEST_F(MpsTest, VariablesOfTrialsOverrideThoseOfThisProcess) {
  const ReadVariable variable =
      VariablesWith({{"HOME", "/first"}, {"HOME", "/second"}});
  EXPECT_EQ(variable("HOME"), "/first");
  EXPECT_EQ(variable("PATH"), ProcessVariable("PATH"));
  EXPECT_EQ(variable("DTRAIN_NO_SUCH_VARIABLE"), std::nullopt);
}

}  // namespace
}  // namespace dtrain
