#include "engine/run/trials_lock.h"

#include <csignal>

#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "engine/os/process.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

class TrialsLockTest : public testing::Test {
 protected:
  ~TrialsLockTest() override {
    if (trial_ == 0) return;
    ::kill(trial_, SIGKILL);
    ::waitpid(trial_, nullptr, 0);
  }

  // A process that holds the lock, as a trial does, for `life`.
  void StartTrial(milliseconds life) {
    auto lock = std::make_unique<TrialsLock>(
        TrialsLock::Take(path_, {}, kBoot, milliseconds(0)));
    trial_ = ::fork();
    if (trial_ == 0) {
      ::setsid();
      ::usleep(static_cast<useconds_t>(life.count() * 1000));
      ::_exit(0);
    }
  }
  TrialRow Row() const {
    // Its session is its own by now, or will be in a moment.
    const auto process = ReadProcess(trial_);
    return {.pid = trial_, .pid_start = process->start_ticks, .boot_id = kBoot};
  }
  int Status() {
    int status = 0;
    ::waitpid(std::exchange(trial_, 0), &status, 0);
    return status;
  }

  static constexpr const char* kBoot = "this boot";
  TemporaryDirectory directory_;
  std::filesystem::path path_ = directory_.path() / "trials.lock";
  pid_t trial_ = 0;
};

TEST_F(TrialsLockTest, WaitsForTheTrialsOfTheLastRun) {
  StartTrial(milliseconds(200));

  const TrialsLock lock =
      TrialsLock::Take(path_, {Row()}, kBoot, std::chrono::seconds(60));

  EXPECT_GE(lock.fd(), 0);
  const int status = Status();
  EXPECT_TRUE(WIFEXITED(status)) << "it was given its time";
}

TEST_F(TrialsLockTest, KillsWhatStaysTooLong) {
  StartTrial(std::chrono::minutes(10));

  const TrialsLock lock =
      TrialsLock::Take(path_, {Row()}, kBoot, milliseconds(50));

  const int status = Status();
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

TEST_F(TrialsLockTest, KillsNobodyWhoIsNotSurelyATrial) {
  StartTrial(milliseconds(300));
  TrialRow other_start = Row();
  other_start.pid_start += 1;
  TrialRow other_boot = Row();
  other_boot.boot_id = "another boot";

  const TrialsLock lock = TrialsLock::Take(path_, {other_start, other_boot},
                                           kBoot, milliseconds(10));

  EXPECT_TRUE(WIFEXITED(Status()));
}

}  // namespace
}  // namespace dtrain
