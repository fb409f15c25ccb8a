// Checkpoints outside of the store, and stores that are moved under a run.

#include <fstream>
#include <string>

#include <sys/stat.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/store/store.h"
#include "tests/support/cli_runner.h"
#include "tests/support/mounting.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

// Trains 5 ms a batch; a checkpoint and a validation every ten batches. While
// there is a file "hold" at home, it goes no further than batch 100.
constexpr char kTrainer[] = R"(
import json, os, select, sys, time
t = json.load(open(os.environ["DTRAIN_TRIAL"]))
reports, operations = open(3, "w", buffering=1), open(4, "rb", buffering=0)
say = lambda **report: print(json.dumps(report), file=reports)
batches = 0
if t["checkpoint"]:
    batches = int(open(t["checkpoint"]["path"] + "/at").read())
elif t.get("warm_start"):
    print("warm", open(t["warm_start"] + "/at").read(), flush=True)
print("begins at", batches, flush=True)
def save():
    path = "%s/%d" % (t["directory"], batches)
    os.makedirs(path, exist_ok=True)
    open(path + "/at", "w").write(str(batches))
    say(type="checkpoint", batches=batches, path=path)
order = {"type": "train", "until": t["until"]}
while order["type"] == "train":
    while batches < order["until"]["batches"]:
        time.sleep(0.005)
        while batches == 100 and os.path.exists(os.environ["HOME"] + "/hold"):
            time.sleep(0.01)
        batches += 1
        if batches % 10 == 0:
            save()
            say(type="validation", batches=batches, metrics={"loss": 1 / batches})
        if select.select([operations], [], [], 0)[0]:
            save()
            sys.exit(0)
    order = json.loads(operations.readline() or '{"type": "stop"}')
)";

class CheckpointStorageTest : public testing::Test {
 protected:
  CheckpointStorageTest() {
    dtrain_.Write("trainer.py", kTrainer);
    fs::create_directory(Path());
    fs::permissions(Path(), fs::perms::owner_all);
  }

  fs::path Path() const { return dtrain_.directory() / "kept"; }
  // The one directory that is in it.
  fs::path Root(const std::string& store = "store") const {
    const StoreLayout layout(dtrain_.directory() / store);
    return Path() / Store::OpenForReading(layout).uuid();
  }
  void WriteYaml(const std::string& storage, int batches = 20) const {
    dtrain_.Write(
        "kept.yaml",
        "name: kept\nentrypoint: python3 trainer.py\nmax_restarts: 0\n"
        "searcher: {name: single, metric: loss, max_length: " +
            std::to_string(batches) +
            "}\nresources: {slots: cpu}\ncheckpoint_storage:\n" + storage);
  }
  CliResult Create(const std::string& storage, int batches = 20) const {
    WriteYaml(storage, batches);
    return dtrain_.Run({"create", "kept.yaml", "--json"});
  }
  CliResult Run(const std::vector<std::string>& arguments) const {
    return dtrain_.Run(arguments);
  }
  CliResult Bash(const std::string& script) const {
    return dtrain_.RunProgram({"bash", "-c", script});
  }
  json Checkpoints(const std::string& experiment = "1") const {
    return Run({"checkpoints", experiment, "--json"}).Json()["checkpoints"];
  }
  static bool IsPrivate(const fs::path& directory) {
    struct stat status {};
    return ::stat(directory.c_str(), &status) == 0 &&
           (status.st_mode & 07777) == 0700;
  }
  static std::vector<std::string> ListNames(const fs::path& directory) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(directory)) {
      names.push_back(entry.path().filename().string());
    }
    return names;
  }
  // Nothing of an experiment, not even a store, was made.
  void ExpectNothing() const { EXPECT_FALSE(fs::exists(dtrain_.store())); }

  CliRunner dtrain_;
};

