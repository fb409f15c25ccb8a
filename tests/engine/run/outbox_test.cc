#include "engine/run/outbox.h"

#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "engine/store/write_lock.h"
#include "tests/support/sync_count.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

using std::chrono::milliseconds;

class OutboxTest : public testing::Test {
 protected:
  OutboxTest() : store_(Store::OpenForWriting(StoreLayout(":memory:"))) {
    // The first batch of a run is written at once.
    outbox_.Add([](StoreWriter&) {}, Outbox::Urgency::kBatched);
    outbox_.Flush(store_, milliseconds(0));
  }

  Store store_;
  Outbox outbox_;
  int recorded_ = 0;
  int done_ = 0;
};

TEST_F(OutboxTest, BatchesMetricsForATenthOfASecond) {
  outbox_.Add([this](StoreWriter&) { ++recorded_; }, Outbox::Urgency::kBatched);

  outbox_.Flush(store_, milliseconds(99));
  EXPECT_EQ(recorded_, 0);
  outbox_.Flush(store_, milliseconds(100));
  EXPECT_EQ(recorded_, 1);
}

TEST_F(OutboxTest, WritesUrgentRecordsAtOnceWithAllBeforeThem) {
  outbox_.Add([this](StoreWriter&) { ++recorded_; }, Outbox::Urgency::kBatched);
  outbox_.Add([this](StoreWriter&) { ++recorded_; }, Outbox::Urgency::kUrgent);

  outbox_.Flush(store_, milliseconds(1));

  EXPECT_EQ(recorded_, 2);
  EXPECT_TRUE(outbox_.empty());
}

TEST_F(OutboxTest, ActsOnlyAfterTheRecord) {
  outbox_.Add([this](StoreWriter&) { EXPECT_EQ(done_, 0); },
              Outbox::Urgency::kUrgent);
  outbox_.After([this] { ++done_; });

  outbox_.Flush(store_, milliseconds(1));

  EXPECT_EQ(done_, 1);
}

// Waits for the disk during one flush of a record of each urgency, in order.
std::vector<bool> Waits(Outbox::Sync sync) {
  const TemporaryDirectory directory;
  Store store = Store::OpenForWriting(StoreLayout(directory.path() / "store"));
  Outbox outbox(sync);
  const auto waits = [&](Outbox::Urgency urgency) {
    outbox.Add(
        [](StoreWriter& writer) {
          writer.AddExperiment({.name = "x", .searcher = "single"});
        },
        urgency);
    const int before = SyncCount();
    outbox.Flush(store, milliseconds(0), /*all=*/true);
    return SyncCount() > before;
  };
  (void)waits(Outbox::Urgency::kBatched);  // the first one begins the log
  return {waits(Outbox::Urgency::kBatched), waits(Outbox::Urgency::kUrgent),
          waits(Outbox::Urgency::kDurable), waits(Outbox::Urgency::kBatched)};
}

TEST_F(OutboxTest, SyncsDurableRecords) {
  using Sync = Outbox::Sync;
  EXPECT_EQ(Waits(Sync::kWhereDurable),
            (std::vector<bool>{false, false, true, false}));
  EXPECT_EQ(Waits(Sync::kNever),
            (std::vector<bool>{false, false, false, false}));
  EXPECT_EQ(Waits(Sync::kAlways), (std::vector<bool>{true, true, true, true}));
}

TEST_F(OutboxTest, KeepsRecordsWhileAnotherProcessWrites) {
  const TemporaryDirectory directory;
  const StoreLayout layout(directory.path() / "store");
  Store store = Store::OpenForWriting(layout);
  WriteLock other(layout.WriteLock());
  outbox_.Add([this](StoreWriter&) { ++recorded_; }, Outbox::Urgency::kUrgent);
  outbox_.After([this] { ++done_; });

  other.Acquire();
  outbox_.Flush(store, milliseconds(1));
  EXPECT_EQ(recorded_, 0);
  EXPECT_EQ(done_, 0);
  EXPECT_EQ(outbox_.due(milliseconds(1)), milliseconds(3));

  other.Release();
  outbox_.Flush(store, milliseconds(3));
  EXPECT_EQ(recorded_, 1);
  EXPECT_EQ(done_, 1);
}

TEST_F(OutboxTest, LetsEffectsAddMore) {
  outbox_.Add([](StoreWriter&) {}, Outbox::Urgency::kUrgent);
  outbox_.After([this] {
    outbox_.Add([this](StoreWriter&) { ++recorded_; },
                Outbox::Urgency::kUrgent);
  });

  outbox_.Flush(store_, milliseconds(1));
  EXPECT_EQ(recorded_, 0);
  outbox_.Flush(store_, milliseconds(1));
  EXPECT_EQ(recorded_, 1);
}

TEST_F(OutboxTest, KeepsNothingOfAFailedTransaction) {
  outbox_.Add([](StoreWriter&) { throw Error(ErrorKind::kStore, "disk full"); },
              Outbox::Urgency::kUrgent);
  outbox_.After([this] { ++done_; });

  EXPECT_THROW(outbox_.Flush(store_, milliseconds(1)), Error);
  EXPECT_EQ(done_, 0);
}

}  // namespace
}  // namespace dtrain
