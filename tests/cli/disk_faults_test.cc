// Faults of disks: full ones, failing system calls, and a lack of inodes.

#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/cli_runner.h"
#include "tests/support/fault_run.h"
#include "tests/support/fault_yaml.h"
#include "tests/support/mounting.h"
#include "tests/support/strace.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::AnyOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::MatchesRegex;
using testing::Not;

// Shell functions: `freeze` stops trial 1.1 where it saves no checkpoint and
// its runner deletes none; `thaw` continues it.
constexpr char kFreeze[] = R"sh(
settled() {
  [ "$(ls $DTRAIN_STORE/experiments/1/trials/1/checkpoints | sort)" = \
    "$(dtrain checkpoints 1 --csv | tail -n +2 | cut -d , -f 1 | sort)" ]
}
freeze() {
  trial=$(dtrain trials 1 --csv --columns pid | tail -n 1 | tr -d '\r')
  until kill -STOP $trial && settled; do
    kill -CONT $trial || { echo 'the trial has ended'; break; }
    sleep 0.05
  done
}
thaw() { kill -CONT $trial; }
)sh";

class FullDiskTest : public testing::Test {
 protected:
  void SetUp() override { SKIP_WHERE_MOUNTING_IS_FORBIDDEN(dtrain_); }

  // Runs `script` where ./disk is a file system of `size`; $STORE lies on it.
  CliResult OnDisk(const std::string& size, const std::string& script) const {
    return RunInOwnMounts(
        dtrain_,
        "mkdir disk && mount -t tmpfs -o size=" + size +
            " tmpfs disk\n"
            "export DTRAIN_STORE=$PWD/disk/store STORE=$PWD/disk/store\n"
            "fill() { cat /dev/zero >disk/ballast 2>/dev/null; }\n"
            // Leaves room for the record, and none for a checkpoint.
            "leave() { dd if=/dev/zero of=disk/ballast bs=1k count=$(("
            "$(df -k --output=avail disk | tail -1) - $1)) 2>/dev/null; }\n" +
            kFreeze +
            "fill_nearly() { freeze; leave 1200; thaw; }\n"
            "await() { for i in $(seq 2400); do grep -q \"$1\" err && return; "
            "sleep 0.05; done; echo \"never printed: $1\"; }\n" +
            script);
  }

  CliRunner dtrain_;
};

TEST_F(FullDiskTest, ResumesOnceThereIsSpaceAgain) {
  dtrain_.Write("fault.yaml", FaultYaml("step_ms: 5, x: 0.3, ckpt_mb: 1", 2000,
                                        "min_checkpoint_period: 20\n"));
  const CliResult result = OnDisk("12m", R"(
dtrain create fault.yaml 2>err >out & runner=$!
await 'validation at batch 60'
fill
wait $runner; echo "code $?"
dtrain list --json >list.json || echo "list fails"
sqlite3 -readonly $STORE/dtrain.db 'PRAGMA integrity_check; PRAGMA foreign_key_check'
find $STORE -name '*.tmp'
rm disk/ballast
dtrain resume 1 >out2 2>err2; echo "code $?"
dtrain checkpoint verify 1 >/dev/null && echo verified
dtrain metrics 1 --kind validation --name loss --json >metrics.json
cat err >&2
)");
  EXPECT_EQ(result.out, "code 5\nok\ncode 0\nverified\n") << result.err;
  EXPECT_THAT(result.err, HasSubstr("free some space"));
  EXPECT_THAT(result.err, HasSubstr("dtrain resume 1"));
  EXPECT_THAT(result.err, Not(HasSubstr("terminate")));
  const auto read = [&](const char* name) {
    return dtrain_.RunProgram({"cat", name}).Json();
  };
  const json row = read("list.json")["experiments"][0];
  EXPECT_EQ(row["state"], "PAUSED");
  EXPECT_THAT(row["error"].get<std::string>(), HasSubstr("free"));
  const json values = read("metrics.json")["metrics"];
  ASSERT_EQ(values.size(), 100u);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(values[i]["batches"], 20 * (i + 1));
  }
}

