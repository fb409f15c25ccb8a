// What the machine or the parent of dtrain does to a run of programs.

#include <string>
#include <tuple>
#include <vector>

#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/cli_runner.h"
#include "tests/support/fault_run.h"
#include "tests/support/mounting.h"
#include "tests/support/strace.h"

namespace dtrain {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;

std::string Yaml(const std::string& program, int batches,
                 const std::string& rest = "") {
  return "name: program\nentrypoint: " + program +
         "\nsearcher: {name: single, metric: loss, max_length: " +
         std::to_string(batches) + "}\nresources: {slots: cpu}\n" + rest;
}

// Directories of the trials that cannot be used for a while.
struct StorageFault {
  const char* name;
  const char* begin;  // bash
  const char* end;
};

// A mount over open files: these can still be written, as can the database.
const StorageFault kStorageFaults[] = {
    {"ReadOnly", "mount --bind disk disk && mount -o remount,bind,ro disk",
     "umount -l disk"},
    {"Gone", "mv $DTRAIN_STORE/experiments/1/trials disk/away",
     "mv disk/away $DTRAIN_STORE/experiments/1/trials"},
    {"Forbidden",
     "chown -R root $DTRAIN_STORE/experiments/1/trials; chmod -R go=rX "
     "$DTRAIN_STORE/experiments/1/trials",
     "chown -R 65534 $DTRAIN_STORE; chmod -R u=rwX,go= $DTRAIN_STORE"}};

// Each waits after one of its three batches until there is a file `go`.
constexpr const char* kWait = R"(
import os, time
def wait():
    open("DIR/ready", "w")
    while not os.path.exists("DIR/go"):
        time.sleep(0.01)
)";
struct StorageUser {
  const char* name;
  const char* script;
};
const StorageUser kStorageUsers[] = {{"Module", R"(
import dtrain
trial = dtrain.init()
saved = trial.restore()
for batch in trial.batches(3):
    if batch == 1: wait()
    trial.validate(loss=1.0)
    with trial.checkpoint() as path:
        (path / "w").write_text("w")
)"},
                                     {"OwnFile", R"(
import json
t = json.load(open(os.environ["DTRAIN_TRIAL"]))
wait()
open(t["directory"] + "/own", "w").write("x")
print('{"type": "validation", "batches": 3, "metrics": {"loss": 1}}',
      file=open(3, "w"), flush=True)
)"},
                                     {"FailsForItsOwnReason", R"(
wait()
if os.path.exists("DIR/fails"): raise SystemExit("boom")
print('{"type": "validation", "batches": 3, "metrics": {"loss": 1}}',
      file=open(3, "w"), flush=True)
)"}};

class StorageFaultTest
    : public FaultRun,
      public testing::WithParamInterface<
          std::tuple<const StorageFault*, const StorageUser*>> {};

TEST_P(StorageFaultTest, PausesAndCostsNoRestart) {
  SKIP_WHERE_MOUNTING_IS_FORBIDDEN(dtrain_);
  if (::geteuid() != 0) GTEST_SKIP() << "only root becomes another user";
  const auto& [fault, user] = GetParam();
  const std::string place = dtrain_.directory().string();
  std::string program = std::string(kWait) + user->script;
  for (auto at = program.find("DIR"); at != program.npos;
       at = program.find("DIR")) {
    program.replace(at, 3, place);
  }
  dtrain_.Write("program.py", program);
  dtrain_.Write("fault.yaml",
                Yaml("python3 program.py", 3, "min_checkpoint_period: 0\n"));

  const CliResult result = RunInOwnMounts(dtrain_, std::string(R"sh(
chmod 777 .; mkdir -m 777 disk runtime; mount -t tmpfs -o mode=777 tmpfs disk
export DTRAIN_STORE=$PWD/disk/store DTRAIN_RUNTIME_DIR=$PWD/runtime
chown 65534 runtime
nobody() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
nobody touch fails
nobody dtrain --version >/dev/null || exit 77
nobody dtrain create fault.yaml -q >/dev/null 2>err & runner=$!
until [ -e ready ] || ! kill -0 $runner; do sleep 0.02; done
)sh") + fault->begin +
                                                       R"sh(
nobody touch go; wait $runner; echo "create $?"
)sh" + fault->end + R"sh(
rm -f fails
show() { nobody dtrain trials 1 --csv --columns state,restarts | tail -n 1 | tr -d "\r"; }
show; nobody dtrain resume 1 -q >/dev/null; echo "resume $?"; show; cat err >&2
)sh");

  if (result.code == 77) {
    GTEST_SKIP() << "another user cannot execute what was built here";
  }
  EXPECT_EQ(result.out, "create 5\nPAUSED,0\nresume 0\nCOMPLETED,0\n")
      << result.err;
  EXPECT_THAT(result.err, HasSubstr("dtrain resume 1"));
}

std::vector<std::tuple<const StorageFault*, const StorageUser*>>
StorageFaultCases() {
  std::vector<std::tuple<const StorageFault*, const StorageUser*>> cases;
  for (const StorageFault& fault : kStorageFaults) {
    for (const StorageUser& user : kStorageUsers) {
      cases.emplace_back(&fault, &user);
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Kinds, StorageFaultTest,
                         testing::ValuesIn(StorageFaultCases()),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param)->name) +
                                  std::get<1>(info.param)->name;
                         });

