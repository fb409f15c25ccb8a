#include "engine/store/store.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <sstream>

#include <sys/stat.h>

#include <SQLiteCpp/Database.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "engine/store/file_system.h"
#include "engine/store/write_lock.h"
#include "tests/engine/store/sample_rows.h"
#include "tests/support/sync_count.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

class StoreTest : public testing::Test {
 protected:
  static int Mode(const fs::path& path) {
    return static_cast<int>(fs::status(path).permissions());
  }
  static std::string Content(const fs::path& path) {
    std::ostringstream content;
    content << std::ifstream(path, std::ios::binary).rdbuf();
    return content.str();
  }
  void MakeRoot(const std::string& content) {
    fs::create_directories(layout_.root());
    std::ofstream(layout_.Database(), std::ios::binary) << content;
  }
  // Expects both ways of opening to refuse the file and to leave it as it is.
  void ExpectRefusal(const std::string& text) {
    const std::string before = Content(layout_.Database());
    ExpectError([&] { Store::OpenForReading(layout_); }, text);
    ExpectError([&] { Store::OpenForWriting(layout_); }, text);
    EXPECT_EQ(Content(layout_.Database()), before);
  }
  void ExpectError(const std::function<void()>& open, const std::string& text) {
    try {
      open();
      FAIL() << "opened";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kStore);
      EXPECT_THAT(error.what(), HasSubstr(layout_.root().string()));
      EXPECT_THAT(error.what(), HasSubstr(text));
      EXPECT_THAT(error.what(), Not(HasSubstr("\n")));
    }
  }

  TemporaryDirectory directory_;
  StoreLayout layout_{directory_.path() / "deep/store"};
};

TEST_F(StoreTest, SyncsOnlyDurableWrites) {
  Store store = Store::OpenForWriting(layout_);
  const auto syncs_of = [&store](bool durable) {
    const int before = SyncCount();
    store.Write(
        [](StoreWriter& writer) { writer.AddExperiment(SampleExperiment()); },
        durable);
    return SyncCount() - before;
  };
  (void)syncs_of(false);  // the first one begins the log

  EXPECT_EQ(syncs_of(false), 0);
  EXPECT_GE(syncs_of(true), 1);
  EXPECT_EQ(syncs_of(false), 0);
  EXPECT_GE(syncs_of(true), 1);
}

TEST_F(StoreTest, MissingStoreReadsAsEmptyAndIsNotCreated) {
  const Store store = Store::OpenForReading(layout_);

  EXPECT_TRUE(store.Experiments({}).empty());
  EXPECT_FALSE(fs::exists(layout_.root()));
}

TEST_F(StoreTest, ZeroLengthDatabaseReadsAsEmpty) {
  MakeRoot("");

  const Store store = Store::OpenForReading(layout_);
  EXPECT_TRUE(store.Trials(1).empty());
  EXPECT_TRUE(store.WasMissing());
  EXPECT_FALSE(store.IsCopy());
  EXPECT_EQ(fs::file_size(layout_.Database()), 0u);
}

TEST_F(StoreTest, ZeroLengthDatabaseIsMigratedByAWriter) {
  MakeRoot("");
  Store store = Store::OpenForWriting(layout_);

  EXPECT_EQ(AddSample(store, 1), 1);
}

TEST_F(StoreTest, OthersReadWrittenRows) {
  Store writer = Store::OpenForWriting(layout_);
  const Store early_reader = Store::OpenForReading(layout_);
  EXPECT_FALSE(early_reader.IsCopy());
  AddSample(writer, 2);

  EXPECT_EQ(early_reader.Trials(1).size(), 2u);
  EXPECT_EQ(Store::OpenForReading(layout_).Trials(1).size(), 2u);
}

TEST_F(StoreTest, RowsOutliveTheWriter) {
  {
    Store writer = Store::OpenForWriting(layout_);
    AddSample(writer, 2);
  }

  EXPECT_EQ(Store::OpenForReading(layout_).Trials(1).size(), 2u);
  EXPECT_EQ(Store::OpenForWriting(layout_).Trials(1).size(), 2u);
}

TEST_F(StoreTest, FilesArePrivateWithAnyUmask) {
  const mode_t old_mask = ::umask(0);
  Store store = Store::OpenForWriting(layout_);
  AddSample(store, 1);
  ::umask(old_mask);

  EXPECT_EQ(Mode(layout_.root()), 0700);
  EXPECT_EQ(Mode(layout_.root().parent_path()), 0700);
  EXPECT_EQ(Mode(layout_.Database()), 0600);
  EXPECT_EQ(Mode(layout_.WriteLock()), 0600);
  EXPECT_EQ(Mode(layout_.Database().string() + "-wal"), 0600);
  EXPECT_EQ(Mode(layout_.Database().string() + "-shm"), 0600);
}