// Looks twice at a trial that waits for space, makes space, and waits for the
// end of its runner.
const std::string kReleaseSpace = R"(await '1.1 is waiting at batch'
sleep 1
dtrain trials 1 --json >waiting.json
sleep 1
dtrain trials 1 --json >later.json
rm disk/ballast
wait $runner; echo "code $?"
dtrain trials 1 --json >trials.json
cat err >&2
)";

TEST_F(FullDiskTest, TrialWaitsForSpaceWithItsTrainingInMemory) {
  dtrain_.Write("fault.yaml", FaultYaml("step_ms: 5, x: 0.3, ckpt_mb: 1", 1000,
                                        "min_checkpoint_period: 20\n"));
  const CliResult result = OnDisk("16m", R"(
dtrain create fault.yaml 2>err >out & runner=$!
await 'validation at batch 60'
fill_nearly
)" + kReleaseSpace);
  EXPECT_EQ(result.out, "code 0\n") << result.err;
  EXPECT_THAT(result.err, HasSubstr("trial 1.1: no checkpoint at batch "));
  EXPECT_THAT(result.err, HasSubstr("disk space is available again"));
  const auto trial = [&](const char* name) {
    return dtrain_.RunProgram({"cat", name}).Json()["trials"][0];
  };
  EXPECT_EQ(trial("waiting.json")["state"], "RUNNING");
  EXPECT_THAT(trial("waiting.json")["reason"].get<std::string>(),
              HasSubstr("waits for disk space: checkpoint "));
  EXPECT_EQ(trial("later.json")["batches"], trial("waiting.json")["batches"]);
  EXPECT_TRUE(trial("trials.json")["reason"].is_null());
  EXPECT_EQ(trial("trials.json")["runs"], 1);
  EXPECT_EQ(trial("trials.json")["batches"], 1000);
}

TEST_F(FullDiskTest, WaitEndsInAPauseThatLosesAtMostTwoPeriods) {
  dtrain_.Write("fault.yaml", FaultYaml("step_ms: 5, x: 0.3, ckpt_mb: 1", 4000,
                                        "min_checkpoint_period: 20\n"));
  const CliResult result = OnDisk("16m", R"(
dtrain create fault.yaml --disk-wait 1s --jsonl 2>err >out & runner=$!
for i in $(seq 2400); do grep -q '"batches":60' out && break; sleep 0.05; done
fill_nearly
wait $runner; echo "code $?"
dtrain checkpoints 1 --json >checkpoints.json
dtrain trials 1 --json >trials.json
grep '"checkpoint_failed"' out | tail -1 >failed.json
cat err >&2
)");
  EXPECT_EQ(result.out, "code 5\n") << result.err;
  EXPECT_THAT(result.err, HasSubstr("free some space"));
  const auto read = [&](const char* name) {
    return dtrain_.RunProgram({"cat", name}).Json();
  };
  const json trial = read("trials.json")["trials"][0];
  EXPECT_EQ(trial["state"], "PAUSED");
  EXPECT_LE(
      trial["batches"],
      read("checkpoints.json")["checkpoints"].back()["batches"].get<int>() +
          40);
  EXPECT_EQ(read("failed.json")["waits"], true);
  EXPECT_EQ(read("failed.json")["trial"], "1.1");
  EXPECT_EQ(read("failed.json")["batches"], trial["batches"]);
}

