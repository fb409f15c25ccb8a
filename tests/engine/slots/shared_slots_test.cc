// Slots that several users of a machine share. The other user is a child
// process with another ID, which only root can make.

#include "engine/slots/shared_slots.h"

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>

#include "engine/slots/slot_pool.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

constexpr uid_t kOther = 12001;

SlotPool MakePool(double gpu_share) {
  SlotPlan plan{.gpus = {{.index = 0, .uuid = "GPU-x"}},
                .gpu_share = gpu_share};
  return SlotPool(std::move(plan), Clock::System());
}

// A process of another user that takes a slot and keeps it until it is killed.
class OtherUser {
 public:
  explicit OtherUser(double gpu_share) {
    int answer[2];
    EXPECT_EQ(::pipe(answer), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      if (::setuid(kOther) != 0) ::_exit(1);
      SlotPool pool = MakePool(gpu_share);
      const auto lease = pool.TryTake();
      const char taken = lease ? 'y' : 'n';
      if (::write(answer[1], &taken, 1) != 1) ::_exit(1);
      while (true) ::pause();
    }
    ::close(answer[1]);
    char taken = 0;
    EXPECT_EQ(::read(answer[0], &taken, 1), 1);
    ::close(answer[0]);
    has_slot = taken == 'y';
  }
  ~OtherUser() { Kill(); }
  OtherUser(const OtherUser&) = delete;
  OtherUser& operator=(const OtherUser&) = delete;

  void Kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

  pid_t pid() const { return pid_; }

  bool has_slot = false;

 private:
  pid_t pid_ = 0;
};

class SharedSlotsTest : public testing::Test {
 protected:
  SharedSlotsTest() {
    fs::create_directory(runtime_);
    ::chmod(directory_.path().c_str(), 0755);
    ::chmod(runtime_.c_str(), S_ISVTX | 0777);
    ::setenv("DTRAIN_RUNTIME_DIR", runtime_.c_str(), /*replace=*/1);
  }
  ~SharedSlotsTest() override { ::unsetenv("DTRAIN_RUNTIME_DIR"); }
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root has processes of others";
  }

  TemporaryDirectory directory_;
  fs::path runtime_ = directory_.path() / "runtime";
  fs::path shared_ = runtime_ / "dtrain-slots";
};

TEST_F(SharedSlotsTest, AGpuOfAnotherUserIsTakenUntilItsHolderHasEnded) {
  for (const double theirs : {1.0, 0.5, 0.25}) {
    for (const double ours : {1.0, 0.5, 0.25}) {
      OtherUser other(theirs);
      ASSERT_TRUE(other.has_slot);
      SlotPool pool = MakePool(ours);
      EXPECT_FALSE(pool.TryTake()) << theirs << " " << ours;
      const auto uses = SlotsInUse({{.index = 0}}, 0);
      ASSERT_EQ(uses[0].holders.size(), 1u);
      EXPECT_EQ(uses[0].holders[0].user, "user 12001");
      EXPECT_EQ(SlotWaits().at(0).HeldBy(),
                std::vector<std::string>{"user 12001"});
      other.Kill();
      auto lease = pool.TryTake();
      ASSERT_TRUE(lease) << theirs << " " << ours;
      EXPECT_EQ(lease->claims.size(), ours < 1 ? ours * 4 : 1);
      EXPECT_FALSE(OtherUser(theirs).has_slot);
      lease.reset();
      EXPECT_TRUE(OtherUser(theirs).has_slot);
    }
  }
}

TEST_F(SharedSlotsTest, SharesOfOneUserExcludeNoOther) {
  SlotPool pool = MakePool(0.25);
  std::vector<SlotLease> leases;
  for (int i = 0; i < 4; ++i) {
    auto lease = pool.TryTake();
    ASSERT_TRUE(lease) << i;
    leases.push_back(*std::move(lease));
  }
  EXPECT_FALSE(pool.TryTake());
  while (!leases.empty()) {
    EXPECT_FALSE(OtherUser(1).has_slot) << leases.size();
    leases.pop_back();
  }
  EXPECT_TRUE(OtherUser(1).has_slot);
}