TEST_F(CheckpointStorageTest, PutsCheckpointsIntoTheStoresOwnDirectory) {
  const CliResult result = Create("  type: shared_fs\n  host_path: kept\n");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, Not(HasSubstr("ignored")));

  const json rows = Checkpoints();
  ASSERT_EQ(rows.size(), 1u);
  const fs::path path = rows[0]["path"].get<std::string>();
  EXPECT_EQ(path.parent_path(), Root() / "1" / "1");
  EXPECT_TRUE(fs::exists(path / "program" / "at") || fs::is_directory(path));
  EXPECT_TRUE(IsPrivate(Root()));
  EXPECT_TRUE(IsPrivate(Root() / "1"));
  EXPECT_TRUE(IsPrivate(Root() / "1" / "1"));
  EXPECT_FALSE(fs::exists(StoreLayout(dtrain_.store()).Checkpoints({1, 1})));

  EXPECT_EQ(Run({"checkpoint", "verify", "--json"}).code, 0);
  const json best = Run({"best", "1", "--json"}).Json()["best"][0];
  EXPECT_EQ(best["path"], path.string());
  EXPECT_EQ(best["best_saved"]["path"], path.string());
  const json shown =
      Run({"checkpoint", "show", rows[0]["uuid"], "--json"}).Json();
  EXPECT_EQ(shown["path"], path.string());
  const json described = Run({"describe", "1", "--json"}).Json();
  EXPECT_EQ(described["checkpoint_storage"], (Root() / "1").string());
  EXPECT_EQ(described["config"]["checkpoint_storage"]["path"], Path().string());
}

TEST_F(CheckpointStorageTest, ResumesFromStoragePath) {
  const CliResult stopped = [&] {
    WriteYaml("  path: kept\n", 400);
    return dtrain_.Run({"create", "kept.yaml"}, {.signal_when = "at batch 20"});
  }();
  ASSERT_EQ(stopped.code, 130) << stopped.err;
  const CliResult resumed = Run({"resume", "1"});
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  const std::string logs = Run({"logs", "1"}).out;
  EXPECT_THAT(logs, HasSubstr("begins at 0"));
  EXPECT_THAT(logs, testing::ContainsRegex("begins at [2-9][0-9]"));
  // A warm start, and the same once more, from the same directory.
  const CliResult continued =
      Run({"continue", "1.1", "--set", "searcher.max_length=420"});
  EXPECT_EQ(continued.code, 0) << continued.err;
  EXPECT_THAT(Run({"logs", "2"}).out, HasSubstr("warm 400"));
  EXPECT_THAT(Checkpoints("2")[0]["path"],
              StartsWith((Root() / "2" / "1").string()));
}

TEST_F(CheckpointStorageTest, TwoStoresNeverShare) {
  ASSERT_EQ(Create("  path: kept\n").code, 0);
  const CliResult other = Run({"--store", "other", "create", "kept.yaml"});
  ASSERT_EQ(other.code, 0) << other.err;
  EXPECT_EQ(ListNames(Path()).size(), 2u);
  EXPECT_EQ(Run({"--store", "other", "gc"}).code, 0);
  EXPECT_EQ(Run({"checkpoint", "verify"}).code, 0);
}

TEST_F(CheckpointStorageTest, MakesStoragePathBelowHostPath) {
  const CliResult result =
      Create("  host_path: kept\n  storage_path: my/runs\n");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_TRUE(IsPrivate(Path() / "my"));
  EXPECT_TRUE(IsPrivate(Path() / "my" / "runs"));
  EXPECT_THAT(Checkpoints()[0]["path"],
              StartsWith((Path() / "my" / "runs").string()));
}

TEST_F(CheckpointStorageTest, RefusesPathsOutsideHostPath) {
  const CliResult result =
      Create("  host_path: kept\n  storage_path: ../elsewhere\n");
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("kept.yaml:8:17: checkpoint_storage."
                                    "storage_path: is outside host_path"));
  ExpectNothing();
  EXPECT_THAT(ListNames(Path()), IsEmpty());
}