TEST_F(FullDiskTest, PauseEndsTheWait) {
  dtrain_.Write("fault.yaml", FaultYaml("step_ms: 5, x: 0.3, ckpt_mb: 1", 4000,
                                        "min_checkpoint_period: 20\n"));
  const CliResult result = OnDisk("16m", R"(
dtrain create fault.yaml 2>err >out & runner=$!
await 'validation at batch 60'
fill_nearly
await '1.1 is waiting at batch'
dtrain pause 1 >/dev/null; echo "pause $?"
wait $runner; echo "code $?"
dtrain trials 1 --json >paused.json
rm disk/ballast
dtrain resume 1 --timeout 1s >/dev/null 2>&1; echo "resume $?"
cat err >&2
)");
  EXPECT_EQ(result.out, "pause 0\ncode 5\nresume 124\n") << result.err;
  const json paused =
      dtrain_.RunProgram({"cat", "paused.json"}).Json()["trials"][0];
  EXPECT_THAT(paused["reason"].get<std::string>(),
              testing::ContainsRegex("resumes from batch [0-9]+, its last "
                                     "checkpoint"));
}

// Saves a checkpoint of 400 kB every ten batches; after the 25th it waits for a
// file "go".
constexpr char kSavingProgram[] =
    "i=$(cat \"$DTRAIN_CHECKPOINT/i\" 2>/dev/null || echo 0)\n"
    "while [ $i -lt 200 ]; do\n"
    "  i=$((i + 1)); sleep 0.02\n"
    "  until [ $i != 25 ] || [ -e \"$GO\" ]; do sleep 0.02; done\n"
    "  [ $((i % 10)) = 0 ] || continue\n"
    "  rm -rf \"$DTRAIN_DIRECTORY/c\"; mkdir \"$DTRAIN_DIRECTORY/c\"\n"
    "  echo $i >\"$DTRAIN_DIRECTORY/c/i\"\n"
    "  head -c 400000 /dev/zero >\"$DTRAIN_DIRECTORY/c/model\"\n"
    "  echo '{\"type\": \"checkpoint\", \"batches\": '$i', "
    "\"path\": \"'$DTRAIN_DIRECTORY/c'\"}' >&3\n"
    "  echo '{\"type\": \"validation\", \"batches\": '$i', "
    "\"metrics\": {\"loss\": '$((400 - i))'}}' >&3\n"
    "done\n";

TEST_F(FullDiskTest, ProgramIsSuspendedUntilThereIsSpace) {
  dtrain_.Write("train.sh", kSavingProgram);
  dtrain_.Write("program.yaml",
                "name: program\nentrypoint: [bash, train.sh]\n"
                "searcher: {name: single, metric: loss, max_length: "
                "{batches: 200}}\n"
                "max_restarts: 0\nresources: {slots: cpu}\n");
  const CliResult result = OnDisk("24m", R"(
export GO=$PWD/go
dtrain create program.yaml 2>err >out & runner=$!
await 'validation at batch 20'
until settled; do sleep 0.05; done
leave 900; touch go
)" + kReleaseSpace + "dtrain logs 1 >&2\n");
  EXPECT_EQ(result.out, "code 0\n") << result.err;
  const auto trial = [&](const char* name) {
    return dtrain_.RunProgram({"cat", name}).Json()["trials"][0];
  };
  EXPECT_EQ(trial("later.json")["batches"], trial("waiting.json")["batches"]);
  EXPECT_LT(trial("later.json")["batches"], 200);
  EXPECT_EQ(trial("trials.json")["state"], "COMPLETED");
  EXPECT_EQ(trial("trials.json")["runs"], 1);
}

