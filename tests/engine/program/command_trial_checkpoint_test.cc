// Checkpoints of a program: taken over, given back, damaged.

#include <atomic>
#include <chrono>
#include <fstream>
#include <string>
#include <thread>

#include <dlfcn.h>
#include <sys/statvfs.h>

#include <gmock/gmock.h>

#include "engine/base/error.h"
#include "engine/checkpoint/checkpoint_files.h"
#include "tests/engine/program/command_trial_fixture.h"
#include "tests/support/patience.h"

namespace {

// While set, statvfs and fstatvfs find no free bytes and inodes on any disk.
std::atomic<bool> disks_are_full = false;

template <typename Where>
int FakeStatvfs(const char* function, Where where, struct statvfs* system) {
  using Function = int (*)(Where, struct statvfs*);
  const auto real = reinterpret_cast<Function>(::dlsym(RTLD_NEXT, function));
  const int result = real(where, system);
  if (result == 0 && disks_are_full) {
    system->f_bfree = system->f_bavail = 0;
    system->f_ffree = system->f_favail = 0;
  }
  return result;
}

}  // namespace

// An executable's functions come before those of the libraries that it loads.
extern "C" __attribute__((visibility("default"))) int statvfs(
    const char* path, struct statvfs* system) {
  return FakeStatvfs("statvfs", path, system);
}
extern "C" __attribute__((visibility("default"))) int fstatvfs(
    int file, struct statvfs* system) {
  return FakeStatvfs("fstatvfs", file, system);
}

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class CommandCheckpointTest : public CommandTrialTest {
 protected:
  // A script that reports a checkpoint of `path` at batch 5, and is done.
  static std::string Report(const std::string& path) {
    return "echo '{\"type\":\"checkpoint\",\"batches\":5,\"path\":\"'" + path +
           "'\"}' >&3\n"
           "echo '{\"type\":\"validation\",\"batches\":10,\"metrics\":{"
           "\"loss\":1}}' >&3\n";
  }
  fs::path CheckpointPath(const std::string& uuid) const {
    return fs::path(spec_.directory) / "checkpoints" / uuid;
  }
  // Returns the checkpoint of a run that saved two files.
  std::string Save() {
    Run("d=$DTRAIN_DIRECTORY/5; mkdir -p $d/sub; echo one > $d/a; "
        "echo two > $d/sub/b\n" +
        Report("$DTRAIN_DIRECTORY/5"));
    const auto saved = Messages<CheckpointSaved>();
    return saved.size() == 1 ? saved[0].uuid : "none was saved: " + Log();
  }
};

TEST_F(CommandCheckpointTest, CopiesADirectoryWithAllFiles) {
  const std::string uuid = Save();
  const CheckpointFiles files = CheckpointFiles::Read(CheckpointPath(uuid));
  EXPECT_TRUE(files.Has("files/a"));
  EXPECT_TRUE(files.Has("files/sub/b"));
  const CheckpointSummary summary = SummarizeCheckpoint(CheckpointPath(uuid));
  EXPECT_EQ(summary.batches, 5);
  EXPECT_THAT(summary.files, SizeIs(4));
  EXPECT_EQ(summary.files, Messages<CheckpointSaved>()[0].files);
}

// True if the kernel reports the process as stopped; the file holds its PID.
bool IsStopped(const fs::path& pid_file) {
  std::string pid;
  std::ifstream(pid_file) >> pid;
  std::string number, name, state;
  std::ifstream("/proc/" + pid + "/stat") >> number >> name >> state;
  return state == "T";
}