TEST_F(CheckpointStorageTest, CanBeSetOnTheCommandLine) {
  WriteYaml("  host_path: kept\n");
  fs::create_directory(dtrain_.directory() / "set");
  fs::permissions(dtrain_.directory() / "set", fs::perms::owner_all);
  const CliResult result =
      Run({"create", "kept.yaml", "--set", "checkpoint_storage.host_path=set"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(Checkpoints()[0]["path"],
              StartsWith((dtrain_.directory() / "set").string()));
}

TEST_F(CheckpointStorageTest, RefusesAMissingDirectory) {
  const CliResult result = Create("  host_path: missing\n");
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("kept.yaml:7:14: checkpoint_storage."
                                    "host_path: "));
  EXPECT_THAT(result.err, HasSubstr("missing: does not exist; create it"));
  ExpectNothing();
  const CliResult set = Run({"create", "kept.yaml", "--set",
                             "checkpoint_storage.host_path=/no/such"});
  EXPECT_EQ(set.code, 2);
  EXPECT_THAT(set.err, HasSubstr("--set checkpoint_storage.host_path"));
  EXPECT_EQ(Run({"validate", "kept.yaml"}).code, 0);
  EXPECT_THAT(Run({"validate", "kept.yaml"}).err, HasSubstr("does not exist"));
  EXPECT_EQ(Run({"validate", "kept.yaml", "--here"}).code, 2);
  EXPECT_THAT(Run({"create", "kept.yaml", "--dry-run"}).err,
              HasSubstr("does not exist"));
  ExpectNothing();
}

TEST_F(CheckpointStorageTest, RefusesAFile) {
  dtrain_.Write("file", "");
  const CliResult result = Create("  path: file\n");
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("is not a directory"));
  ExpectNothing();
}

TEST_F(CheckpointStorageTest, RefusesADirectoryThatOthersCanReplace) {
  for (const int mode : {0777, 0770, 0702}) {
    fs::permissions(Path(), fs::perms(mode));
    const CliResult result = Create("  path: kept\n");
    EXPECT_EQ(result.code, 2) << mode;
    EXPECT_THAT(result.err, HasSubstr("others may write to it"));
    ExpectNothing();
  }
  fs::permissions(Path(), fs::perms::all | fs::perms::sticky_bit);
  EXPECT_EQ(Create("  path: kept\n").code, 0);
}

TEST_F(CheckpointStorageTest, RefusesAnotherUsersDirectory) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root gives directories away";
  ASSERT_EQ(::chown(Path().c_str(), 65534, 65534), 0);
  const CliResult result = Create("  path: kept\n");
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("belongs to another user (uid 65534)"));
  ExpectNothing();
}

TEST_F(CheckpointStorageTest, RefusesAnotherUsersDirectoryOfTheStore) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root gives directories away";
  ASSERT_EQ(Create("  path: kept\n").code, 0);
  ASSERT_EQ(::chown(Root().c_str(), 65534, 65534), 0);
  const CliResult result = Create("  path: kept\n");
  EXPECT_EQ(result.code, 5);
  EXPECT_THAT(result.err, HasSubstr("is not a directory of this user alone"));
  EXPECT_EQ(Run({"list", "-a", "--json"}).Json()["experiments"].size(), 1u);
  EXPECT_THAT(Run({"doctor"}).out,
              HasSubstr("not a directory that only you can write to"));
}

TEST_F(CheckpointStorageTest, OldExperimentsStayInTheStore) {
  // Earlier versions recorded the path only in the configuration.
  ASSERT_EQ(Create("  save_trial_best: 1\n", 400).code, 0);
  const fs::path database = StoreLayout(dtrain_.store()).Database();
  const std::string sql =
      "UPDATE experiment_details SET config = json_set(config, "
      "'$.checkpoint_storage.path', '/nowhere/at/all'); UPDATE experiments SET "
      "state = 'PAUSED'";
  if (dtrain_.RunProgram({"sqlite3", database.string(), sql}).code != 0) {
    GTEST_SKIP() << "there is no sqlite3";
  }
  const CliResult resumed = Run({"resume", "1"});
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_THAT(Checkpoints()[0]["path"],
              StartsWith((dtrain_.store() / "experiments").string()));
}

