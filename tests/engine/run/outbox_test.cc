#include "engine/run/outbox.h"

#include <gtest/gtest.h>

#include "engine/base/error.h"

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

TEST_F(OutboxTest, GathersMetricsForATenthOfASecond) {
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
