#include "engine/store/database.h"

#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include "engine/base/error.h"
#include "engine/os/unique_fd.h"
#include "engine/store/store.h"
#include "tests/engine/store/sample_rows.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class DatabaseTest : public testing::Test {
 protected:
  TemporaryDirectory directory_;
  StoreLayout layout_{directory_.path() / "store"};
};

TEST_F(DatabaseTest, ErrorsNamePlaceProblemAndRemedy) {
  const auto text = [&](int code) -> std::string {
    try {
      ThrowStoreError(layout_, SQLite::Exception(sqlite3_errstr(code), code));
    } catch (const Error& error) {
      return error.what();
    }
  };
  const std::string store = "store " + layout_.root().string() + ": ";

  EXPECT_EQ(text(SQLITE_FULL),
            store +
                "database or disk is full; free some space, then run "
                "`dtrain resume`");
  EXPECT_THAT(text(SQLITE_CORRUPT),
              HasSubstr("database disk image is malformed; keep a copy"));
  EXPECT_THAT(text(SQLITE_READONLY), HasSubstr("check its permissions"));
  EXPECT_THAT(text(SQLITE_BUSY), HasSubstr("close that one and try again"));
  EXPECT_THAT(text(SQLITE_IOERR), HasSubstr("check the disk"));
}

TEST_F(DatabaseTest, ConnectionsHaveTheDocumentedSettings) {
  Store::OpenForWriting(layout_);
  const auto database = OpenReadWrite(layout_.Database());
  const auto pragma = [&](const char* name) {
    return database->execAndGet(std::string("PRAGMA ") + name).getString();
  };

  EXPECT_EQ(pragma("journal_mode"), "wal");
  EXPECT_EQ(pragma("wal_autocheckpoint"), "0");
  EXPECT_EQ(pragma("foreign_keys"), "1");
  EXPECT_EQ(pragma("trusted_schema"), "0");
  EXPECT_EQ(pragma("cell_size_check"), "1");
  EXPECT_EQ(pragma("mmap_size"), "0");
  EXPECT_EQ(pragma("busy_timeout"), "5000");
}

TEST_F(DatabaseTest, ReadersCannotWrite) {
  Store::OpenForWriting(layout_);
  const auto database = OpenReadOnly(layout_);

  EXPECT_THROW(database->exec("DELETE FROM experiments"), SQLite::Exception);
}