TEST_F(StoreTest, TextFileIsRefusedUntouched) {
  MakeRoot(std::string(5000, 'x'));

  ExpectRefusal("file is not a database; choose another with --store");
}

TEST_F(StoreTest, NewerSchemaIsRefusedUntouched) {
  { Store::OpenForWriting(layout_); }
  {
    SQLite::Database database(layout_.Database(), SQLite::OPEN_READWRITE);
    database.exec("PRAGMA user_version = 999");
    database.exec("PRAGMA wal_checkpoint(TRUNCATE)");
  }

  ExpectRefusal("has schema 999");
}

TEST_F(StoreTest, ForeignDatabaseIsRefusedUntouched) {
  MakeRoot("");
  {
    SQLite::Database database(layout_.Database(), SQLite::OPEN_READWRITE);
    database.exec("CREATE TABLE theirs (x); PRAGMA application_id = 42");
  }

  ExpectRefusal("of another application");
}

TEST_F(StoreTest, QueryReportsDamage) {
  {
    Store store = Store::OpenForWriting(layout_);
    AddSample(store, 200);
    SQLite::Database database(layout_.Database(), SQLite::OPEN_READWRITE);
    database.exec("PRAGMA wal_checkpoint(TRUNCATE)");
  }
  const auto size = fs::file_size(layout_.Database());
  std::fstream file(layout_.Database(),
                    std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(4096);
  file << std::string(size - 4096, '\xAA');
  file.close();

  ExpectError([&] { Store::OpenForReading(layout_).Trials(1); },
              "malformed; keep a copy");
}

TEST_F(StoreTest, FileInPlaceOfTheStoreIsAnError) {
  std::ofstream(directory_.path() / "deep") << "x";

  ExpectError([&] { Store::OpenForWriting(layout_); }, "cannot be created");
}

TEST_F(StoreTest, TryWriteFailsAtOnceIfLocked) {
  Store store = Store::OpenForWriting(layout_);
  WriteLock other(layout_.WriteLock());
  ASSERT_TRUE(other.TryAcquire());
  bool called = false;
  const auto body = [&](StoreWriter&) { called = true; };

  EXPECT_FALSE(store.TryWrite(body));
  EXPECT_FALSE(called);
  other.Release();
  EXPECT_TRUE(store.TryWrite(body));
  EXPECT_TRUE(called);
}

TEST_F(StoreTest, TryWriteFailsAtOnceWhileAForeignProgramWrites) {
  Store store = Store::OpenForWriting(layout_);
  SQLite::Database foreign(layout_.Database(), SQLite::OPEN_READWRITE);
  foreign.exec("BEGIN IMMEDIATE");

  EXPECT_FALSE(store.TryWrite([](StoreWriter&) {}));
  foreign.exec("ROLLBACK");
  EXPECT_TRUE(store.TryWrite([](StoreWriter&) {}));
}

TEST_F(StoreTest, FailedTransactionLeavesNothingAndTheStoreUsable) {
  Store store = Store::OpenForWriting(layout_);
  AddSample(store, 1);

  EXPECT_THROW(store.Write([](StoreWriter& writer) {
    writer.AddMetrics({1, 1}, MetricKind::kTraining, 1, 0, {{"new", 1}},
                      Timestamp(1));
    writer.SetTrialRung({1, 99}, 1);
  }),
               Error);
  store.Write([](StoreWriter& writer) {
    writer.AddMetrics({1, 1}, MetricKind::kTraining, 2, 0, {{"new", 1}},
                      Timestamp(1));
  });

  EXPECT_EQ(CountMetrics(store, 1), 1);
  EXPECT_THAT(store.MetricNames(1), testing::ElementsAre("new"));
}

TEST_F(StoreTest, DurableAndOrdinaryWritesMix) {
  Store store = Store::OpenForWriting(layout_);
  AddSample(store, 1);
  const auto rung = [](std::int64_t value) {
    return [value](StoreWriter& writer) { writer.SetTrialRung({1, 1}, value); };
  };

  EXPECT_TRUE(store.TryWrite(rung(1), /*durable=*/true));
  EXPECT_TRUE(store.TryWrite(rung(2), /*durable=*/false));
  EXPECT_TRUE(store.TryWrite(rung(3), /*durable=*/true));

  EXPECT_EQ(store.Trial({1, 1})->rung, 3);
}

TEST_F(StoreTest, DataVersionChangesWithWritesOfOthers) {
  Store mine = Store::OpenForWriting(layout_);
  Store theirs = Store::OpenForWriting(layout_);
  const std::int64_t before = mine.DataVersion();

  AddSample(mine, 1);
  EXPECT_EQ(mine.DataVersion(), before);
  AddSample(theirs, 1);

  EXPECT_NE(mine.DataVersion(), before);
}

TEST_F(StoreTest, DetectsThatItWasMovedRemovedOrReplaced) {
  Store store = Store::OpenForWriting(layout_);
  const fs::path moved = layout_.root().string() + "-moved";
  EXPECT_EQ(store.MovedReason(), "");

  fs::rename(layout_.root(), moved);
  EXPECT_THAT(store.MovedReason(), HasSubstr("was moved or removed"));
  EXPECT_THAT(store.MovedReason(),
              HasSubstr("it is " + moved.string() + " now"));
  AddSample(store, 1);  // goes where it is now
  EXPECT_EQ(Store::OpenForReading(StoreLayout(moved)).Trials(1).size(), 1u);

  Store::OpenForWriting(layout_);
  EXPECT_THAT(store.MovedReason(), HasSubstr("was replaced by another one"));
  fs::remove_all(moved);
  EXPECT_THAT(store.MovedReason(), HasSubstr("put it back"));
}

TEST_F(StoreTest, LargeWalIsCheckpointed) {
  Store store = Store::OpenForWriting(layout_);
  AddSample(store, 1);
  const auto before = fs::file_size(layout_.Database());
  store.MaybeCheckpointWal();
  EXPECT_EQ(fs::file_size(layout_.Database()), before);

  store.Write([](StoreWriter& writer) {
    writer.AddSearcherSnapshot(1, 1, std::string(10'000'000, 'x'));
  });
  store.MaybeCheckpointWal();

  EXPECT_GT(fs::file_size(layout_.Database()), 10'000'000u);
}

TEST_F(StoreTest, WalIsCheckpointedOnceABlockingReaderEnds) {
  Store store = Store::OpenForWriting(layout_);
  AddSample(store, 1);
  store.Write([](StoreWriter& writer) {
    writer.AddMetrics({1, 1}, MetricKind::kTraining, 1, 0, {{"loss", 1}},
                      Timestamp(1));
  });
  std::int64_t snapshots = 0;
  const auto grow = [&] {
    store.Write([&](StoreWriter& writer) {
      writer.AddSearcherSnapshot(1, ++snapshots, std::string(10'000'000, 'x'));
    });
    store.MaybeCheckpointWal();
  };
  const Store reader = Store::OpenForReading(layout_);
  reader.ForEachMetric({.experiment = 1}, [&](const MetricRow&) { grow(); });
  ASSERT_LT(fs::file_size(layout_.Database()), 10'000'000u);

  grow();

  EXPECT_GT(fs::file_size(layout_.Database()), 10'000'000u);
}

TEST_F(StoreTest, LastWriterLeavesAnEmptyWal) {
  {
    Store store = Store::OpenForWriting(layout_);
    AddSample(store, 500);
  }

  EXPECT_EQ(fs::file_size(layout_.Database().string() + "-wal"), 0u);
}

TEST_F(StoreTest, MovedStoreContinuesToWork) {
  Store first = Store::OpenForWriting(layout_);
  Store second = std::move(first);

  EXPECT_EQ(AddSample(second, 1), 1);
}

// The reserve is what a full disk leaves for the last transaction.
TEST(ReserveTest, HasItsWholeSizeUntilItIsGivenUp) {
  const TemporaryDirectory directory;
  const StoreLayout layout(directory.path());
  for (const std::uintmax_t size :
       {0U, 1U, (1U << 20) - 1, 1U << 20, 2U << 20}) {
    std::ofstream(layout.Reserve()) << "";
    fs::resize_file(layout.Reserve(), size);
    KeepReserve(layout);
    EXPECT_EQ(fs::file_size(layout.Reserve()),
              std::max<std::uintmax_t>(size, 1 << 20));
  }
  EXPECT_TRUE(FreeReserve(layout));
  EXPECT_FALSE(fs::exists(layout.Reserve()));
  EXPECT_FALSE(FreeReserve(layout));
  KeepReserve(layout);
  EXPECT_EQ(fs::status(layout.Reserve()).permissions(), fs::perms(0600));
}

}  // namespace
}  // namespace dtrain