TEST_F(FullDiskTest, KeepsTheRecordIfOnlyTheDatabaseLacksSpace) {
  // No checkpoint before the end: what fails first is the database.
  dtrain_.Write("fault.yaml",
                "name: fault\nentrypoint: builtin:FaultTrial\n"
                "hyperparameters: {step_ms: 1, x: 0.3}\n"
                "searcher: {name: single, metric: loss, max_length: 20000}\n"
                "scheduling_unit: 1\nmin_validation_period: 20\n"
                "checkpoint_policy: none\nresources: {slots: cpu}\n");
  const CliResult result = OnDisk("4m", R"(
dtrain create fault.yaml 2>err >out & runner=$!
await 'validation at batch 60'
fill
wait $runner; echo "code $?"
dtrain list --json >list.json || echo "list fails"
sqlite3 -readonly $STORE/dtrain.db 'PRAGMA integrity_check'
ls $STORE/dtrain.reserve 2>/dev/null
rm disk/ballast
dtrain resume 1 >out2 2>err2 & runner=$!
for i in $(seq 2400); do [ -e $STORE/dtrain.reserve ] && break; sleep 0.05; done
kill -TERM $runner; wait $runner; echo "code $?"
ls $STORE/dtrain.reserve >/dev/null && echo "set aside again"
cat err >&2
)");
  EXPECT_THAT(result.out, MatchesRegex("code 5\nok\ncode (0|143)\n"
                                       "set aside again\n"))
      << result.err;
  const json row =
      dtrain_.RunProgram({"cat", "list.json"}).Json()["experiments"][0];
  EXPECT_EQ(row["state"], "PAUSED");
}

TEST_F(FullDiskTest, DoesNotStartWithoutSpace) {
  dtrain_.Write("fault.yaml", FaultYaml("", 20));
  const CliResult result = OnDisk("4m", R"(
dtrain create fault.yaml >/dev/null || exit 1
rm $STORE/dtrain.reserve
dd if=/dev/zero of=disk/ballast bs=1k count=3200 2>/dev/null
dtrain create fault.yaml 2>err; echo "code $?"
rm disk/ballast
dtrain resume 2 >/dev/null 2>&1; echo "code $?"
cat err >&2
)");
  EXPECT_EQ(result.out, "code 5\ncode 0\n") << result.err;
  EXPECT_THAT(result.err, HasSubstr("not even for a reserve of 1.0 MB; free "
                                    "some space"));
}

// Errors of the disk below a run: strace makes a system call fail, libfiu
// makes it write or read less than was asked for, a tmpfs runs out of inodes.

constexpr char kYaml[] = "min_checkpoint_period: 20\n";

class IoErrorsTest : public FaultRun {
 protected:
  // Resumes a recorded experiment that has not begun. `what` is strace's, of
  // the runner and, if `trials`, of what it starts, each with its own count. Of
  // fsync the runner makes three, for directories.
  CliResult ResumeUnderStrace(const std::string& what, bool trials) const {
    dtrain_.Write("fault.yaml", FaultYaml("step_ms: 5", 100, kYaml));
    const std::string call = what.substr(0, what.find(':'));
    return Shell("dtrain create fault.yaml --paused -q || exit 1\n" +
                 std::string(kUnderStrace) + "exec strace -qq -o /dev/null " +
                 std::string(trials ? "-f " : "") + "-e trace=" + call +
                 " -e inject=" + what + " dtrain resume 1");
  }
  // Nothing is listed that is not there, nothing lies about.
  void ExpectSound() const {
    EXPECT_EQ(Run({"checkpoint", "verify"}).code, 0);
    EXPECT_THAT(Run({"doctor"}).out, HasSubstr("passes integrity_check"));
    EXPECT_EQ(Shell("find store -name '*.tmp' -o -name '*.trash'").out, "");
    EXPECT_THAT(Processes(), IsEmpty());
  }
};

TEST_F(IoErrorsTest, CheckpointThatCannotBeSyncedIsNotSaved) {
  const CliResult result =
      ResumeUnderStrace("fsync:error=EIO:when=7+", /*trials=*/true);
  if (result.code == 77)
    GTEST_SKIP() << "strace is not there, or may not trace";
  EXPECT_EQ(result.code, 5);
  EXPECT_THAT(result.err, HasSubstr("cannot be written: Input/output error"));
  EXPECT_EQ(State(), "PAUSED");
  EXPECT_EQ(Trial().at("restarts"), 0);
  EXPECT_EQ(Run({"checkpoints", "1", "--json"}).Json().at("checkpoints"),
            json::array());
  ExpectSound();
}