TEST_F(CheckpointStorageTest, CollectsAndDeletesInStoragePath) {
  ASSERT_EQ(Create("  path: kept\n").code, 0);
  const fs::path trial = Root() / "1" / "1";
  const std::string unknown = "11111111-2222-4333-8444-555555555555";
  fs::create_directory(trial / unknown);
  fs::create_directory(trial / "half.tmp");
  fs::create_directories(Root() / "77" / "1");

  const std::string found = Run({"doctor"}).out;
  EXPECT_THAT(found, HasSubstr(unknown + ": is not recorded"));
  EXPECT_THAT(found, HasSubstr("77: belongs to no recorded experiment"));
  EXPECT_THAT(Run({"gc", "--dry-run", "--json"}).out, HasSubstr(unknown));
  EXPECT_TRUE(fs::exists(trial / unknown));
  ASSERT_EQ(Run({"gc"}).code, 0);
  EXPECT_EQ(ListNames(trial).size(), 1u);
  // It was never given out by this database.
  EXPECT_TRUE(fs::exists(Root() / "77"));

  const json deleted = Run({"delete", "1", "--yes", "--json"}).Json();
  EXPECT_GT(deleted["deleted"][0]["bytes"], 0);
  EXPECT_FALSE(fs::exists(Root() / "1"));
}

TEST_F(CheckpointStorageTest, DeletionCountsItsBytes) {
  ASSERT_EQ(Create("  path: kept\n").code, 0);
  constexpr std::size_t kBytes = 20'000'000;
  std::ofstream(Root() / "1" / "1" / "large") << std::string(kBytes, 'a');

  const CliResult asked =
      Bash("echo n | TERM=dumb script -qec 'dtrain delete 1' /dev/null");
  EXPECT_THAT(asked.out, testing::ContainsRegex("trials: 1, 2[0-9.]* MB"));
  const json deleted = Run({"delete", "1", "--yes", "--json"}).Json();
  EXPECT_GT(deleted["deleted"][0]["bytes"], kBytes);
}

TEST_F(CheckpointStorageTest, CollectsLeftoversOfAnInterruptedDeletion) {
  ASSERT_EQ(Create("  path: kept\n").code, 0);
  const fs::path root = Root();
  fs::rename(Path(), dtrain_.directory() / "unmounted");
  const CliResult deleted = Run({"delete", "1", "--yes"});
  EXPECT_EQ(deleted.code, 0);
  EXPECT_THAT(deleted.err, HasSubstr("were not deleted"));
  fs::rename(dtrain_.directory() / "unmounted", Path());
  EXPECT_THAT(Run({"doctor"}).out,
              HasSubstr("belongs to no recorded experiment"));
  EXPECT_EQ(Run({"gc"}).code, 0);
  EXPECT_FALSE(fs::exists(root / "1"));
}

TEST_F(CheckpointStorageTest, RefusesKernelFileSystemsAndLinks) {
  const CliResult kernels = Create("  path: /proc\n");
  EXPECT_EQ(kernels.code, 2);
  EXPECT_THAT(kernels.err, HasSubstr("kept.yaml:7:9: "));
  EXPECT_THAT(kernels.err, HasSubstr("/proc: is a kernel file system"));
  fs::create_directory(dtrain_.directory() / "elsewhere");
  fs::create_directory_symlink("../elsewhere", Path() / "link");
  const CliResult link = Create("  host_path: kept\n  storage_path: link\n");
  EXPECT_EQ(link.code, 2);
  EXPECT_THAT(link.err, HasSubstr("link: is a link"));
  ExpectNothing();
}

TEST_F(CheckpointStorageTest, UnmountedStorageIsNotDamage) {
  ASSERT_EQ(Create("  path: kept\n").code, 0);
  const std::string uuid = Checkpoints()[0]["uuid"];
  fs::rename(Path(), dtrain_.directory() / "unmounted");
  const CliResult verified = Run({"checkpoint", "verify", "--json"});
  EXPECT_NE(verified.code, 0);
  EXPECT_THAT(verified.out, HasSubstr("does not exist; mount or restore it"));
  EXPECT_EQ(Checkpoints()[0]["state"], "COMPLETED");
  EXPECT_THAT(Run({"doctor"}).out,
              HasSubstr("does not exist and should hold 1 checkpoint"));
  EXPECT_NE(Run({"continue", uuid}).code, 0);
  const CliResult deleted = Run({"checkpoint", "delete", uuid});
  EXPECT_EQ(deleted.code, 5);
  EXPECT_THAT(deleted.err, HasSubstr("does not exist; mount or restore it"));
  EXPECT_EQ(Checkpoints()[0]["state"], "COMPLETED");
  fs::rename(dtrain_.directory() / "unmounted", Path());
  EXPECT_EQ(Run({"checkpoint", "verify"}).code, 0);
}

