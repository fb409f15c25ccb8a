#include <exception>
#include <functional>
#include <iostream>
#include <vector>

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <SQLiteCpp/Database.h>
#include <gtest/gtest.h>

#include "engine/store/store.h"
#include "tests/engine/store/sample_rows.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

class StoreProcessesTest : public testing::Test {
 protected:
  // Carries out `body` in a process of its own; it exits with 1 if that throws.
  pid_t Fork(const std::function<void()>& body) {
    const pid_t child = ::fork();
    if (child != 0) return child;
    try {
      body();
    } catch (const std::exception& error) {
      std::cerr << error.what() << std::endl;
      ::_exit(1);
    }
    ::_exit(0);
  }
  static int WaitFor(pid_t child) {
    int status = -1;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return status;
  }
  void ExpectIntact() {
    SQLite::Database database(layout_.Database(), SQLite::OPEN_READWRITE);
    EXPECT_EQ(database.execAndGet("PRAGMA integrity_check").getString(), "ok");
    EXPECT_EQ(
        database.execAndGet("SELECT count(*) FROM pragma_foreign_key_check")
            .getInt(),
        0);
  }
  // An experiment with `reports` reports of two metrics, each in a transaction
  // of its own; `written` is told of each that was committed.
  void RunExperiment(std::int64_t reports,
                     const std::function<void(std::int64_t)>& written) {
    Store store = Store::OpenForWriting(layout_);
    const std::int64_t id = AddSample(store, 1);
    for (std::int64_t batch = 1; batch <= reports; ++batch) {
      store.Write(
          [&](StoreWriter& writer) {
            writer.AddMetrics({id, 1}, MetricKind::kTraining, batch, 0,
                              {{"loss", 0.5}, {"acc", 0.5}}, Timestamp(1));
          },
          /*durable=*/false);
      store.MaybeCheckpointWal();
      written(batch);
    }
  }

  TemporaryDirectory directory_;
  StoreLayout layout_{directory_.path() / "store"};
};

TEST_F(StoreProcessesTest, EightWritersCreateAndShareAStore) {
  std::vector<pid_t> children(8);
  for (pid_t& child : children) {
    child = Fork([&] { RunExperiment(50, [](std::int64_t) {}); });
  }
  for (const pid_t child : children) EXPECT_EQ(WaitFor(child), 0);

  const Store store = Store::OpenForReading(layout_);
  ASSERT_EQ(store.Experiments({}).size(), 8u);
  std::int64_t rows = 0;
  for (std::int64_t id = 1; id <= 8; ++id) rows += CountMetrics(store, id);
  EXPECT_EQ(rows, 8 * 50 * 2);
  ExpectIntact();
}

TEST_F(StoreProcessesTest, ReadersDoNotDisturbAWriter) {
  const pid_t writer = Fork([&] { RunExperiment(500, [](std::int64_t) {}); });
  std::vector<pid_t> readers(4);
  for (pid_t& reader : readers) {
    reader = Fork([&] {
      std::int64_t rows = 0;
      while (rows < 1000) {
        rows = CountMetrics(Store::OpenForReading(layout_), 1);
      }
    });
  }

  EXPECT_EQ(WaitFor(writer), 0);
  for (const pid_t reader : readers) EXPECT_EQ(WaitFor(reader), 0);
  ExpectIntact();
}

TEST_F(StoreProcessesTest, KilledWriterLosesNothingThatWasCommitted) {
  int told[2];
  ASSERT_EQ(::pipe(told), 0);
  const pid_t writer = Fork([&] {
    RunExperiment(1'000'000, [&](std::int64_t) {
      if (::write(told[1], "x", 1) != 1) ::_exit(2);
    });
  });
  ::close(told[1]);
  std::int64_t committed = 0;
  char signal = 0;
  while (committed < 300 && ::read(told[0], &signal, 1) == 1) ++committed;
  ::kill(writer, SIGKILL);
  EXPECT_TRUE(WIFSIGNALED(WaitFor(writer)));
  while (::read(told[0], &signal, 1) == 1) ++committed;
  ::close(told[0]);

  const std::int64_t rows = CountMetrics(Store::OpenForReading(layout_), 1);

  EXPECT_GE(rows, committed * 2);
  EXPECT_LE(rows, (committed + 1) * 2);
  EXPECT_EQ(rows % 2, 0);
  ExpectIntact();
  Store next = Store::OpenForWriting(layout_);
  EXPECT_EQ(AddSample(next, 1), 2);
}

// The creator is killed by its first write beyond this size of a file.
class KilledCreatorTest : public StoreProcessesTest,
                          public testing::WithParamInterface<rlim_t> {};

TEST_P(KilledCreatorTest, LeavesAStoreThatOpens) {
  const pid_t creator = Fork([&] {
    const rlimit no_core{0, 0};
    const rlimit size{GetParam(), GetParam()};
    ::setrlimit(RLIMIT_CORE, &no_core);
    ::setrlimit(RLIMIT_FSIZE, &size);
    Store::OpenForWriting(layout_);
  });
  ASSERT_TRUE(WIFSIGNALED(WaitFor(creator)));

  EXPECT_TRUE(Store::OpenForReading(layout_).Experiments({}).empty());
  Store store = Store::OpenForWriting(layout_);
  EXPECT_EQ(AddSample(store, 1), 1);
  ExpectIntact();
}

INSTANTIATE_TEST_SUITE_P(Bytes, KilledCreatorTest,
                         testing::Values(0, 64, 128, 512, 4095, 4096, 8192,
                                         20000, 32768, 50000, 65536));

}  // namespace
}  // namespace dtrain
