
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "engine/os/unique_fd.h"
#include "engine/store/store.h"
#include "tests/engine/store/sample_rows.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using testing::Field;
using testing::HasSubstr;
using testing::SizeIs;

class BackupTest : public testing::Test {
 protected:
  static void AddReport(Store& store, std::int64_t batch) {
    store.Write(
        [&](StoreWriter& writer) {
          writer.AddMetrics({1, 1}, MetricKind::kTraining, batch, 0,
                            {{"loss", 1}}, Timestamp(1));
        },
        /*durable=*/false);
  }
  ErrorKind KindOfRefusal(const fs::path& file) {
    try {
      Store::OpenForReading(layout_).BackUp(file);
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(file.string()));
      return error.kind();
    }
    return ErrorKind::kNotFound;
  }

  // The rows of each table, each the texts of its columns with their types.
  using Rows = std::map<std::string, std::vector<std::string>>;
  static Rows ReadRows(const fs::path& file) {
    Rows rows;
    SQLite::Database database(file, SQLite::OPEN_READONLY);
    SQLite::Statement tables(
        database, "SELECT name FROM sqlite_schema WHERE type = 'table'");
    while (tables.executeStep()) {
      const std::string name = tables.getColumn(0);
      SQLite::Statement all(database, "SELECT * FROM " + name);
      rows[name];
      while (all.executeStep()) rows[name].push_back(RowText(all));
    }
    return rows;
  }
  static std::string RowText(SQLite::Statement& row) {
    std::string text;
    for (int i = 0; i < row.getColumnCount(); ++i) {
      text += row.getColumnName(i) + std::string("=") +
              std::to_string(row.getColumn(i).getType()) + ":" +
              row.getColumn(i).getString() + "; ";
    }
    return text;
  }
  // Deletes the rows that those of other tables name.
  void LoseExperiments() const {
    SQLite::Database database(layout_.Database(), SQLite::OPEN_READWRITE);
    database.exec("PRAGMA foreign_keys = OFF; DELETE FROM experiments");
  }
  static void FillEveryTable(Store& store) {
    NewExperiment experiment = SampleExperiment();
    experiment.storage = "/kept";
    store.Write([&](StoreWriter& writer) {
      const std::int64_t id = writer.AddExperiment(experiment);
      const TrialId trial = {id, 1};
      writer.SetNote(id, "the first");
      writer.AddTrial(SampleTrial(id, 1));
      writer.AddMetrics(trial, MetricKind::kTraining, 100, 0.5,
                        {{"loss", 1}, {"bad", NAN}}, Timestamp(1), 1);
      writer.AddValidation(trial, 0.25, 100, /*smaller_is_better=*/true, 1);
      writer.AddProfile(trial, {.batches = 100, .gpu_bytes = 3});
      writer.AddSystemSample(trial, {.sample = {.gpus = {{.percent = 4}}}});
      CheckpointRow checkpoint = SampleCheckpoint(trial, 100, "aaaaaaaa");
      checkpoint.storage = "/kept";
      writer.AddCheckpoint(checkpoint);
      writer.AddEvaluation({.trial = trial,
                            .checkpoint = checkpoint.uuid,
                            .split = "test",
                            .metrics = {{"loss", 2}}});
      writer.AddRequest(id, 1, RequestKind::kPause, Timestamp(2));
      writer.AddSearcherEvent(id, {1, {{"type", "started"}}, {"create"}});
      writer.AddSearcherSnapshot(id, 1, {{"state", "new"}});
      writer.AddNotification(id, {.event = "completed", .target = "url"});
    });
  }

  TemporaryDirectory directory_;
  StoreLayout layout_{directory_.path() / "store"};
  Store store_ = Store::OpenForWriting(layout_);
  fs::path copy_ = directory_.path() / "copy.db";
};

TEST_F(BackupTest, HasEveryRowOfEveryTable) {
  FillEveryTable(store_);

  store_.BackUp(copy_);

  const auto rows = ReadRows(layout_.Database());
  EXPECT_EQ(ReadRows(copy_), rows);
  EXPECT_THAT(rows, testing::Each(Field(&Rows::value_type::second,
                                        testing::Not(testing::IsEmpty()))));
}