TEST_F(CheckpointStorageTest, BackupNamesTheStoragePath) {
  ASSERT_EQ(Create("  path: kept\n").code, 0);
  const CliResult text = Run({"backup", "copy.db"});
  EXPECT_THAT(text.err, HasSubstr(", " + Root().string()));
  const json document = Run({"backup", "copy2.db", "--json"}).Json();
  EXPECT_EQ(document["checkpoint_storage"], json::array({Root().string()}));
}

TEST_F(CheckpointStorageTest, CopiesNoCheckpointsIntoContexts) {
  ASSERT_EQ(Create("  path: kept\n").code, 0);
  ASSERT_EQ(Create("  path: kept\n").code, 0);
  EXPECT_FALSE(fs::exists(StoreLayout(dtrain_.store()).Context(2) / "kept"));
}

// A runner that dies leaves an unrecorded checkpoint.
TEST_F(CheckpointStorageTest, AdoptsAFinishedCheckpoint) {
  WriteYaml("  path: kept\n", 4000);
  const CliResult stopped =
      dtrain_.Run({"create", "kept.yaml"}, {.signal_when = "at batch 20"});
  ASSERT_EQ(stopped.code, 130) << stopped.err;
  const json rows = Checkpoints();
  const std::string uuid = rows.back()["uuid"];
  const fs::path database = StoreLayout(dtrain_.store()).Database();
  if (dtrain_
          .RunProgram({"sqlite3", database.string(),
                       "DELETE FROM checkpoints WHERE uuid = '" + uuid + "'"})
          .code != 0) {
    GTEST_SKIP() << "there is no sqlite3";
  }
  const CliResult resumed =
      dtrain_.Run({"resume", "1"}, {.signal_when = "its runner had died"});
  EXPECT_THAT(resumed.err,
              HasSubstr("saved after its runner had died, " + uuid));
}

TEST_F(CheckpointStorageTest, PausesIfTheStorageVanishes) {
  WriteYaml("  path: kept\n", 100000);
  const CliResult result = Bash(
      "dtrain create kept.yaml 2>err >out & runner=$!\n"
      "for i in $(seq 2400); do grep -q 'at batch 20' err && break; sleep "
      "0.05; "
      "done\n"
      "mv kept elsewhere; wait $runner; echo code $?; cat err >&2; ls -d kept");
  EXPECT_EQ(result.out, "code 5\n") << result.err;
  EXPECT_THAT(result.err, HasSubstr("no longer exists; mount it"));
  const json row = Run({"list", "--json"}).Json()["experiments"][0];
  EXPECT_EQ(row["state"], "PAUSED");
  const CliResult refused = Run({"resume", "1"});
  EXPECT_EQ(refused.code, 5);
  EXPECT_THAT(refused.err, HasSubstr("no longer exists"));
  EXPECT_FALSE(fs::exists(Path()));
  fs::rename(dtrain_.directory() / "elsewhere", Path());
  const CliResult resumed =
      dtrain_.Run({"resume", "1"}, {.signal_when = "at batch"});
  EXPECT_EQ(resumed.code, 130) << resumed.err;
  EXPECT_THAT(Run({"logs", "1"}).out,
              testing::ContainsRegex("begins at [2-9][0-9]"));
}

TEST_F(CheckpointStorageTest, RefusesAFullOrReadOnlyDisk) {
  SKIP_WHERE_MOUNTING_IS_FORBIDDEN(dtrain_);
  WriteYaml("  path: kept\n");
  const CliResult result = RunInOwnMounts(
      dtrain_,
      "mount -t tmpfs -o size=2m,mode=700 tmpfs kept\n"
      "cat /dev/zero >kept/ballast 2>/dev/null\n"
      "dtrain create kept.yaml >out; echo full $?\n"
      "rm kept/ballast; mount -o remount,ro kept\n"
      "dtrain create kept.yaml >out; echo read-only $?; ls store");
  EXPECT_EQ(result.out, "full 5\nread-only 5\n") << result.err;
  EXPECT_THAT(result.err,
              HasSubstr("kept.yaml:7:9: checkpoint_storage.path: "));
  EXPECT_THAT(result.err, HasSubstr("has no space left"));
  EXPECT_THAT(result.err, HasSubstr("cannot be written to: Read-only"));
}

