// A store that an older dtrain wrote, brought to the schema of this one.

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <SQLiteCpp/Database.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include "engine/base/error.h"
#include "engine/store/store.h"
#include "tests/engine/store/sample_rows.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

int KillSelf(void* database) {
  const std::string file =
      sqlite3_db_filename(static_cast<sqlite3*>(database), "main");
  if (file.ends_with("/dtrain.db")) ::kill(::getpid(), SIGKILL);
  return 0;
}

// The first connection of this process that commits a change of a store dies
// with it.
int DieAtCommit(sqlite3* database, char**, const sqlite3_api_routines*) {
  sqlite3_commit_hook(database, KillSelf, database);
  return SQLITE_OK;
}

constexpr std::int64_t kVersion = 12;  // of the schema of today

class SchemaMigrationTest : public testing::Test {
 protected:
  SchemaMigrationTest() { Fill(DTRAIN_GOLDEN_DIR "/store_version1.sql"); }

  void Fill(const char* recorded) {
    fs::create_directories(layout_.root());
    fs::permissions(layout_.root(), fs::perms::owner_all);
    std::ostringstream sql;
    sql << std::ifstream(recorded).rdbuf();
    SQLite::Database database(layout_.Database(),
                              SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
    database.exec("PRAGMA journal_mode = WAL");
    database.exec(sql.str());
  }

  static std::int64_t Version(const fs::path& file) {
    SQLite::Database database(file, SQLite::OPEN_READWRITE);
    EXPECT_EQ(database.execAndGet("PRAGMA integrity_check").getString(), "ok");
    return database.execAndGet("PRAGMA user_version").getInt64();
  }
  fs::path Old() const { return layout_.Database().string() + ".v1.bak"; }
  // Content of the recorded store, independent of its version.
  static void ExpectContent(const Store& store) {
    const auto detail = store.Experiment(1);
    ASSERT_TRUE(detail.has_value());
    EXPECT_EQ(detail->row.name, "version one");
    EXPECT_EQ(detail->row.state, State::kCompleted);
    EXPECT_EQ(detail->note, "");
    EXPECT_EQ(store.Trials(1).size(), 2u);
    EXPECT_EQ(store.Checkpoints(1).size(), 2u);
    EXPECT_EQ(CountMetrics(store, 1), 16);
    EXPECT_TRUE(store.OpenRequests(1).empty());
  }

  TemporaryDirectory directory_;
  StoreLayout layout_{directory_.path() / "store"};
};

TEST_F(SchemaMigrationTest, WriterMigratesAndKeepsTheData) {
  ExpectContent(Store::OpenForWriting(layout_));

  EXPECT_EQ(Version(layout_.Database()), kVersion);
  EXPECT_EQ(Version(Old()), 1);
  struct stat status {};
  ASSERT_EQ(::stat(Old().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST_F(SchemaMigrationTest, ReaderMigratesToo) {
  ExpectContent(Store::OpenForReading(layout_));

  EXPECT_EQ(Version(layout_.Database()), kVersion);
  EXPECT_TRUE(fs::exists(Old()));
}

TEST_F(SchemaMigrationTest, StoreOfVersionTwoIsMigrated) {
  fs::remove_all(layout_.root());
  Fill(DTRAIN_GOLDEN_DIR "/store_version2.sql");
  const Store store = Store::OpenForWriting(layout_);

  EXPECT_EQ(store.Experiment(1)->note, "of version two");
  EXPECT_EQ(store.Trials(1).size(), 2u);
  EXPECT_EQ(store.Trials(1).front().failures, 0);
  EXPECT_EQ(Version(layout_.Database()), kVersion);
  EXPECT_EQ(Version(layout_.Database().string() + ".v2.bak"), 2);
}

TEST_F(SchemaMigrationTest, StoreOfVersionThreeIsMigrated) {
  fs::remove_all(layout_.root());
  Fill(DTRAIN_GOLDEN_DIR "/store_version3.sql");
  Store store = Store::OpenForWriting(layout_);

  EXPECT_EQ(store.Experiment(1)->note, "of version two");
  EXPECT_EQ(store.Trials(1).front().failures, 2);
  EXPECT_EQ(store.Profile({1, 1}), std::nullopt);
  EXPECT_EQ(Version(layout_.Database()), kVersion);
  EXPECT_EQ(Version(layout_.Database().string() + ".v3.bak"), 3);
}

TEST_F(SchemaMigrationTest, StoreOfVersionFourIsMigrated) {
  fs::remove_all(layout_.root());
  Fill(DTRAIN_GOLDEN_DIR "/store_version4.sql");
  Store store = Store::OpenForWriting(layout_);

  const auto profile = store.Profile({1, 1});
  ASSERT_TRUE(profile.has_value());
  EXPECT_EQ(profile->trained, 20);
  EXPECT_THAT(profile->seconds,
              testing::ElementsAre(0.5, 1, 2, 0, 0.25, 0.125, 0, 0, 0.0625));
  EXPECT_EQ(Version(layout_.Database()), kVersion);
  EXPECT_EQ(Version(layout_.Database().string() + ".v4.bak"), 4);
}

TEST_F(SchemaMigrationTest, StoreOfVersionFiveIsMigrated) {
  fs::remove_all(layout_.root());
  Fill(DTRAIN_GOLDEN_DIR "/store_version5.sql");
  Store store = Store::OpenForWriting(layout_);

  EXPECT_EQ(store.Evaluations(1).size(), 0u);
  store.Write([](StoreWriter& writer) {
    writer.AddEvaluation({.trial = {1, 2},
                          .checkpoint = "ab70c629",
                          .batches = 40,
                          .split = "validation",
                          .metrics = {{"loss", 0.5}}});
  });
  ASSERT_EQ(store.Evaluations(1, 2).size(), 1u);
  EXPECT_EQ(Version(layout_.Database()), kVersion);
  EXPECT_EQ(Version(layout_.Database().string() + ".v5.bak"), 5);
}

TEST_F(SchemaMigrationTest, StoreOfVersionSixIsMigrated) {
  fs::remove_all(layout_.root());
  Fill(DTRAIN_GOLDEN_DIR "/store_version6.sql");
  Store store = Store::OpenForWriting(layout_);

  EXPECT_EQ(CountMetrics(store, 1), 16);
  EXPECT_EQ(store.Trial({1, 1})->best->batches, 40);
  // Metrics recorded before runs were distinguished belong to an earlier run.
  store.Write([](StoreWriter& writer) {
    writer.SupersedeMetrics({1, 1}, /*run=*/1, MetricKind::kValidation, 21, 50,
                            /*smaller_is_better=*/true);
  });
  EXPECT_EQ(CountMetrics(store, 1), 14);
  EXPECT_EQ(store.Trial({1, 1})->best->batches, 20);
  EXPECT_EQ(Version(layout_.Database()), kVersion);
  EXPECT_EQ(Version(layout_.Database().string() + ".v6.bak"), 6);
}

TEST_F(SchemaMigrationTest, StoreOfVersionSixGetsAUuidAndKeepsItsCheckpoints) {
  fs::remove_all(layout_.root());
  Fill(DTRAIN_GOLDEN_DIR "/store_version6.sql");
  const std::string uuid = Store::OpenForWriting(layout_).uuid();
  const Store store = Store::OpenForReading(layout_);

  EXPECT_EQ(store.uuid(), uuid);
  EXPECT_THAT(uuid, testing::MatchesRegex(
                        "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]"
                        "{3}-[0-9a-f]{12}"));
  EXPECT_EQ(store.Experiment(1)->storage, "");
  EXPECT_TRUE(store.Storages().empty());
  EXPECT_EQ(store.Evaluations(1).size(), 1u);
  for (const CheckpointRow& row : store.Checkpoints(1)) {
    EXPECT_EQ(store.CheckpointPath(row),
              layout_.Checkpoint(row.trial, row.uuid));
  }
  EXPECT_EQ(Version(layout_.Database()), kVersion);
  EXPECT_EQ(Version(layout_.Database().string() + ".v6.bak"), 6);
}

TEST_F(SchemaMigrationTest, TrialsOfVersionSixWereNeverPreempted) {
  fs::remove_all(layout_.root());
  Fill(DTRAIN_GOLDEN_DIR "/store_version6.sql");
  Store store = Store::OpenForWriting(layout_);

  EXPECT_EQ(store.Trial({1, 1})->preemptions, 0);
  store.Write([](StoreWriter& writer) {
    writer.SetTrialPreemptions({1, 1}, 3);
  });
  EXPECT_EQ(store.Trial({1, 1})->preemptions, 3);
  EXPECT_EQ(store.Trial({1, 2})->preemptions, 0);
}

TEST_F(SchemaMigrationTest, TrialsOfVersionSixWereNotSampled) {
  fs::remove_all(layout_.root());
  Fill(DTRAIN_GOLDEN_DIR "/store_version6.sql");
  Store store = Store::OpenForWriting(layout_);

  EXPECT_EQ(store.FindSystemUse(1), std::nullopt);
  store.Write([](StoreWriter& writer) {
    writer.AddSystemSample({1, 2}, {.sample = {.seconds = 5}});
  });
  EXPECT_EQ(store.SystemSamples({1, 2}).size(), 1U);
  EXPECT_TRUE(store.SystemSamples({1, 1}).empty());
}

TEST_F(SchemaMigrationTest, MigratedStoreIsWrittenTo) {
  Store store = Store::OpenForWriting(layout_);
  store.Write([](StoreWriter& writer) {
    writer.SetNote(1, "kept");
    writer.AddRequest(1, 2, RequestKind::kKill, Timestamp(5));
    writer.AddProfile({1, 1}, {.batches = 20, .trained = 20});
  });

  EXPECT_EQ(store.Experiment(1)->note, "kept");
  EXPECT_EQ(store.Profile({1, 1})->trained, 20);
  EXPECT_EQ(AddSample(store, 1), 2);
}

TEST_F(SchemaMigrationTest, FailureLeavesTheStoreUnchanged) {
  {
    SQLite::Database database(layout_.Database(), SQLite::OPEN_READWRITE);
    database.exec("CREATE INDEX experiments_by_best_trial ON trials (id)");
  }
  try {
    Store::OpenForWriting(layout_);
    FAIL() << "migrated";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kStore);
    EXPECT_THAT(error.what(), HasSubstr("experiments_by_best_trial"));
  }

  SQLite::Database database(layout_.Database(), SQLite::OPEN_READWRITE);
  EXPECT_EQ(database.execAndGet("PRAGMA user_version").getInt(), 1);
  EXPECT_FALSE(database.tableExists("requests"));
}

TEST_F(SchemaMigrationTest, KilledMigrationLeavesTheStoreUnchanged) {
  const pid_t child = ::fork();
  if (child == 0) {
    sqlite3_auto_extension(reinterpret_cast<void (*)()>(DieAtCommit));
    Store::OpenForWriting(layout_);
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  ASSERT_TRUE(fs::exists(Old())) << "killed before it began";

  EXPECT_EQ(Version(layout_.Database()), 1);
  ExpectContent(Store::OpenForWriting(layout_));
  EXPECT_EQ(Version(layout_.Database()), kVersion);
}

TEST_F(SchemaMigrationTest, EightReadersMigrateAtOnce) {
  std::vector<pid_t> children(8);
  for (pid_t& child : children) {
    child = ::fork();
    if (child == 0) {
      ::_exit(Store::OpenForReading(layout_).Trials(1).size() == 2 ? 0 : 1);
    }
  }
  for (const pid_t child : children) {
    int status = -1;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(Version(layout_.Database()), kVersion);
}

// ---- The views of docs/store.md.

// Returns the rows of a query, columns joined by blanks.
std::vector<std::string> Select(const StoreLayout& layout,
                                const std::string& sql) {
  SQLite::Database database(layout.Database(), SQLite::OPEN_READONLY);
  SQLite::Statement query(database, sql);
  std::vector<std::string> rows;
  while (query.executeStep()) {
    std::string row;
    for (int i = 0; i < query.getColumnCount(); ++i) {
      const SQLite::Column column = query.getColumn(i);
      row +=
          (i > 0 ? " " : "") + (column.isNull() ? "NULL" : column.getString());
    }
    rows.push_back(row);
  }
  return rows;
}

struct ViewCase {
  std::string name;
  std::string sql;
  std::vector<std::string> rows;
};

class ViewsTest : public testing::TestWithParam<ViewCase> {};

TEST_P(ViewsTest, ShowTheRecord) {
  const TemporaryDirectory directory;
  const StoreLayout layout(directory.path() / "store");
  {
    Store store = Store::OpenForWriting(layout);
    store.Write([](StoreWriter& writer) {
      writer.AddExperiment(SampleExperiment());
      TrialRow trial = SampleTrial(1, 1);
      trial.hparams = {{"lr", 0.5},
                       {"on", true},
                       {"empty", nlohmann::json::object()},
                       {"none", nullptr},
                       {"sizes", {1, 2}},
                       {"opt", {{"name", "sgd"}, {"beta", {{"one", 0.25}}}}}};
      writer.AddTrial(trial);
      writer.AddTrial(SampleTrial(1, 2));
      writer.SetTrialState({1, 1}, State::kStopped, Timestamp(2'500'000),
                           "enough");
      writer.SetTrialState({1, 2}, State::kError, Timestamp(1),
                           "invalid hyperparameters: lr");
      writer.AddMetrics({1, 1}, MetricKind::kTraining, 10, 0.5,
                        {{"loss", 2}, {"up", INFINITY}, {"bad", NAN}},
                        Timestamp(1'500'000), 1);
      writer.AddMetrics({1, 1}, MetricKind::kValidation, 20, 0, {{"acc", 0.25}},
                        Timestamp(1'500'000), 1);
      writer.AddMetrics({1, 1}, MetricKind::kTraining, 30, 0, {{"loss", 9}},
                        Timestamp(1), 1);
      writer.SupersedeMetrics({1, 1}, /*run=*/2, MetricKind::kTraining, 25, 40,
                              /*smaller_is_better=*/true);
      writer.AddValidation({1, 1}, 0.25, 20, /*smaller_is_better=*/true, 1);
      writer.AddCheckpoint(SampleCheckpoint({1, 1}, 20, "aaaaaaaa"));
      writer.AddSystemSample(
          {1, 2},
          {.rank = 4,
           .time = Timestamp(2'500'000),
           .sample = {.seconds = 4,
                      .cpu_seconds = 6,
                      .processes = 2,
                      .memory_bytes = 70,
                      .read_bytes = 9,
                      .gpus = {{.gpu = 1, .percent = 31, .celsius = 50}}}});
    });
  }

  EXPECT_EQ(Select(layout, GetParam().sql), GetParam().rows);
}

INSTANTIATE_TEST_SUITE_P(
    Queries, ViewsTest,
    testing::Values(
        ViewCase{"experiments",
                 "SELECT experiment, name, state, metric, seed, trials, "
                 "trials_ended, best_trial, best_value, created, started, "
                 "config FROM v_experiments",
                 {"1 digits PENDING val_loss 7 2 2 1 0.25 "
                  "1970-01-01T00:00:00.001Z NULL {\"name\":\"digits\"}"}},
        ViewCase{"trials",
                 "SELECT experiment, trial, id, state, reason, best_value, "
                 "latest_value, ended FROM v_trials ORDER BY trial",
                 {"1 1 1.1 STOPPED enough 0.25 0.25 1970-01-01T00:00:02.500Z",
                  "1 2 1.2 INVALID invalid hyperparameters: lr NULL NULL "
                  "1970-01-01T00:00:00.000Z"}},
        ViewCase{"points",
                 "SELECT point, repeat FROM v_trials ORDER BY trial",
                 {"NULL NULL", "NULL NULL"}},
        ViewCase{"metrics",
                 "SELECT experiment, trial, kind, batches, epoch, name, value, "
                 "time, run FROM v_metrics ORDER BY batches, name",
                 {"1 1 training 10 0.5 bad NULL 1970-01-01T00:00:01.500Z 1",
                  "1 1 training 10 0.5 loss 2.0 1970-01-01T00:00:01.500Z 1",
                  "1 1 training 10 0.5 up Inf 1970-01-01T00:00:01.500Z 1",
                  "1 1 validation 20 NULL acc 0.25 1970-01-01T00:00:01.500Z "
                  "1"}},
        ViewCase{"hparams",
                 "SELECT name, type, value FROM v_hparams WHERE trial = 1 "
                 "ORDER BY name",
                 {"empty object {}", "lr real 0.5", "none null NULL",
                  "on bool 1", "opt.beta.one real 0.25", "opt.name text sgd",
                  "sizes array [1,2]"}},
        ViewCase{
            "checkpoints",
            "SELECT experiment, trial, substr(uuid, 1, 8), state, batches, "
            "epoch, bytes, storage FROM v_checkpoints",
            {"1 1 aaaaaaaa COMPLETED 20 0.5 4096 NULL"}},
        ViewCase{"system",
                 "SELECT * FROM v_system",
                 {"1 2 4 1970-01-01T00:00:02.500Z 4.0 1.5 2 70 NULL 9 NULL"}},
        ViewCase{"gpus",
                 "SELECT * FROM v_gpus",
                 {"1 2 4 1970-01-01T00:00:02.500Z 1 31.0 NULL NULL 50"}}),
    [](const auto& info) { return info.param.name; });

TEST_F(SchemaMigrationTest, OldStoreHasViewsAndReadersOfAReadOnlyOneToo) {
  ASSERT_EQ(Store::OpenForReading(layout_).Trials(1).size(), 2u);

  EXPECT_THAT(Select(layout_, "SELECT name FROM v_experiments"),
              testing::ElementsAre("version one"));
  EXPECT_THAT(Select(layout_, "SELECT count(*) FROM v_metrics"),
              testing::ElementsAre("16"));
}

}  // namespace
}  // namespace dtrain