TEST_F(BackupTest, HoldsAllThatWasCommittedInOneFile) {
  AddSample(store_, 1);
  AddReport(store_, 1);
  const Store reader = Store::OpenForReading(layout_);

  const std::int64_t bytes = reader.BackUp(copy_);

  EXPECT_EQ(bytes, static_cast<std::int64_t>(fs::file_size(copy_)));
  EXPECT_FALSE(fs::exists(copy_.string() + "-wal"));
  EXPECT_FALSE(fs::exists(copy_.string() + ".tmp"));
  struct stat status {};
  ASSERT_EQ(::stat(copy_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST_F(BackupTest, OverwritesLeftoversOfACrash) {
  AddSample(store_, 1);
  const fs::path left = copy_.string() + ".tmp";
  std::ofstream(left) << "half of a copy";
  std::ofstream(left.string() + "-journal") << "and its journal";

  Store::OpenForReading(layout_).BackUp(copy_);

  EXPECT_FALSE(fs::exists(left));
  EXPECT_FALSE(fs::exists(left.string() + "-journal"));
  SQLite::Database copy(copy_, SQLite::OPEN_READONLY);
  EXPECT_EQ(copy.execAndGet("SELECT count(*) FROM trials").getInt(), 1);
}

TEST_F(BackupTest, LeavesTheBackupOfAnotherProcessAlone) {
  AddSample(store_, 1);
  const fs::path other = copy_.string() + ".tmp";
  const UniqueFd writer(::open(other.c_str(), O_WRONLY | O_CREAT, 0600));
  ASSERT_EQ(::flock(writer.get(), LOCK_EX), 0);

  EXPECT_EQ(KindOfRefusal(copy_), ErrorKind::kFailed);

  EXPECT_TRUE(fs::exists(other));
}

TEST_F(BackupTest, RestoredCopyIsAStoreThatIsWrittenTo) {
  AddSample(store_, 1);
  Store::OpenForReading(layout_).BackUp(copy_);
  const StoreLayout restored(directory_.path() / "restored");
  fs::create_directories(restored.root());
  fs::rename(copy_, restored.Database());

  Store store = Store::OpenForWriting(restored);

  EXPECT_EQ(store.Trials(1).size(), 1u);
  EXPECT_EQ(AddSample(store, 2), 2);
}

TEST_F(BackupTest, IsConsistentWhileAnotherProcessWrites) {
  AddSample(store_, 1);
  const pid_t writer = ::fork();
  if (writer == 0) {
    Store store = Store::OpenForWriting(layout_);
    for (std::int64_t batch = 1; batch <= 2000; ++batch) {
      AddReport(store, batch);
    }
    ::_exit(0);
  }
  const Store reader = Store::OpenForReading(layout_);
  reader.BackUp(directory_.path() / "1.db");
  reader.BackUp(directory_.path() / "2.db");
  int status = -1;
  ASSERT_EQ(::waitpid(writer, &status, 0), writer);
  reader.BackUp(directory_.path() / "3.db");

  EXPECT_EQ(status, 0);
  SQLite::Database last(directory_.path() / "3.db", SQLite::OPEN_READONLY);
  EXPECT_EQ(last.execAndGet("SELECT count(*) FROM metrics").getInt(), 2000);
}

TEST_F(BackupTest, OverwritesNothing) {
  std::ofstream(copy_) << "mine";
  EXPECT_EQ(KindOfRefusal(copy_), ErrorKind::kUsage);
  EXPECT_EQ(fs::file_size(copy_), 4u);

  fs::remove(copy_);
  fs::create_symlink("nowhere", copy_);
  EXPECT_EQ(KindOfRefusal(copy_), ErrorKind::kUsage);
}

TEST_F(BackupTest, NamesAnUnwritablePath) {
  EXPECT_EQ(KindOfRefusal("/proc/no/such"), ErrorKind::kFailed);
}

TEST_F(BackupTest, ReportsNoProblemInASoundDatabase) {
  AddSample(store_, 1);
  EXPECT_THAT(store_.Problems(), SizeIs(0));
}

TEST_F(BackupTest, DamagedDatabaseIsRefusedAndLeavesNoFile) {
  AddSample(store_, 1);
  LoseExperiments();

  EXPECT_EQ(KindOfRefusal(copy_), ErrorKind::kStore);

  EXPECT_FALSE(fs::exists(copy_));
  EXPECT_FALSE(fs::exists(copy_.string() + ".tmp"));
}

TEST_F(BackupTest, ReportsBrokenForeignKeys) {
  AddSample(store_, 1);
  LoseExperiments();

  EXPECT_THAT(store_.Problems(),
              testing::Contains(HasSubstr("table trials, row 1: names a row "
                                          "of table experiments")));
}

}  // namespace
}  // namespace dtrain
