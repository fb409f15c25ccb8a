// A disk of a few megabytes that fills up under a run.

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/cli_runner.h"
#include "tests/support/fault_yaml.h"
#include "tests/support/mounting.h"

namespace dtrain {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;

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
            "fill_nearly() { dd if=/dev/zero of=disk/ballast bs=1k count=$(("
            "$(df -k --output=avail disk | tail -1) - 1200)) 2>/dev/null; }\n"
            "await() { for i in $(seq 600); do grep -q \"$1\" err && return; "
            "sleep 0.05; done; }\n" +
            script);
  }

  CliRunner dtrain_;
};

TEST_F(FullDiskTest, ResumesOnceThereIsSpaceAgain) {
  dtrain_.Write("fault.yaml", FaultYaml("step_ms: 5, x: 0.3, ckpt_mb: 1", 400,
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
  ASSERT_EQ(values.size(), 20u);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(values[i]["batches"], 20 * (i + 1));
  }
}

TEST_F(FullDiskTest, TrialWaitsForSpaceWithItsTrainingInMemory) {
  dtrain_.Write("fault.yaml", FaultYaml("step_ms: 5, x: 0.3, ckpt_mb: 1", 400,
                                        "min_checkpoint_period: 20\n"));
  const CliResult result = OnDisk("16m", R"(
dtrain create fault.yaml 2>err >out & runner=$!
await 'validation at batch 60'
fill_nearly
await '1.1 waits at batch'
sleep 1
dtrain trials 1 --json >waiting.json
sleep 1
dtrain trials 1 --json >later.json
rm disk/ballast
wait $runner; echo "code $?"
dtrain trials 1 --json >trials.json
cat err >&2
)");
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
  EXPECT_EQ(trial("trials.json")["batches"], 400);
}

TEST_F(FullDiskTest, WaitEndsInAPauseThatLosesAtMostTwoPeriods) {
  dtrain_.Write("fault.yaml", FaultYaml("step_ms: 5, x: 0.3, ckpt_mb: 1", 4000,
                                        "min_checkpoint_period: 20\n"));
  const CliResult result = OnDisk("16m", R"(
dtrain create fault.yaml --disk-wait 1s --jsonl 2>err >out & runner=$!
for i in $(seq 600); do grep -q '"batches":60' out && break; sleep 0.05; done
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
await '1.1 waits at batch'
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

TEST_F(FullDiskTest, ProgramIsSuspendedUntilThereIsSpace) {
  dtrain_.Write(
      "train.sh",
      "i=$(cat \"$DTRAIN_CHECKPOINT/i\" 2>/dev/null || echo 0)\n"
      "while [ $i -lt 100 ]; do\n"
      "  i=$((i + 1)); sleep 0.02\n"
      "  [ $((i % 10)) = 0 ] || continue\n"
      "  rm -rf \"$DTRAIN_DIRECTORY/c\"; mkdir \"$DTRAIN_DIRECTORY/c\"\n"
      "  echo $i >\"$DTRAIN_DIRECTORY/c/i\"\n"
      "  head -c 400000 /dev/zero >\"$DTRAIN_DIRECTORY/c/model\"\n"
      "  echo '{\"type\": \"checkpoint\", \"batches\": '$i', "
      "\"path\": \"'$DTRAIN_DIRECTORY/c'\"}' >&3\n"
      "  echo '{\"type\": \"validation\", \"batches\": '$i', "
      "\"metrics\": {\"loss\": '$((200 - i))'}}' >&3\n"
      "done\n");
  dtrain_.Write("program.yaml",
                "name: program\nentrypoint: [bash, train.sh]\n"
                "searcher: {name: single, metric: loss, max_length: "
                "{batches: 100}}\n"
                "max_restarts: 0\nresources: {slots: cpu}\n");
  const CliResult result = OnDisk("24m", R"(
dtrain create program.yaml 2>err >out & runner=$!
await 'validation at batch 20'
dd if=/dev/zero of=disk/ballast bs=1k count=$(($(df -k --output=avail disk | tail -1) - 900)) 2>/dev/null
await '1.1 waits at batch'
sleep 1
dtrain trials 1 --json >waiting.json
sleep 1
dtrain trials 1 --json >later.json
rm disk/ballast
wait $runner; echo "code $?"
dtrain trials 1 --json >trials.json
cat err >&2
dtrain logs 1 >&2
)");
  EXPECT_EQ(result.out, "code 0\n") << result.err;
  const auto trial = [&](const char* name) {
    return dtrain_.RunProgram({"cat", name}).Json()["trials"][0];
  };
  EXPECT_EQ(trial("later.json")["batches"], trial("waiting.json")["batches"]);
  EXPECT_LT(trial("later.json")["batches"], 100);
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
timeout --preserve-status -s INT 2 dtrain resume 1 >out2 2>err2; echo "code $?"
ls $STORE/dtrain.reserve >/dev/null && echo "set aside again"
cat err >&2
)");
  EXPECT_THAT(result.out, MatchesRegex("code 5\nok\ncode (0|130)\n"
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

}  // namespace
}  // namespace dtrain