TEST_F(IoErrorsTest, RetriesACheckpointThatFailedOnce) {
  const CliResult result =
      ResumeUnderStrace("fsync:error=EIO:when=7", /*trials=*/true);
  if (result.code == 77)
    GTEST_SKIP() << "strace is not there, or may not trace";
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(Trial().at("batches"), 100);
  ExpectSound();
}

class StoreErrorTest : public IoErrorsTest,
                       public testing::WithParamInterface<const char*> {};

TEST_P(StoreErrorTest, EndsTheRunWithoutLoss) {
  const CliResult result = ResumeUnderStrace(GetParam(), /*trials=*/false);
  if (result.code == 77)
    GTEST_SKIP() << "strace is not there, or may not trace";
  EXPECT_EQ(result.code, 5) << result.err;
  EXPECT_THAT(result.err, HasSubstr("dtrain: error: store "));
  EXPECT_THAT(result.err, Not(HasSubstr("terminate called")));
  EXPECT_TRUE(Within(Seconds(60), [&] { return Processes().empty(); }));
  EXPECT_THAT(State(), AnyOf("INTERRUPTED", "PAUSED"));

  ExpectResumes();
  EXPECT_EQ(Values("training", "loss").size(), 10);
  EXPECT_EQ(Values("validation", "loss").size(), 5);
  ExpectSound();
}

INSTANTIATE_TEST_SUITE_P(Calls, StoreErrorTest,
                         testing::Values("fdatasync:error=EIO:when=5+",
                                         "pwrite64:error=EIO:when=20+",
                                         "pwrite64:error=EDQUOT:when=20+",
                                         "pwrite64:error=EROFS:when=20+",
                                         "pwrite64:error=ENOSPC:when=20+"));

// A commit whose sync fails may yet be found in the log: then the experiment is
// recorded, and has its files.
TEST_F(IoErrorsTest, RecordedExperimentHasItsFiles) {
  dtrain_.Write("train.sh",
                "echo '{\"type\": \"validation\", \"batches\": 1, "
                "\"metrics\": {\"loss\": 1}}' >&3\n");
  dtrain_.Write("program.yaml",
                "name: program\nentrypoint: [sh, train.sh]\n"
                "searcher: {name: single, metric: loss, max_length: 1}\n"
                "resources: {slots: cpu}\n");
  const CliResult result = Shell(std::string(kUnderStrace) + R"sh(
for i in $(seq 8); do
  export DTRAIN_STORE=$PWD/store$i
  strace -qq -o /dev/null -e trace=fdatasync \
    -e inject=fdatasync:error=EIO:when=$i dtrain create program.yaml -q >out$i 2>err$i
  [ "$(dtrain list --csv 2>/dev/null | wc -l)" -lt 2 ] ||
    dtrain wait 1 >/dev/null 2>&1 || dtrain resume 1 -q >/dev/null ||
    echo "not resumed after an error of fdatasync $i"
  dtrain gc >/dev/null; ls $DTRAIN_STORE/experiments | grep new-
done)sh");
  if (result.code == 77)
    GTEST_SKIP() << "strace is not there, or may not trace";
  EXPECT_EQ(result.out, "") << result.err;
}

class PartialIoTest : public IoErrorsTest,
                      public testing::WithParamInterface<const char*> {};