// The first of two that do not fit is given up.
TEST_F(CommandCheckpointTest, StopsTheProgramWhileTheDiskIsFull) {
  disks_are_full = true;
  bool stopped = false;
  answer_ = [&](const TrialMessage& message) -> std::optional<RunnerMessage> {
    const auto* failed = std::get_if<CheckpointFailed>(&message);
    if (failed == nullptr || !failed->waits) return std::nullopt;
    const auto until =
        std::chrono::steady_clock::now() + Patient(std::chrono::seconds(60));
    while (!stopped && std::chrono::steady_clock::now() < until) {
      stopped = IsStopped(directory_.path() / "pid");
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    disks_are_full = false;
    std::ofstream(directory_.path() / "seen");
    return std::nullopt;
  };
  const CommandEnd end = Run(
      "echo $$ > pid\n"
      "for i in 4 5; do\n"
      "  mkdir -p $DTRAIN_DIRECTORY/$i; echo $i > $DTRAIN_DIRECTORY/$i/a\n"
      "  echo '{\"type\":\"checkpoint\",\"batches\":'$i',"
      "\"path\":\"'$DTRAIN_DIRECTORY/$i'\"}' >&3\n"
      "done\n"
      // Starts no process: a shell whose child is stopped before its exec
      // waits for it, and is not stopped itself.
      "i=0; while [ ! -e seen ] && [ $i -lt 3000000 ]; do i=$((i+1)); done\n"
      "echo '{\"type\":\"validation\",\"batches\":10,\"metrics\":{"
      "\"loss\":1}}' >&3\n");
  disks_are_full = false;
  EXPECT_TRUE(stopped) << Log();
  EXPECT_EQ(EndText(end), "stopped") << Log();
  ASSERT_THAT(Messages<CheckpointSaved>(), SizeIs(1)) << Log();
  EXPECT_EQ(Messages<CheckpointSaved>()[0].batches, 5);
}

TEST_F(CommandCheckpointTest, IsRestored) {
  spec_.restore = Save();
  const CommandEnd end =
      Run("cat $DTRAIN_CHECKPOINT/a $DTRAIN_CHECKPOINT/sub/b >&2\n"
          "echo done $DTRAIN_DONE >&2\n"
          "python3 -c 'import json, os; print(json.load(open(os.environ["
          "\"DTRAIN_TRIAL\"]))[\"checkpoint\"][\"batches\"])' >&2\n" +
          Report("/none"));
  EXPECT_EQ(EndText(end), "stopped");
  EXPECT_THAT(Log(), HasSubstr("one\ntwo\ndone 5\n5\n"));
  EXPECT_EQ(Messages<Progress>()[0].batches, 5);
}

TEST_F(CommandCheckpointTest, UnacknowledgedReportsAreSentAgain) {
  acknowledges_ = false;
  Run("echo '{\"type\":\"training\",\"batches\":4,\"metrics\":{\"loss\":2}}' "
      ">&3; echo > x\n" +
      Report("x"));
  ASSERT_THAT(Messages<CheckpointSaved>(), SizeIs(1)) << Log();
  spec_.restore = Messages<CheckpointSaved>()[0].uuid;
  acknowledges_ = true;

  Run("exit 0");

  ASSERT_THAT(Messages<TrainingReport>(), SizeIs(1));
  EXPECT_EQ(Messages<TrainingReport>()[0].batches, 4);
}

// A checkpoint at batch 10, the length, with its validation.
constexpr char kValidated[] =
    "echo > x; echo '{\"type\":\"unread\",\"names\":[\"lr\"]}' >&3\n"
    "echo '{\"type\":\"checkpoint\",\"batches\":10,\"path\":\"x\","
    "\"validation\":{\"loss\":0.5}}' >&3\n";

TEST_F(CommandCheckpointTest, CarriesTheValidationOfItsCount) {
  EXPECT_EQ(EndText(Run(kValidated)), "stopped") << Log();
  const auto saved = Messages<CheckpointSaved>();
  ASSERT_THAT(saved, SizeIs(1)) << Log();
  ASSERT_THAT(Messages<ValidationReport>(), SizeIs(1)) << Log();
  const auto completed = Messages<OperationCompleted>();
  ASSERT_THAT(completed, SizeIs(1)) << Log();
  EXPECT_LT(saved[0].seq, Messages<ValidationReport>()[0].seq);
  EXPECT_LT(Messages<ValidationReport>()[0].seq, completed[0].seq);

  // Its runner had recorded nothing of it: the next process does not train, and
  // completes the operation by the value of the first.
  spec_.restore = saved[0].uuid;
  EXPECT_EQ(
      EndText(Run("python3 -c 'import json, os; print(json.load(open("
                  "os.environ[\"DTRAIN_TRIAL\"]))[\"checkpoint\"])' >&2\n")),
      "stopped")
      << Log();
  EXPECT_THAT(Log(), HasSubstr("'validated': True")) << Log();
  ASSERT_THAT(Messages<ValidationReport>(), SizeIs(1)) << Log();
  EXPECT_EQ(Messages<ValidationReport>()[0].metrics,
            (MetricValues{{"loss", 0.5}}));
  EXPECT_EQ(Messages<ValidationReport>()[0].unread,
            std::vector<std::string>{"lr"});
  EXPECT_THAT(Messages<OperationCompleted>(), SizeIs(1)) << Log();
}

TEST_F(CommandCheckpointTest, TheValidationOfOneThatCannotBeSavedCounts) {
  EXPECT_EQ(EndText(Run("mkfifo x\n" + std::string(kValidated).substr(9))),
            "stopped")
      << Log();
  EXPECT_THAT(Messages<CheckpointSaved>(), IsEmpty());
  EXPECT_THAT(Messages<ValidationReport>(), SizeIs(1)) << Log();
  EXPECT_THAT(Messages<OperationCompleted>(), SizeIs(1)) << Log();
}

TEST_F(CommandCheckpointTest, EarlyStoppingCountsTheValidationOfTheCheckpoint) {
  spec_.settings.early_stopping =
      EarlyStopping{.metric = "loss", .patience = 1};
  Run("echo > x\n"
      "echo '{\"type\":\"validation\",\"batches\":4,\"metrics\":{"
      "\"loss\":1}}' >&3\n"
      "echo '{\"type\":\"checkpoint\",\"batches\":5,\"path\":\"x\","
      "\"validation\":{\"loss\":2}}' >&3\n");
  ASSERT_THAT(Messages<CheckpointSaved>(), SizeIs(1)) << Log();
  EXPECT_THAT(Messages<OperationCompleted>(), SizeIs(1)) << Log();

  spec_.restore = Messages<CheckpointSaved>()[0].uuid;
  Run("exit 0");
  const auto completed = Messages<OperationCompleted>();
  ASSERT_THAT(completed, SizeIs(1)) << Log();
  EXPECT_TRUE(completed[0].early);
  EXPECT_THAT(completed[0].why_early, HasSubstr("did not improve once"));
}

// The reports of the checkpoint's count that a program makes after it.
TEST_F(CommandCheckpointTest, KeepsReportsThatNoRunnerReceived) {
  acknowledges_ = false;
  dies_at_ = [](const TrialMessage& message) {
    return std::holds_alternative<CheckpointSaved>(message);
  };
  Run("echo > x\n"
      "echo '{\"type\":\"checkpoint\",\"batches\":10,\"path\":\"x\"}' >&3\n"
      "read stop <&4\n"
      "echo '{\"type\":\"training\",\"batches\":10,\"metrics\":{\"loss\":2}}' "
      ">&3\n"
      "echo '{\"type\":\"validation\",\"batches\":10,\"metrics\":{"
      "\"loss\":0.5}}' >&3\n");
  ASSERT_THAT(Messages<CheckpointSaved>(), SizeIs(1)) << Log();
  spec_.restore = Messages<CheckpointSaved>()[0].uuid;
  acknowledges_ = true;
  dies_at_ = nullptr;

  Run("exit 0");

  EXPECT_THAT(Messages<TrainingReport>(), SizeIs(1)) << Log();
  EXPECT_THAT(Messages<ValidationReport>(), SizeIs(1)) << Log();
  EXPECT_THAT(Messages<OperationCompleted>(), SizeIs(1)) << Log();
}

TEST_F(CommandCheckpointTest, DetectsDamage) {
  const std::string uuid = Save();
  spec_.restore = uuid;
  std::ofstream(CheckpointPath(uuid) / "files" / "sub" / "b") << "too";
  try {
    Run("");
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kDamaged);
    EXPECT_THAT(error.what(), HasSubstr("files/sub/b"));
  }
}