TEST_F(CheckpointStorageTest, PausesIfTheStorageBecomesReadOnly) {
  SKIP_WHERE_MOUNTING_IS_FORBIDDEN(dtrain_);
  WriteYaml("  path: kept\n", 100000);
  const CliResult result = RunInOwnMounts(
      dtrain_,
      "mount -t tmpfs -o size=9m,mode=700 tmpfs kept\n"
      "dtrain create kept.yaml 2>err >out & runner=$!\n"
      "for i in $(seq 2400); do grep -q 'at batch 20' err && break; sleep "
      "0.05; "
      "done\n"
      "until mount -o remount,ro kept 2>/dev/null; do sleep 0.01; done\n"
      "wait $runner; echo code $?; cat err >&2\n"
      "mount -o remount,rw kept\n"
      "dtrain resume 1 --timeout 1s >out 2>err2; echo code $?; cat err2 >&2");
  EXPECT_EQ(result.out, "code 5\ncode 124\n") << result.err;
  EXPECT_THAT(result.err, HasSubstr("cannot be written to: Read-only"));
}

TEST_F(CheckpointStorageTest, PausesIfTheStorageIsFullAtTheEnd) {
  SKIP_WHERE_MOUNTING_IS_FORBIDDEN(dtrain_);
  WriteYaml("  path: kept\n", 150);
  dtrain_.Write("hold", "");
  const CliResult result = RunInOwnMounts(
      dtrain_,
      "mount -t tmpfs -o size=3m,mode=700 tmpfs kept\n"
      "dtrain create kept.yaml --disk-wait 0 2>err >out & runner=$!\n"
      "until grep -q 'at batch 100' err; do kill -0 $runner || break; sleep "
      "0.05; done\n"
      // Nothing is being written or deleted there: it stays full.
      "cat /dev/zero >kept/ballast 2>/dev/null; rm hold\n"
      "wait $runner; echo code $?; cat err >&2\n"
      "rm kept/ballast\n"
      "dtrain resume 1 >out 2>&1; echo code $?; dtrain checkpoint verify 1 "
      ">out && echo verified\n");
  EXPECT_EQ(result.out, "code 5\ncode 0\nverified\n") << result.err;
  EXPECT_THAT(result.err, HasSubstr("free some space there"));
}

TEST_F(CheckpointStorageTest, ACopyOfTheStoreLeavesTheCheckpointsAlone) {
  ASSERT_EQ(Create("  path: kept\n").code, 0);
  ASSERT_EQ(Bash("cp -a store copy").code, 0);
  ASSERT_EQ(Create("  path: kept\n").code, 0);  // unknown to the copy
  const json rows = Checkpoints("2");
  const fs::path second = rows[0]["path"].get<std::string>();

  const auto expect_refused = [&](const CliResult& result, int code) {
    EXPECT_EQ(result.code, code) << result.err;
    EXPECT_THAT(result.err, HasSubstr("has the UUID of " +
                                      (dtrain_.directory() / "copy").string() +
                                      ": one is a copy of the other"));
    EXPECT_THAT(result.err, HasSubstr("--store " + dtrain_.store().string()));
  };
  expect_refused(Run({"--store", "copy", "create", "kept.yaml"}), 5);
  expect_refused(Run({"--store", "copy", "create", "kept.yaml", "--dry-run"}),
                 0);
  expect_refused(Run({"--store", "copy", "checkpoint", "delete",
                      Checkpoints()[0]["uuid"].get<std::string>()}),
                 5);
  const CliResult doctor = Run({"--store", "copy", "doctor"});
  EXPECT_THAT(doctor.out + doctor.err, HasSubstr("one is a copy of the other"));
  const CliResult collected = Run({"--store", "copy", "gc", "--json"});
  expect_refused(collected, 0);
  EXPECT_THAT(collected.Json()["removed"], IsEmpty());
  expect_refused(Run({"--store", "copy", "delete", "1", "--yes"}), 0);
  EXPECT_TRUE(fs::exists(second));
  EXPECT_EQ(Run({"checkpoint", "verify"}).code, 0);

  // A store that cannot be read may be the first one.
  ASSERT_EQ(Bash("echo damaged > store/dtrain.db").code, 0);
  expect_refused(Run({"--store", "copy", "create", "kept.yaml"}), 5);
  // It has them once the first is gone.
  fs::remove_all(dtrain_.store());
  EXPECT_EQ(Run({"--store", "copy", "create", "kept.yaml"}).code, 5);
  fs::remove_all(Root("copy") / "2");
  EXPECT_EQ(Run({"--store", "copy", "create", "kept.yaml"}).code, 0);
  EXPECT_EQ(Run({"--store", "copy", "checkpoint", "verify"}).code, 0);
}