// Random failures of a fixed probability: nothing may be lost.
TEST_P(PartialIoTest, IsContinued) {
  dtrain_.Write("fault.yaml", FaultYaml("ckpt_mb: 1", 60, kYaml));
  CliResult result;
  // LibTorch takes a part of what it reads from /dev/urandom for a failure, and
  // its cpuinfo dereferences a null pointer after an interrupted read of /sys.
  for (int attempt = 0; attempt < 5; ++attempt) {
    fs::remove_all(dtrain_.store());
    result = Shell(
        "command -v fiu-run >/dev/null || exit 77; exec fiu-run -f '' -x -c "
        "'enable_random " +
        std::string(GetParam()) + "' dtrain create fault.yaml");
    if (result.err.find("read from /dev/urandom") == std::string::npos &&
        result.err.find("killed by signal 11 (SIGSEGV)") == std::string::npos) {
      break;
    }
  }
  if (result.code == 77) GTEST_SKIP() << "libfiu (fiu-run) is not there";
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(Values("training", "loss").size(), 6);
  EXPECT_EQ(Trial().at("restarts"), 0);
  ExpectSound();
}

// LibTorch's own look at the processor stumbles over interrupted reads now and
// then, so these are few.
INSTANTIATE_TEST_SUITE_P(
    Calls, PartialIoTest,
    testing::Values("name=posix/io/rw/write/reduce,probability=0.1",
                    "name=posix/io/rw/pwrite/reduce,probability=0.1",
                    "name=posix/io/rw/read/reduce,probability=0.1",
                    "name=posix/io/rw/write,failinfo=4,probability=0.1",
                    "name=posix/io/rw/read,failinfo=4,probability=0.01"));

// Runs `dtrain create fault.yaml $1` on a disk of 100 inodes until it waits.
const std::string kNoInode = kFreeze + std::string(R"(
mkdir disk; mount -t tmpfs -o size=40m,nr_inodes=100 tmpfs disk
export DTRAIN_STORE=$PWD/disk/store
dtrain create fault.yaml $1 2>err & p=$!
until grep -q 'batch 40' err; do sleep 0.05; done
freeze; i=0; while : >disk/f$((i++)); do :; done 2>/dev/null; thaw
until grep -q '1.1 is waiting at batch' err; do sleep 0.05; done
)");

TEST_F(IoErrorsTest, NoInodeLeftForACheckpointPausesTheRun) {
  SKIP_WHERE_MOUNTING_IS_FORBIDDEN(dtrain_);
  dtrain_.Write("fault.yaml", FaultYaml("step_ms: 10", 500, kYaml));
  const CliResult result =
      RunInOwnMounts(dtrain_, "set -- --disk-wait=1s" + kNoInode + R"(
wait $p; echo create $?; cat err >&2
dtrain checkpoint verify >/dev/null; echo verify $?
rm disk/f*
dtrain resume 1 -q; echo resume $?
dtrain list --csv; find disk -name '*.tmp'
)");
  EXPECT_THAT(result.out, HasSubstr("create 5\n")) << result.err;
  EXPECT_THAT(result.err, HasSubstr("No space left on device"));
  EXPECT_THAT(result.out, HasSubstr("verify 0\n"));
  EXPECT_THAT(result.out, HasSubstr("resume 0\n"));
  EXPECT_THAT(result.out, HasSubstr(",COMPLETED,"));
  EXPECT_THAT(result.out, Not(HasSubstr(".tmp")));
}

TEST_F(IoErrorsTest, TrialContinuesOnceThereAreInodesAgain) {
  SKIP_WHERE_MOUNTING_IS_FORBIDDEN(dtrain_);
  dtrain_.Write("fault.yaml", FaultYaml("step_ms: 10", 500, kYaml));
  const CliResult result = RunInOwnMounts(dtrain_, kNoInode + R"(
rm disk/f*
timeout 120 tail --pid=$p -f /dev/null || { kill -9 $p; echo waits on; }
wait $p; echo create $?; cat err >&2
dtrain trials 1 --csv; find disk -name '*.tmp'
)");
  EXPECT_THAT(result.out, HasSubstr("create 0\n")) << result.err;
  EXPECT_THAT(result.err, HasSubstr("disk space is available again"));
  EXPECT_THAT(result.out, Not(HasSubstr("waits on")));
  EXPECT_THAT(result.out, Not(HasSubstr(".tmp")));
}

}  // namespace
}  // namespace dtrain
