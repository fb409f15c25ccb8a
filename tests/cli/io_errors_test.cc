// Errors of the disk below a run: strace makes a system call fail, libfiu
// makes it write or read less than was asked for, a tmpfs runs out of inodes.

#include <gmock/gmock.h>

#include "tests/support/fault_run.h"
#include "tests/support/mounting.h"

namespace dtrain {
namespace {

using nlohmann::json;
using testing::AnyOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr char kYaml[] = "min_checkpoint_period: 20\n";

class IoErrorsTest : public FaultRun {
 protected:
  // `what` is strace's, of the runner and, if `trials`, of what it starts. Of
  // fsync the runner makes six, for the directories of a new store.
  CliResult CreateUnderStrace(const std::string& what, bool trials) const {
    dtrain_.Write("fault.yaml", FaultYaml("step_ms: 5", 100, kYaml));
    const std::string call = what.substr(0, what.find(':'));
    return Shell(
        "strace -o /dev/null true || exit 77; exec strace -qq -o "
        "/dev/null " +
        std::string(trials ? "-f " : "") + "-e trace=" + call +
        " -e inject=" + what + " dtrain create fault.yaml");
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
      CreateUnderStrace("fsync:error=EIO:when=7+", /*trials=*/true);
  if (result.code == 77)
    GTEST_SKIP() << "strace is not there, or may not trace";
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("cannot be written: Input/output error"));
  EXPECT_EQ(State(), "ERROR");
  EXPECT_EQ(Run({"checkpoints", "1", "--json"}).Json().at("checkpoints"),
            json::array());
  ExpectSound();
}

TEST_F(IoErrorsTest, RetriesACheckpointThatFailedOnce) {
  const CliResult result =
      CreateUnderStrace("fsync:error=EIO:when=7", /*trials=*/true);
  if (result.code == 77)
    GTEST_SKIP() << "strace is not there, or may not trace";
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(Trial().at("batches"), 100);
  ExpectSound();
}

class StoreErrorTest : public IoErrorsTest,
                       public testing::WithParamInterface<const char*> {};

TEST_P(StoreErrorTest, EndsTheRunWithoutLoss) {
  const CliResult result = CreateUnderStrace(GetParam(), /*trials=*/false);
  if (result.code == 77)
    GTEST_SKIP() << "strace is not there, or may not trace";
  EXPECT_EQ(result.code, 5) << result.err;
  EXPECT_THAT(result.err, HasSubstr("dtrain: error: store "));
  EXPECT_THAT(result.err, Not(HasSubstr("terminate called")));
  EXPECT_TRUE(Within(Seconds(3), [&] { return Processes().empty(); }));
  EXPECT_THAT(State(), AnyOf("INTERRUPTED", "PAUSED"));

  ExpectResumes();
  EXPECT_EQ(Values("training", "loss").size(), 10);
  EXPECT_EQ(Values("validation", "loss").size(), 5);
  ExpectSound();
}

INSTANTIATE_TEST_SUITE_P(Calls, StoreErrorTest,
                         testing::Values("fdatasync:error=EIO:when=8+",
                                         "pwrite64:error=EIO:when=80+",
                                         "pwrite64:error=EDQUOT:when=80+",
                                         "pwrite64:error=EROFS:when=80+",
                                         "pwrite64:error=ENOSPC:when=80+"));

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
  const CliResult result = Shell(R"sh(
strace -o /dev/null true || exit 77
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
  // LibTorch takes a part of what it reads from /dev/urandom for a failure.
  for (int attempt = 0; attempt < 5; ++attempt) {
    fs::remove_all(dtrain_.store());
    result = Shell(
        "command -v fiu-run >/dev/null || exit 77; exec fiu-run -f '' -x -c "
        "'enable_random " +
        std::string(GetParam()) + "' dtrain create fault.yaml");
    if (result.err.find("read from /dev/urandom") == std::string::npos) break;
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
constexpr char kNoInode[] = R"(
mkdir disk; mount -t tmpfs -o size=40m,nr_inodes=100 tmpfs disk
export DTRAIN_STORE=$PWD/disk/store
dtrain create fault.yaml $1 2>err & p=$!
until grep -q 'batch 40' err; do sleep 0.05; done
i=0; while : >disk/f$((i++)); do :; done 2>/dev/null
until grep -q '1.1 is waiting at batch' err; do sleep 0.05; done
)";

TEST_F(IoErrorsTest, NoInodeLeftForACheckpointPausesTheRun) {
  SKIP_WHERE_MOUNTING_IS_FORBIDDEN(dtrain_);
  dtrain_.Write("fault.yaml", FaultYaml("step_ms: 10", 200, kYaml));
  const CliResult result = RunInOwnMounts(
      dtrain_, "set -- --disk-wait=1s" + std::string(kNoInode) + R"(
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
  dtrain_.Write("fault.yaml", FaultYaml("step_ms: 10", 200, kYaml));
  const CliResult result = RunInOwnMounts(dtrain_, std::string(kNoInode) + R"(
rm disk/f*
timeout 30 tail --pid=$p -f /dev/null || { kill -9 $p; echo waits on; }
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