// A parent may ignore SIGCHLD; then the kernel would hide how children end.
struct ChildUser {
  const char* name;
  const char* command;
};

void PrintTo(const ChildUser& user, std::ostream* out) { *out << user.name; }

class IgnoredChildSignalTest : public FaultRun,
                               public testing::WithParamInterface<ChildUser> {};

TEST_P(IgnoredChildSignalTest, ChangesNothing) {
  dtrain_.Write("ok.yaml", Yaml("sh ok.sh", 1));
  dtrain_.Write("ok.sh",
                "echo '{\"type\":\"validation\",\"batches\":1,\"metrics\":{"
                "\"loss\":1}}' >&3\n");
  const CliResult usual = Shell(std::string("dtrain ") + GetParam().command);

  const CliResult result = Shell(
      std::string("env --ignore-signal=CHLD dtrain ") + GetParam().command);

  EXPECT_EQ(result.code, usual.code) << result.err;
  EXPECT_THAT(result.out + result.err, Not(HasSubstr("crashed")));
  EXPECT_THAT(result.out + result.err, Not(HasSubstr("unknown way")));
}

INSTANTIATE_TEST_SUITE_P(
    Commands, IgnoredChildSignalTest,
    testing::Values(ChildUser{"Validate", "validate ok.yaml --here"},
                    ChildUser{"Doctor", "doctor"}, ChildUser{"Slots", "slots"},
                    ChildUser{"Create", "create ok.yaml -q"},
                    ChildUser{"Fetch", "data fetch mnist --from /none"}),
    [](const auto& info) { return info.param.name; });

// Standard error whose reader has gone.
struct Unread {
  const char* name;
  const char* command;
  int code;
};

void PrintTo(const Unread& unread, std::ostream* out) { *out << unread.name; }

class UnreadMessagesTest : public FaultRun,
                           public testing::WithParamInterface<Unread> {};

TEST_P(UnreadMessagesTest, DoNotEndACommand) {
  dtrain_.Write("warns.yaml", Yaml("sh ok.sh", 1, "environment: {image: x}\n"));
  dtrain_.Write("ok.sh",
                "echo '{\"type\":\"validation\",\"batches\":1,\"metrics\":{"
                "\"loss\":1}}' >&3\n");
  ASSERT_THAT(Run({"validate", "warns.yaml"}).err, HasSubstr("note: ignored"));

  const CliResult result = dtrain_.RunProgram(
      {"python3", "-c",
       "import os, subprocess, sys\n"
       "r, w = os.pipe()\n"
       "os.close(r)\n"
       "print(subprocess.run(['sh', '-c', 'exec dtrain ' + sys.argv[1]],\n"
       "      stderr=w, stdout=subprocess.DEVNULL).returncode)\n",
       GetParam().command});

  EXPECT_EQ(result.out, std::to_string(GetParam().code) + "\n") << result.err;
}

INSTANTIATE_TEST_SUITE_P(
    Commands, UnreadMessagesTest,
    testing::Values(Unread{"CreateJson", "create warns.yaml --json", 0},
                    Unread{"CreateDetached", "create warns.yaml -d", 0},
                    Unread{"CreateJsonLines", "create warns.yaml --jsonl", 0},
                    Unread{"Create", "create warns.yaml", 0},
                    Unread{"Validate", "validate warns.yaml", 0},
                    Unread{"Refusal", "describe 77", 3},
                    Unread{"Usage", "create --nothing", 2}),
    [](const auto& info) { return info.param.name; });

// Workers that must not join.
struct Stranger {
  const char* name;
  const char* prepare;  // bash; $PORT is the runner's
  const char* worker;   // bash, in place of `dtrain worker`
  const char* message;
};

void PrintTo(const Stranger& stranger, std::ostream* out) {
  *out << stranger.name;
}

class StrangeWorkerTest : public FaultRun,
                          public testing::WithParamInterface<Stranger> {};