// A small file system of its own in a namespace of its own: gone with the
// process. Where the machine allows no such thing the tests are skipped.
class SmallDiskTest : public testing::Test {
 protected:
  // Runs `body` in a process that sees `disk_` as a disk of 1 MiB.
  int OnSmallDisk(const std::function<int()>& body) {
    const pid_t child = ::fork();
    if (child == 0) {
      const bool mounted =
          ::unshare(CLONE_NEWNS | (::geteuid() == 0 ? 0 : CLONE_NEWUSER)) ==
              0 &&
          ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
          ::mount("tmpfs", disk_.c_str(), "tmpfs", 0, "size=1m") == 0;
      ::_exit(mounted ? body() : kNotAllowed);
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  struct FullDisk {
    std::int64_t committed = 0;  // reports
    Error error;
  };
  // Writes until the disk is full.
  static FullDisk FillUp(Store& store) {
    for (std::int64_t batch = 1;; ++batch) {
      try {
        store.Write([&](StoreWriter& writer) {
          writer.AddMetrics(
              {1, 1}, MetricKind::kTraining, batch, 0,
              {{std::string(20'000, 'n') + std::to_string(batch), 1}},
              Timestamp(1));
        });
      } catch (const Error& error) {
        return {.committed = batch - 1, .error = error};
      }
    }
  }

  static constexpr int kNotAllowed = 77;
  TemporaryDirectory directory_;
  fs::path disk_ = directory_.path();
  StoreLayout layout_{disk_ / "store"};
};

TEST_F(SmallDiskTest, FullDiskLosesNothingThatWasCommitted) {
  const int result = OnSmallDisk([&] {
    Store store = Store::OpenForWriting(layout_);
    AddSample(store, 1);
    const auto [committed, error] = FillUp(store);
    const std::string text = error.what();
    if (text.find("free some space, then") == std::string::npos) return 1;
    if (error.kind() != ErrorKind::kDiskFull) return 4;
    if (CountMetrics(store, 1) != committed) return 2;
    const Store reader = Store::OpenForReading(layout_);
    return CountMetrics(reader, 1) == committed ? 0 : 3;
  });

  if (result == kNotAllowed) GTEST_SKIP() << "may not mount here";
  EXPECT_EQ(result, 0);
}

TEST_F(SmallDiskTest, StoreOnAFullDiskIsReadableAfterItsWriterExits) {
  const int result = OnSmallDisk([&] {
    std::int64_t committed = 0;
    {
      Store store = Store::OpenForWriting(layout_);
      AddSample(store, 1);
      committed = FillUp(store).committed;
    }
    fs::remove(layout_.Database().string() + "-shm");
    std::ofstream(disk_ / "rest") << std::string(1 << 20, 'x') << std::flush;
    const Store reader = Store::OpenForReading(layout_);
    return CountMetrics(reader, 1) == committed ? 0 : 1;
  });

  if (result == kNotAllowed) GTEST_SKIP() << "may not mount here";
  EXPECT_EQ(result, 0);
}

TEST_F(SmallDiskTest, ReadOnlyMediumIsReadButNotWritten) {
  const int result = OnSmallDisk([&] {
    {
      Store store = Store::OpenForWriting(layout_);
      AddSample(store, 3);
    }
    fs::remove(layout_.Database().string() + "-shm");
    if (::mount(nullptr, disk_.c_str(), nullptr, MS_REMOUNT | MS_RDONLY,
                nullptr) != 0) {
      return kNotAllowed;
    }
    if (Store::OpenForReading(layout_).Trials(1).size() != 3) return 1;
    try {
      Store::OpenForWriting(layout_);
    } catch (const Error& error) {
      return error.kind() == ErrorKind::kStore ? 0 : 2;
    }
    return 3;
  });

  if (result == kNotAllowed) GTEST_SKIP() << "may not mount here";
  EXPECT_EQ(result, 0);
}

TEST_F(SmallDiskTest, OlderStoreOnAReadOnlyMediumIsReadAsACopy) {
  const int result = OnSmallDisk([&] {
    fs::create_directories(layout_.root());
    {
      std::ostringstream sql;
      sql << std::ifstream(DTRAIN_GOLDEN_DIR "/store_version1.sql").rdbuf();
      SQLite::Database database(layout_.Database(),
                                SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
      database.exec("PRAGMA journal_mode = WAL");
      database.exec(sql.str());
    }
    if (::mount(nullptr, disk_.c_str(), nullptr, MS_REMOUNT | MS_RDONLY,
                nullptr) != 0) {
      return kNotAllowed;
    }
    const Store store = Store::OpenForReading(layout_);
    if (store.Trials(1).size() != 2) return 1;
    if (!store.IsCopy()) return 3;
    return store.Experiment(1)->note.empty() ? 0 : 2;
  });

  if (result == kNotAllowed) GTEST_SKIP() << "may not mount here";
  EXPECT_EQ(result, 0);
}

// Through a read-only view of a disk that somebody else may write to.
TEST_F(SmallDiskTest, FileIsNotTreatedAsImmutableWhileARunnerMayWrite) {
  const int result = OnSmallDisk([&] {
    AddSample(*std::make_unique<Store>(Store::OpenForWriting(layout_)), 1);
    fs::remove(layout_.Database().string() + "-shm");
    fs::create_directories(layout_.Experiment(1));
    const fs::path view = directory_.path() / "view";
    fs::create_directories(view);
    if (::mount(disk_.c_str(), view.c_str(), nullptr, MS_BIND, nullptr) != 0 ||
        ::mount(nullptr, view.c_str(), nullptr,
                MS_REMOUNT | MS_BIND | MS_RDONLY, nullptr) != 0) {
      return kNotAllowed;
    }
    UniqueFd lock(
        ::open(layout_.RunnerLock(1).c_str(), O_RDWR | O_CREAT, 0600));
    struct flock range {};
    range.l_type = F_WRLCK;
    if (::fcntl(lock.get(), F_OFD_SETLK, &range) != 0) return 1;
    const StoreLayout read_only(view / "store");
    try {
      Store::OpenForReading(read_only);
      return 2;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kStore) return 3;
    }
    lock.reset();
    return Store::OpenForReading(read_only).Trials(1).size() == 1 ? 0 : 4;
  });

  if (result == kNotAllowed) GTEST_SKIP() << "may not mount here";
  EXPECT_EQ(result, 0);
}

TEST(RunnerProbeTest, DetectsAHeldLock) {
  const TemporaryDirectory directory;
  const StoreLayout layout(directory.path());
  EXPECT_FALSE(HasRunner(layout));
  std::filesystem::create_directories(layout.Experiment(3));
  UniqueFd file(
      ::open(layout.RunnerLock(3).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  EXPECT_FALSE(HasRunner(layout));
  struct flock range {};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  ASSERT_EQ(::fcntl(file.get(), F_OFD_SETLK, &range), 0);

  EXPECT_TRUE(HasRunner(layout));

  file.reset();
  EXPECT_FALSE(HasRunner(layout));
}

}  // namespace

}  // namespace dtrain