TEST_F(CheckpointStorageTest, AMovedStoreKeepsItsCheckpoints) {
  ASSERT_EQ(Create("  path: kept\n").code, 0);
  fs::rename(dtrain_.store(), dtrain_.directory() / "moved");
  EXPECT_EQ(Run({"--store", "moved", "create", "kept.yaml"}).code, 0);
  EXPECT_EQ(Run({"--store", "moved", "delete", "1", "--yes"}).code, 0);
  EXPECT_FALSE(fs::exists(Root("moved") / "1"));
  EXPECT_TRUE(fs::exists(Root("moved") / "2"));
}

class MovedStoreTest : public CheckpointStorageTest {
 protected:
  // Moves the store while the experiment trains, and what more `after` does.
  // The runner is stopped meanwhile, so it sees all of it at once.
  CliResult MoveDuringARun(const std::string& after = "") const {
    WriteYaml("  save_trial_best: 1\n", 100000);
    return Bash(
        "dtrain create kept.yaml 2>err >out & runner=$!\n"
        "until grep -q 'at batch 20' err; do kill -0 $runner || break; sleep "
        "0.05; done\n"
        "kill -STOP $runner\n"
        "while kill -0 $runner && ! grep -q '^State:.T' /proc/$runner/status; "
        "do sleep 0.01; done\n"
        "mv store moved\n" +
        after +
        "\nkill -CONT $runner; wait $runner; echo code $?; cat err >&2");
  }
};

TEST_F(MovedStoreTest, PausesAndNamesItsNewPath) {
  const CliResult result = MoveDuringARun();
  EXPECT_EQ(result.out, "code 5\n") << result.err;
  const std::string moved = (dtrain_.directory() / "moved").string();
  EXPECT_THAT(result.err,
              HasSubstr("was moved or removed while an experiment"));
  EXPECT_THAT(result.err, HasSubstr("it is " + moved + " now"));
  const json row =
      Run({"--store", "moved", "list", "--json"}).Json()["experiments"][0];
  EXPECT_EQ(row["state"], "PAUSED");
  // The program makes its own directory again; dtrain puts nothing there.
  EXPECT_FALSE(fs::exists(StoreLayout(dtrain_.store()).Checkpoints({1, 1})));
  EXPECT_FALSE(fs::exists(StoreLayout(dtrain_.store()).Database()));
  const CliResult resumed = dtrain_.Run({"--store", "moved", "resume", "1"},
                                        {.signal_when = "at batch"});
  EXPECT_EQ(resumed.code, 130) << resumed.err;
  EXPECT_EQ(Run({"--store", "moved", "checkpoint", "verify"}).code, 0);
}

TEST_F(MovedStoreTest, SeesAnotherStoreInItsPlace) {
  // The program may have made its own directory there again.
  const CliResult result =
      MoveDuringARun("mkdir -p store; cp -a moved/. store");
  EXPECT_EQ(result.out, "code 5\n") << result.err;
  EXPECT_THAT(result.err, HasSubstr("was replaced by another"));
}

TEST_F(MovedStoreTest, SeesThatItWasRemoved) {
  const CliResult result = MoveDuringARun("rm -r moved");
  EXPECT_EQ(result.out, "code 5\n") << result.err;
  EXPECT_THAT(result.err, HasSubstr("put it back"));
}

}  // namespace
}  // namespace dtrain