TEST_F(SharedSlotsTest, OnlyTheOwnersLockIsBelieved) {
  ASSERT_TRUE(SharedSlots::Open().usable());
  const std::string name = "gpu-0." + std::to_string(kOther);
  std::ofstream(shared_ / name) << "gpu 0 is mine";
  ASSERT_EQ(::chown((shared_ / name).c_str(), kOther, kOther), 0);
  fs::create_symlink("/etc/passwd", shared_ / "gpu-0.7");
  ASSERT_EQ(::mkfifo((shared_ / "gpu-0.8").c_str(), 0666), 0);
  fs::create_directory(shared_ / "gpu-0.9");
  EXPECT_TRUE(SharedSlots::Open().Take("gpu-0"));
}

TEST_F(SharedSlotsTest, WhatAnotherUserPreparedIsNotUsed) {
  struct Case {
    const char* what;
    void (*prepare)(const fs::path& shared);
    bool usable;
  };
  const fs::path target = directory_.path() / "target";
  fs::create_directory(target);
  const std::vector<Case> cases = {
      {"a link",
       [](const fs::path& shared) {
         fs::create_symlink(shared.parent_path().parent_path() / "target",
                            shared);
       },
       false},
      {"a file", [](const fs::path& shared) { std::ofstream(shared) << "x"; },
       false},
      {"without the sticky bit",
       [](const fs::path& shared) {
         fs::create_directory(shared);
         ::chmod(shared.c_str(), 0777);
       },
       false},
      {"a link in place of the own file",
       [](const fs::path& shared) {
         static_cast<void>(SharedSlots::Open());
         std::ofstream(shared.parent_path().parent_path() / "target/x") << "x";
         fs::create_symlink(shared.parent_path().parent_path() / "target/x",
                            shared / "gpu-0.0");
       },
       true},
      {"another's file in place of the own",
       [](const fs::path& shared) {
         static_cast<void>(SharedSlots::Open());
         std::ofstream(shared / "gpu-0.0") << "x";
         EXPECT_EQ(::chown((shared / "gpu-0.0").c_str(), kOther, kOther), 0);
       },
       true},
  };
  for (const Case& it : cases) {
    fs::remove_all(shared_);
    it.prepare(shared_);
    const SharedSlots slots = SharedSlots::Open();
    EXPECT_EQ(slots.usable(), it.usable) << it.what;
    const auto claim = slots.Take("gpu-0");
    ASSERT_TRUE(claim) << it.what;  // nobody holds it
    EXPECT_FALSE(*claim) << it.what;
  }
  EXPECT_EQ(fs::file_size(target / "x"), 1u);
}

// What NVML says of a GPU counts where the slots of others cannot be seen.
TEST_F(SharedSlotsTest, UsersWithoutACommonDirectoryAreWarned) {
  const OtherUser other(1);
  const auto warnings = [](const std::string& settings) {
    ::setenv("FAKE_DRIVER", settings.c_str(), /*replace=*/1);
    const char* const driver = DTRAIN_FAKE_NVML;
    auto search = AskNvidiaDriver({.nvml = driver, .cuda = driver});
    ::unsetenv("FAKE_DRIVER");
    EXPECT_EQ(search.gpus.size(), 2u);
    return search.warnings;
  };
  const std::string used = "pid=" + std::to_string(other.pid());
  EXPECT_THAT(warnings(used), testing::IsEmpty());
  fs::remove_all(shared_);
  std::ofstream(shared_) << "no directory";
  EXPECT_THAT(warnings(used),
              testing::Contains(testing::StartsWith(
                  "GPU 0 (GPU-a) is used by a process of user 12001 (NVML), "
                  "and " +
                  shared_.string())));
  // A process of one's own, and one that has ended.
  EXPECT_THAT(warnings("pid=" + std::to_string(::getpid())),
              testing::IsEmpty());
  EXPECT_THAT(warnings("pid=99999999"), testing::IsEmpty());
}

TEST_F(SharedSlotsTest, ADirectoryOfOnesOwnIsSharedWithNobody) {
  ::chmod(runtime_.c_str(), 0700);
  EXPECT_EQ(SharedSlots::Path(), "");
  EXPECT_FALSE(SharedSlots::Open().usable());
  ::unsetenv("DTRAIN_RUNTIME_DIR");
  EXPECT_EQ(SharedSlots::Path(), "/var/tmp/dtrain-slots");
}

}  // namespace
}  // namespace dtrain