TEST_F(CommandCheckpointTest, LinksAreNotFollowed) {
  const std::string uuid = Save();
  spec_.restore = uuid;
  const fs::path sub = CheckpointPath(uuid) / "files" / "sub";
  fs::rename(sub, directory_.path() / "sub");
  fs::create_directory_symlink(directory_.path() / "sub", sub);
  EXPECT_THROW(Run(""), Error);
}

TEST_F(CommandCheckpointTest, SourceIsRemovedOnceCopied) {
  Run("echo x > $DTRAIN_DIRECTORY/x; echo y > y\n" +
      Report("$DTRAIN_DIRECTORY/x") +
      "for i in $(seq 600); do [ -e $DTRAIN_DIRECTORY/x ] || break; sleep 0.1; "
      "done; [ -e $DTRAIN_DIRECTORY/x ] && echo still there >&2\n");
  EXPECT_THAT(Messages<CheckpointSaved>(), SizeIs(1));
  EXPECT_THAT(Log(), testing::Not(HasSubstr("still there")));
  Run("echo y > y\n" + Report("y"));
  EXPECT_THAT(Messages<CheckpointSaved>(), SizeIs(1)) << Log();
  EXPECT_TRUE(fs::exists(directory_.path() / "y"));
}

TEST_F(CommandCheckpointTest, TrainingContinuesAfterAnInvalidCheckpoint) {
  for (const char* script :
       {"P=$DTRAIN_DIRECTORY/none", "P=$DTRAIN_DIRECTORY/d; mkdir $P",
        "P=$DTRAIN_DIRECTORY/d; mkdir $P; ln -s /etc/hostname $P/link",
        "P=$DTRAIN_DIRECTORY/d; mkdir $P; mkfifo $P/pipe",
        // dtrain's own environment, and other things of the kernel.
        "P=/proc/self/environ", "P=/sys/kernel/uevent_seqnum"}) {
    const CommandEnd end = Run(std::string(script) + "\n" + Report("$P"));
    EXPECT_EQ(EndText(end), "stopped") << script;
    EXPECT_THAT(Messages<CheckpointSaved>(), IsEmpty()) << script;
    EXPECT_THAT(Log(), HasSubstr("checkpoint at 5 of 10 batches was not saved"))
        << script;
  }
  const fs::path checkpoints = fs::path(spec_.directory) / "checkpoints";
  EXPECT_TRUE(!fs::exists(checkpoints) || fs::is_empty(checkpoints));
}

TEST_F(CommandCheckpointTest, IsAnArgumentWhereThePlaceholderIs) {
  spec_.restore = Save();
  spec_.command = {"sh", "program.sh", "--resume={checkpoint}"};
  spec_.placeholders = true;
  Run("echo \"$1\" >&2; cat \"${1#--resume=}/a\" >&2\n");
  EXPECT_THAT(Log(),
              HasSubstr("--resume=" +
                        (CheckpointPath(spec_.restore) / "files").string() +
                        "\none\n"));
}

}  // namespace
}  // namespace dtrain