TEST_P(StrangeWorkerTest, IsRefused) {
  SKIP_WHERE_MOUNTING_IS_FORBIDDEN(dtrain_);
  dtrain_.Write("search.yaml",
                "name: program\nentrypoint: 'true'\n"
                "searcher: {name: single, metric: loss, max_length: 1}\n"
                "resources: {slots: 'cpu:1', listen: '127.0.0.1:0', "
                "local: false}\n");
  const CliResult result = RunInOwnMounts(
      dtrain_, std::string(R"sh(
dtrain create search.yaml >/dev/null 2>err & runner=$!
until grep -q -- --connect err || ! kill -0 $runner; do sleep 0.02; done
at=$(sed -n 's/.*--connect \([^ ]*\) .*/\1/p' err | head -n 1)
)sh") + GetParam().prepare +
                   "\n" + GetParam().worker +
                   R"sh( --connect $at --slots cpu:1 --connect-timeout 60s
echo "worker $?"; kill -TERM $runner; wait $runner; cat err >&2
)sh");
  EXPECT_EQ(result.out, "worker 2\n") << result.err;
  EXPECT_THAT(result.err, HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, StrangeWorkerTest,
    testing::Values(
        Stranger{"WithACopyOfTheStore", "cp -a store copy",
                 "unshare -m sh -c 'mount --bind copy store && exec dtrain "
                 "worker --experiment 1 \"$@\"' sh",
                 "or is a copy"},
        Stranger{"WithAnotherSecret",
                 "(umask 077; head -c 64 /dev/urandom >secret)",
                 "DTRAIN_SECRET_FILE=secret dtrain worker --experiment 1",
                 "DTRAIN_SECRET_FILE=secret"},
        Stranger{"OfAnotherBuild", R"sh(
program=$(readlink -f "$(command -v dtrain)"); prefix=$(dirname "$(dirname $program)")
mkdir -p other/bin; ln -s $prefix/libexec $prefix/lib other/
python3 - $program other/bin/dtrain <<'END'
import sys
program = bytearray(open(sys.argv[1], "rb").read())
at = program.index(b"\x03\0\0\0GNU\0") + 8
program[at] ^= 1
open(sys.argv[2], "wb").write(program)
END
chmod 755 other/bin/dtrain)sh",
                 "other/bin/dtrain worker --experiment 1",
                 "install the same version"}),
    [](const auto& info) { return info.param.name; });

// A program of three reports.
constexpr const char* kReports =
    "for i in 1 2 3; do echo "
    "\"{\\\"type\\\":\\\"validation\\\",\\\"batches\\\":"
    "$i,\\\"metrics\\\":{\\\"loss\\\":1}}\" >&3; done\n";

// The n-th message of each process on a socket cannot be sent.
class ChannelErrorTest : public FaultRun,
                         public testing::WithParamInterface<int> {};

TEST_P(ChannelErrorTest, IsNoFailureOfATrial) {
  dtrain_.Write("fault.yaml", Yaml("sh reports.sh", 3));
  dtrain_.Write("reports.sh", kReports);
  const CliResult result =
      Shell(std::string(kUnderStrace) +
            "exec strace -f -qq -o /dev/null -e trace=sendto -e "
            "inject=sendto:error=EIO:when=" +
            std::to_string(GetParam()) + " dtrain create fault.yaml -q");
  if (result.code == 77) {
    GTEST_SKIP() << "strace is not there, or may not trace";
  }

  EXPECT_THAT(result.code, AnyOf(0, 5)) << result.err;
  EXPECT_THAT(State(), AnyOf("COMPLETED", "PAUSED"));
  ExpectResumes();
}

INSTANTIATE_TEST_SUITE_P(Messages, ChannelErrorTest, testing::Range(1, 5));

// A worker in a job of Slurm that was killed leaves its slots on its node.
class JobSlotsTest : public FaultRun {};

TEST_F(JobSlotsTest, OfKilledJobsAreRemovedByTheNextWorker) {
  const CliResult result = Shell(R"sh(
own() { echo "$PWD/tmp/dtrain-$(id -u)-$1"; }
mkdir -p -m 700 "$(own 5-aaaa)" "$(own 6-aaaa)" "$(own 7-aaaa)" "$(own 8-bbbb)"
touch "$(own 5-aaaa)/gpu-0" "$(own 6-aaaa)/gpu-0" "$(own 7-aaaa)/gpu-0"
exec 8<"$(own 6-aaaa)" 9<>"$(own 7-aaaa)/gpu-0"; flock -s 8; flock 9
(umask 077; head -c 64 /dev/urandom >secret)
DTRAIN_SECRET_FILE=secret SLURM_JOB_ID=9 DTRAIN_RUNTIME_DIR=$(own 9-aaaa) \
  dtrain worker --connect 127.0.0.1:1 --connect-timeout 10ms; echo $?
ls tmp | sed 's/.*-\([0-9]*-[a-z]*\)$/\1/')sh");
  EXPECT_EQ(result.out, "1\n6-aaaa\n7-aaaa\n8-bbbb\n") << result.err;
}

}  // namespace
}  // namespace dtrain
