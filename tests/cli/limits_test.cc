// Limits of the system that a run meets: descriptors, processes, memory, the
// size of a file.
//
// Trials that print without end. DTRAIN_FLOOD_MB in the environment floods
// with so much more than a test has time for.
//
// Many at once: runners on one store, readers beside a runner, and a reader
// that never ends.

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>

#include "tests/support/fault_run.h"
#include "tests/support/patience.h"

namespace dtrain {
namespace {

using nlohmann::json;
using testing::AnyOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class LimitsTest : public FaultRun {
 protected:
  CliResult CreateUnder(const std::string& limit,
                        const std::string& yaml) const {
    dtrain_.Write("fault.yaml", yaml);
    return Shell("chmod 777 .; exec " + limit + " dtrain create fault.yaml");
  }
  // One line with the reason, no C++ terms, and no process left behind.
  void ExpectCleanEnd(const CliResult& result, const std::string& why) const {
    EXPECT_GT(result.code, 0);
    EXPECT_LT(result.code, 128) << "died of a signal";
    EXPECT_THAT(result.err, HasSubstr(why));
    EXPECT_THAT(result.err, HasSubstr("dtrain: error: "));
    EXPECT_THAT(Processes(), IsEmpty());
  }
  // No trial is to blame, so none has failed.
  void ExpectPausedForWantOfIt(const CliResult& result) const {
    EXPECT_EQ(result.code, 6);
    EXPECT_EQ(State(), "PAUSED");
    EXPECT_EQ(Trial().at("restarts"), 0);
  }
  static const char* Nobody() {
    return "setpriv --reuid=65534 --regid=65534 --clear-groups ";
  }
};

TEST_F(LimitsTest, TooFewDescriptorsForTheSlots) {
  const CliResult result =
      CreateUnder("prlimit --nofile=12", FaultYaml("", 40));
  ExpectCleanEnd(result, "Too many open files");
  ExpectResumes();
}

TEST_F(LimitsTest, TooFewDescriptorsForATrial) {
  const CliResult result =
      CreateUnder("prlimit --nofile=22", FaultYaml("", 40));
  ExpectCleanEnd(result, "Too many open files");
  ExpectPausedForWantOfIt(result);
  ExpectResumes();
}

TEST_F(LimitsTest, FewDescriptorsSuffice) {
  EXPECT_EQ(CreateUnder("prlimit --nofile=40", FaultYaml("", 40)).code, 0);
}

TEST_F(LimitsTest, NoMoreProcesses) {
  if (geteuid() != 0) GTEST_SKIP() << "only root may become another user";
  const CliResult result = CreateUnder(
      std::string(Nobody()) + "prlimit --nproc=1", FaultYaml("", 40));
  ExpectCleanEnd(result, "Resource temporarily unavailable");
  ExpectPausedForWantOfIt(result);
}

TEST_F(LimitsTest, TooLittleMemoryForTheTrialHost) {
  const CliResult result =
      CreateUnder("prlimit --as=200000000", FaultYaml("", 40));
  ExpectCleanEnd(result, "cannot start trial 1.1");
  ExpectPausedForWantOfIt(result);
  ExpectResumes();
}

TEST_F(LimitsTest, TrialThatRunsOutOfMemoryFailsWithoutABacktrace) {
  const CliResult result =
      CreateUnder("prlimit --as=8000000000", FaultYaml("rss_mb: 8000", 40));
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(Trial().at("state"), "ERROR");
  EXPECT_THAT(Trial().at("reason").get<std::string>(),
              AnyOf(HasSubstr("bad_alloc"), HasSubstr("memory")));
  EXPECT_THAT(result.err, Not(HasSubstr("terminate called")));
}

TEST_F(LimitsTest, FilesTooSmallForTheStore) {
  const CliResult result =
      CreateUnder("prlimit --fsize=20000", FaultYaml("", 40));
  EXPECT_EQ(result.code, 5) << result.err;
  EXPECT_EQ(Run({"list", "--json"}).Json().at("experiments"), json::array());
}

TEST_F(LimitsTest, FilesTooSmallForACheckpoint) {
  const CliResult result =
      CreateUnder("prlimit --fsize=900000", FaultYaml("ckpt_mb: 1", 40));
  ExpectCleanEnd(result, "File too large");
  EXPECT_EQ(Run({"checkpoints", "1", "--json"}).Json().at("checkpoints"),
            json::array());
  EXPECT_EQ(Shell("find store -name '*.tmp'").out, "");
}

namespace fs = std::filesystem;

constexpr std::int64_t kMebibyte = std::int64_t{1} << 20;
constexpr std::int64_t kMaxLog = 130 * kMebibyte;  // two files of 64 MiB

std::int64_t FloodMegabytes(std::int64_t otherwise) {
  const char* given = std::getenv("DTRAIN_FLOOD_MB");
  return given == nullptr ? otherwise : std::atoll(given);
}

class LogFloodTest : public FaultRun {
 protected:
  // The most memory that a process has had so far, in MiB.
  static std::int64_t PeakMemory(pid_t pid) {
    std::ifstream status("/proc/" + std::to_string(pid) + "/status");
    std::string word;
    while (status >> word && word != "VmHWM:") {
    }
    std::int64_t kibibytes = 0;
    status >> kibibytes;
    return kibibytes / 1024;
  }
  std::int64_t LogBytes() const {
    std::int64_t bytes = 0;
    const fs::path trial = dtrain_.store() / "experiments/1/trials/1";
    for (const auto& entry : fs::directory_iterator(trial)) {
      if (entry.is_regular_file()) {
        bytes += static_cast<std::int64_t>(entry.file_size());
      }
    }
    return bytes;
  }
  // The trial floods, then trains; gives the runner once it trains.
  pid_t Flood(const std::string& hparams, std::int64_t megabytes) const {
    const pid_t runner =
        Start(FaultYaml(hparams + ", step_ms: 10, log_bytes: " +
                            std::to_string(megabytes * 1'000'000),
                        1'000'000));
    AwaitBatches(10);
    return runner;
  }
  void ExpectQuickTail() const {
    EXPECT_TRUE(IsOnceFasterThan(Seconds(1), [this] {
      const CliResult tail = Run({"logs", "1", "--tail", "10"});
      EXPECT_EQ(tail.code, 0);
      EXPECT_THAT(tail.out, HasSubstr("1.1 | "));
    }));
  }
  void ExpectBounded(pid_t runner) {
    RecordProperty("runner_mib", static_cast<int>(PeakMemory(runner)));
    RecordProperty("log_bytes", static_cast<int>(LogBytes()));
    EXPECT_GT(PeakMemory(runner), 0);
    EXPECT_LT(PeakMemory(runner), 200);
    EXPECT_LT(LogBytes(), kMaxLog);
    ExpectQuickTail();
    EXPECT_EQ(Run({"kill", "1"}).code, 0);
  }
};

TEST_F(LogFloodTest, LinesAreCappedAndTheLossIsReported) {
  const pid_t runner = Flood("x: 0", FloodMegabytes(200));
  ExpectBounded(runner);
  EXPECT_THAT(Shell("dtrain logs 1 --head 1").out,
              HasSubstr("bytes of older log were dropped"));
}

TEST_F(LogFloodTest, EndlessLineIsCutIntoPieces) {
  const pid_t runner = Flood("log_line: 0", FloodMegabytes(100));
  ExpectBounded(runner);
  EXPECT_LE(Run({"logs", "1", "--tail", "1", "--raw"}).out.size(), 70'000);
}

class ReaderLoadTest : public FaultRun {
 protected:
  std::int64_t WalBytes() const {
    std::error_code error;
    const auto size = fs::file_size(dtrain_.store() / "dtrain.db-wal", error);
    return error ? 0 : static_cast<std::int64_t>(size);
  }
};

TEST_F(ReaderLoadTest, EightConcurrentExperimentsLoseNothing) {
  dtrain_.Write("fault.yaml", FaultYaml("step_ms: 1, x: 0.3", 200));
  const CliResult result = Shell(
      "for i in 1 2 3 4 5 6 7 8; do dtrain create fault.yaml -q >/dev/null & "
      "p+=($!); done; for p in ${p[@]}; do wait $p || echo failed $?; done");
  EXPECT_EQ(result.out, "") << result.err;
  const json rows = Run({"list", "--json"}).Json().at("experiments");
  ASSERT_EQ(rows.size(), 8);
  for (const json& row : rows) EXPECT_EQ(row.at("state"), "COMPLETED");
  // 20 reports and 10 validations of two metrics each.
  EXPECT_EQ(Shell("sqlite3 store/dtrain.db 'PRAGMA integrity_check; PRAGMA "
                  "foreign_key_check; SELECT count(*) FROM metrics'")
                .out,
            "ok\n480\n");
}

TEST_F(ReaderLoadTest, TwentyListLoopsDoNotDisturbARun) {
  dtrain_.Write("fault.yaml", FaultYaml("step_ms: 5, x: 0.3", 400));
  const CliResult result = Shell(
      "dtrain create fault.yaml -q >/dev/null & r=$!; for i in $(seq 20); do "
      "(while [ ! -e over ]; do dtrain list -q >/dev/null || echo reader $?; "
      "sleep "
      "0.2; done) & p+=($!); done; wait $r; echo code $?; touch over; wait "
      "${p[@]}");
  EXPECT_EQ(result.out, "code 0\n") << result.err;
  EXPECT_EQ(result.err, "");
  EXPECT_EQ(Values("training", "loss").size(), 40);
  EXPECT_EQ(Trial().at("restarts"), 0);
}

// A reader that never ends keeps the write-ahead log from being reset. The
// run continues; when the reader has gone, the log is moved and truncated.
TEST_F(ReaderLoadTest, WalShrinksOnceAStuckReaderHasGone) {
  Start(FaultYaml("step_ms: 1, metrics: 400", 1'000'000));
  AwaitBatches(10);
  Shell(
      "nohup python3 -c 'import sqlite3, time; c = "
      "sqlite3.connect(\"file:store/dtrain.db?mode=ro\", uri=True, "
      "isolation_level=None); c.execute(\"BEGIN\"); c.execute(\"SELECT "
      "count(*) "
      "FROM experiments\").fetchall(); open(\"reads\", \"w\").close(); "
      "time.sleep(600)' >/dev/null 2>&1 & echo $! >reader; until [ -e reads ]; "
      "do sleep 0.02; done");
  EXPECT_TRUE(Within(Seconds(90), [&] { return WalBytes() > 20 << 20; }));
  EXPECT_EQ(State(), "RUNNING");
  EXPECT_EQ(Run({"list"}).code, 0);

  Shell("kill $(cat reader)");
  EXPECT_EQ(Run({"cancel", "1"}).code, 0);

  EXPECT_TRUE(Within(Seconds(60), [&] { return WalBytes() <= 16 << 20; }));
  EXPECT_THAT(Run({"doctor"}).out, HasSubstr("passes integrity_check"));
}

TEST_F(ReaderLoadTest, DoctorNamesTheReaderThatKeepsTheWalLong) {
  ASSERT_EQ(Create(FaultYaml("", 20)).code, 0);
  // Doctor checks only its length if it is empty.
  fs::resize_file(dtrain_.store() / "dtrain.db-wal", 200 << 20);
  const CliResult result = Run({"doctor"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.out,
              HasSubstr("write-ahead log of 209.7 MB: a long-running reader "
                        "keeps it from shrinking; 'fuser "));
}

}  // namespace
}  // namespace dtrain
