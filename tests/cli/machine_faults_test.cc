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

namespace dtrain {
namespace {

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

void PrintTo(const StorageFault& fault, std::ostream* out) {
  *out << fault.name;
}

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

// Each waits after one of its three epochs until there is a file `go`.
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
for epoch in trial.epochs(3):
    if epoch == 1: wait()
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
nobody dtrain create fault.yaml -q 2>err & runner=$!
until [ -e ready ] || ! kill -0 $runner; do sleep 0.02; done
)sh") + fault->begin +
                                                       R"sh(
nobody touch go; wait $runner; echo "create $?"
)sh" + fault->end + R"sh(
rm -f fails
show() { nobody dtrain trials 1 --csv --columns state,restarts | tail -n 1; }
show; nobody dtrain resume 1 -q; echo "resume $?"; show; cat err >&2
)sh");

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

}  // namespace
}  // namespace dtrain
