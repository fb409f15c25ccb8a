#include "engine/run/runner_lock.h"

#include <chrono>
#include <csignal>
#include <fstream>
#include <optional>
#include <thread>

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "engine/os/process.h"
#include "tests/support/patience.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

using ::testing::HasSubstr;

class RunnerLockTest : public ::testing::Test {
 protected:
  std::string Held(const std::filesystem::path& path) {
    try {
      const RunnerLock lock = RunnerLock::Acquire(path);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kStore);
      return error.what();
    }
    return "";
  }

  TemporaryDirectory directory_;
  std::filesystem::path path_ = directory_.path() / "lock";
};

TEST_F(RunnerLockTest, NamesItsHolder) {
  const RunnerLock lock = RunnerLock::Acquire(path_);
  const auto holder = RunnerLock::Holder(path_);
  ASSERT_TRUE(holder);
  EXPECT_EQ(holder->pid, ::getpid());
  EXPECT_FALSE(holder->host.empty());
}

TEST_F(RunnerLockTest, RefusesASecondHolder) {
  const RunnerLock lock = RunnerLock::Acquire(path_);
  const std::string message = Held(path_);
  EXPECT_THAT(message, HasSubstr(path_.string()));
  EXPECT_THAT(message, HasSubstr(std::to_string(::getpid())));
}

TEST_F(RunnerLockTest, IsFreeAfterRelease) {
  { const RunnerLock lock = RunnerLock::Acquire(path_); }
  EXPECT_FALSE(RunnerLock::Holder(path_));
  EXPECT_EQ(Held(path_), "");
}

TEST_F(RunnerLockTest, MissingFileHasNoHolder) {
  EXPECT_FALSE(RunnerLock::Holder(path_));
  EXPECT_FALSE(std::filesystem::exists(path_));
}

// A reader of another user's store must not call a running experiment dead.
TEST_F(RunnerLockTest, CountsAsHeldIfItMayNotBeRead) {
  const RunnerLock lock = RunnerLock::Acquire(path_);
  std::filesystem::permissions(path_, std::filesystem::perms::none);
  constexpr uid_t kNobody = 65534;
  const bool is_root = ::geteuid() == 0;
  if (is_root) {
    ASSERT_EQ(::seteuid(kNobody), 0);
  }
  const auto holder = RunnerLock::Holder(path_);
  if (is_root) {
    ASSERT_EQ(::seteuid(0), 0);
  }
  ASSERT_TRUE(holder);
  EXPECT_EQ(holder->pid, 0);
}

TEST_F(RunnerLockTest, AcceptsAHolderWithoutAName) {
  const RunnerLock lock = RunnerLock::Acquire(path_);
  std::ofstream(path_) << "{\"pid\": \"x\", \"host\": 3}";
  const auto holder = RunnerLock::Holder(path_);
  ASSERT_TRUE(holder);
  EXPECT_EQ(holder->pid, 0);
  EXPECT_THAT(Held(path_), HasSubstr("another process"));
}

TEST_F(RunnerLockTest, IsFreeWhenTheHolderIsKilled) {
  const pid_t holder = ::fork();
  if (holder == 0) {
    const RunnerLock lock = RunnerLock::Acquire(path_);
    std::raise(SIGKILL);
  }
  ::waitpid(holder, nullptr, 0);
  EXPECT_FALSE(RunnerLock::Holder(path_));
}

// A process that was killed keeps its locks until its memory is freed.
TEST_F(RunnerLockTest, WaitsForAnExitingHolder) {
  const pid_t gone = ::fork();
  if (gone == 0) ::_exit(0);
  ::waitpid(gone, nullptr, 0);
  std::optional<RunnerLock> lock = RunnerLock::Acquire(path_);
  const std::string host = RunnerLock::Holder(path_)->host;
  std::ofstream(path_) << nlohmann::json({{"pid", gone}, {"host", host}});
  std::thread kernel([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    lock.reset();
  });
  EXPECT_EQ(Held(path_), "");
  kernel.join();
}

TEST_F(RunnerLockTest, DoesNotWaitForALiveHolder) {
  const RunnerLock lock = RunnerLock::Acquire(path_);
  // It waits two seconds for an exiting one.
  EXPECT_TRUE(IsOnceFasterThan(std::chrono::seconds(1),
                               [&] { EXPECT_NE(Held(path_), ""); }));
}

TEST_F(RunnerLockTest, FileIsPrivate) {
  const RunnerLock lock = RunnerLock::Acquire(path_);
  struct stat status {};
  ASSERT_EQ(::stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
}

TEST_F(RunnerLockTest, FollowsNoSymlink) {
  std::filesystem::create_symlink(directory_.path() / "elsewhere", path_);
  EXPECT_THAT(Held(path_), HasSubstr("cannot open"));
  EXPECT_FALSE(std::filesystem::exists(directory_.path() / "elsewhere"));
}

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
        TrialsLock::Acquire(path_, {}, kBoot, milliseconds(0)));
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
      TrialsLock::Acquire(path_, {Row()}, kBoot, std::chrono::seconds(60));

  EXPECT_GE(lock.fd(), 0);
  const int status = Status();
  EXPECT_TRUE(WIFEXITED(status)) << "it was given its time";
}

TEST_F(TrialsLockTest, KillsTrialsThatStayTooLong) {
  StartTrial(std::chrono::minutes(10));

  const TrialsLock lock =
      TrialsLock::Acquire(path_, {Row()}, kBoot, milliseconds(50));

  const int status = Status();
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

TEST_F(TrialsLockTest, KillsOnlyIdentifiedTrials) {
  StartTrial(milliseconds(300));
  TrialRow other_start = Row();
  other_start.pid_start += 1;
  TrialRow other_boot = Row();
  other_boot.boot_id = "another boot";

  const TrialsLock lock = TrialsLock::Acquire(path_, {other_start, other_boot},
                                              kBoot, milliseconds(10));

  EXPECT_TRUE(WIFEXITED(Status()));
}

}  // namespace

}  // namespace dtrain
