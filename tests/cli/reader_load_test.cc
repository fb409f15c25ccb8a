// Many at once: runners on one store, readers beside a runner, and a reader
// that never ends.

#include <csignal>
#include <filesystem>

#include <gmock/gmock.h>

#include "tests/support/fault_run.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

class ReaderLoadTest : public FaultRun {
 protected:
  std::int64_t WalBytes() const {
    std::error_code error;
    const auto size = fs::file_size(dtrain_.store() / "dtrain.db-wal", error);
    return error ? 0 : static_cast<std::int64_t>(size);
  }
};

TEST_F(ReaderLoadTest, EightExperimentsAtOnceLoseNothing) {
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

// A reader that never ends keeps the write-ahead log from beginning anew. The
// run goes on; when the reader has gone, the log is moved and cut.
TEST_F(ReaderLoadTest, LogShrinksOnceAStuckReaderHasGone) {
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

  EXPECT_TRUE(Within(Seconds(10), [&] { return WalBytes() <= 16 << 20; }));
  EXPECT_THAT(Run({"doctor"}).out, HasSubstr("passes integrity_check"));
}

TEST_F(ReaderLoadTest, DoctorNamesWhatKeepsTheLogLong) {
  ASSERT_EQ(Create(FaultYaml("", 20)).code, 0);
  // Where nothing is in it, its length alone is looked at.
  fs::resize_file(dtrain_.store() / "dtrain.db-wal", 200 << 20);
  const CliResult result = Run({"doctor"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.out,
              HasSubstr("write-ahead log of 209.7 MB: a long-running reader "
                        "keeps it from shrinking; 'fuser "));
}

}  // namespace
}  // namespace dtrain
