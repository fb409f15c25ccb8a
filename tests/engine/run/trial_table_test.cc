#include "engine/run/trial_table.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dtrain {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;

class TrialTableTest : public testing::Test {
 protected:
  TrialTableTest() {
    trial_ = table_.Add({.id = {1, 1}});
    other_ = table_.Add({.id = {1, 2}});
  }

  TrialTable table_;
  TrialState* trial_ = nullptr;
  TrialState* other_ = nullptr;
};

TEST_F(TrialTableTest, OnlyCountsTrialsThatHaveEnded) {
  EXPECT_EQ(table_.Add({.id = {1, 3}, .state = State::kStopped}), nullptr);

  EXPECT_EQ(table_.created(), 3);
  EXPECT_EQ(table_.ended(), 1);
  EXPECT_EQ(table_.Find(3), nullptr);
}

TEST_F(TrialTableTest, EstimatesTheTimeThatAnEarlierRunnerHasTrained) {
  const ValidationCompleted done{.trial = 0, .length = 2};
  table_.ApplyOperation(Started{}, ValidateAfter{.trial = 0, .length = 2});
  table_.ApplyEvent(done);
  table_.ApplyOperation(done, ValidateAfter{.trial = 0, .length = 8});
  trial_->untimed = true;

  // Batches 20 to 80, of which this runner sees the last 15.
  table_.StartProcess(*trial_, "checkpoint", 65).SetWorking(seconds(10));

  EXPECT_EQ(DrainOperationSeconds(*trial_, 80, seconds(13)), 12);
}

TEST_F(TrialTableTest, DoesNotKnowTheTimeOfWorkThatAnEarlierRunnerHasDone) {
  table_.ApplyOperation(Started{}, ValidateAfter{.trial = 0, .length = 8});
  trial_->untimed = true;

  table_.StartProcess(*trial_, "checkpoint", 80).SetWorking(seconds(10));

  EXPECT_EQ(DrainOperationSeconds(*trial_, 80, seconds(13)), 0);
}

TEST_F(TrialTableTest, AddsTheTimesOfAllProcessesOfAnOperation) {
  table_.ApplyOperation(Started{}, ValidateAfter{.trial = 0, .length = 8});
  trial_->worked = 5;  // of a process that was paused

  table_.StartProcess(*trial_, "checkpoint", 65).SetWorking(seconds(10));

  EXPECT_EQ(DrainOperationSeconds(*trial_, 80, seconds(13)), 8);
  EXPECT_EQ(trial_->worked, 0);
}

TEST_F(TrialTableTest, AssignsTurnsInOrderOfOperations) {
  table_.ApplyOperation(Started{}, ValidateAfter{.trial = 1, .length = 10});
  table_.ApplyOperation(Started{}, ValidateAfter{.trial = 0, .length = 10});

  EXPECT_LT(other_->turn, trial_->turn);
  EXPECT_THAT(trial_->operations, ElementsAre(10));
}

TEST_F(TrialTableTest, ContinuingTrialKeepsItsTurn) {
  table_.ApplyOperation(Started{}, ValidateAfter{.trial = 0, .length = 10});
  table_.ApplyOperation(Started{}, ValidateAfter{.trial = 1, .length = 10});
  const ValidationCompleted done{.trial = 0, .length = 10, .metric = 1};
  table_.ApplyEvent(done);

  table_.ApplyOperation(done, ValidateAfter{.trial = 0, .length = 30});

  EXPECT_LT(trial_->turn, other_->turn);
}

TEST_F(TrialTableTest, QueuesAPromotedTrialAgain) {
  table_.ApplyOperation(Started{}, ValidateAfter{.trial = 0, .length = 10});
  table_.ApplyOperation(Started{}, ValidateAfter{.trial = 1, .length = 10});
  table_.ApplyEvent(ValidationCompleted{.trial = 0, .length = 10, .metric = 1});
  const ValidationCompleted done{.trial = 1, .length = 10, .metric = 2};
  table_.ApplyEvent(done);

  table_.ApplyOperation(done, ValidateAfter{.trial = 0, .length = 30});

  EXPECT_GT(trial_->turn, other_->turn);
}

TEST_F(TrialTableTest, QueuesAPromotedTrialBehindThoseThatAreDeferred) {
  TrialState* const third = table_.Add({.id = {1, 3}});
  TrialState* const fourth = table_.Add({.id = {1, 4}});
  const ValidationCompleted done{.trial = 0, .length = 10, .metric = 1};
  table_.ApplyOperation(Started{}, ValidateAfter{.trial = 0, .length = 10});
  table_.ApplyEvent(done);
  table_.ApplyOperation(Closed{}, ValidateAfter{0, 30, /*deferred=*/2});
  const std::int64_t promoted = trial_->turn;

  // Of these, the last was not deferred at that time.
  table_.ApplyOperation(done, ValidateAfter{.trial = 1, .length = 10});
  table_.ApplyOperation(done, ValidateAfter{.trial = 2, .length = 10});
  table_.ApplyOperation(done, ValidateAfter{.trial = 3, .length = 10});

  EXPECT_LT(other_->turn, third->turn);
  EXPECT_LT(third->turn, promoted);
  EXPECT_LT(promoted, fourth->turn);
}

TEST_F(TrialTableTest, CountsCompletedOperations) {
  table_.ApplyOperation(Started{}, ValidateAfter{.trial = 0, .length = 10});

  table_.ApplyEvent(
      ValidationCompleted{.trial = 0, .length = 10, .metric = NAN});

  EXPECT_EQ(trial_->row.rung, 1);
  EXPECT_EQ(trial_->trained(), 10);
  EXPECT_THAT(trial_->operations, IsEmpty());
  EXPECT_TRUE(trial_->bad_metric.has_value());
}

TEST_F(TrialTableTest, GivesNoOperationsToAnEndedTrial) {
  table_.ApplyOperation(Started{}, ValidateAfter{.trial = 0, .length = 10});
  table_.ApplyEvent(ExitedEarly{.trial = 0, .reason = ExitReason::kUserStop});

  EXPECT_EQ(
      table_.ApplyOperation(Started{}, ValidateAfter{.trial = 0, .length = 30}),
      nullptr);
  EXPECT_TRUE(trial_->close_requested);
  EXPECT_THAT(trial_->operations, IsEmpty());
}

TEST_F(TrialTableTest, SeparatesTrialsWithAProcess) {
  table_.StartProcess(*other_, "", 0);
  EXPECT_THAT(table_.live(), ElementsAre(testing::Pair(2, other_)));

  EXPECT_NE(table_.EndProcess(*other_), nullptr);
  EXPECT_THAT(table_.live(), IsEmpty());
}

TEST_F(TrialTableTest, ATrialWithoutAnOperationIsIdleUntilItIsStopped) {
  table_.ApplyOperation(Started{}, ValidateAfter{.trial = 0, .length = 2});
  TrialProcess& process = table_.StartProcess(*trial_, "", 0);
  process.SetRunning(seconds(1), Timestamp(0));
  table_.Refile(*trial_);
  EXPECT_THAT(table_.idle(), IsEmpty()) << "it works";

  table_.ApplyEvent(ValidationCompleted{.trial = 0, .length = 2});
  EXPECT_THAT(table_.idle(), ElementsAre(1));
  EXPECT_EQ(table_.ending(), 0);

  process.Stop(StopCause::kPause);
  table_.Refile(*trial_);
  EXPECT_THAT(table_.idle(), IsEmpty());
  EXPECT_EQ(table_.ending(), 1);

  table_.EndProcess(*trial_);
  EXPECT_EQ(table_.ending(), 0);
}

TEST_F(TrialTableTest, AnIdleTrialThatGetsAnOperationWorksAgain) {
  table_.StartProcess(*trial_, "", 0).SetRunning(seconds(1), Timestamp(0));
  table_.Refile(*trial_);
  ASSERT_THAT(table_.idle(), ElementsAre(1));

  table_.ApplyOperation(Started{}, ValidateAfter{.trial = 0, .length = 2});

  EXPECT_THAT(table_.idle(), IsEmpty());
}

TEST_F(TrialTableTest, DoesNotFindEndedTrials) {
  table_.End(*trial_);
  EXPECT_TRUE(trial_->ended);
  EXPECT_EQ(table_.Find(1), nullptr);
  EXPECT_EQ(table_.ended(), 1);

  table_.Sweep();
  EXPECT_EQ(table_.trials().size(), 1u);
}

using std::chrono::milliseconds;

class TrialProcessTest : public testing::Test {
 protected:
  TrialProcess process_{"", 0, 0};
};

TEST_F(TrialProcessTest, KeepsTheFirstRequestToEnd) {
  process_.Stop(StopCause::kPause);
  process_.Stop(StopCause::kRunner);

  EXPECT_EQ(process_.stop(), StopCause::kPause);
  EXPECT_TRUE(process_.asked_to_stop());
}

TEST_F(TrialProcessTest, AnErrorCountsMoreThanARequestToEnd) {
  process_.Stop(StopCause::kRunner);

  EXPECT_TRUE(process_.Kill(StopCause::kFailure, "no metric"));
  EXPECT_FALSE(process_.Kill(StopCause::kHang, "no step"));
  EXPECT_EQ(process_.stop(), StopCause::kFailure);
  EXPECT_EQ(process_.failure(), "no metric");
  EXPECT_FALSE(process_.asked_to_stop());
}

TEST_F(TrialProcessTest, HangsWithoutASignOfLife) {
  EXPECT_FALSE(process_.IsHanging(seconds(100), seconds(5)))
      << "it has no slot";
  process_.SetRunning(seconds(10), Timestamp(0));
  EXPECT_FALSE(process_.IsHanging(seconds(14), seconds(5)));
  EXPECT_TRUE(process_.IsHanging(seconds(15), seconds(5)));

  process_.SetProgress(Progress{.batches = 1}, seconds(15));
  EXPECT_FALSE(process_.IsHanging(seconds(19), seconds(5)));
  process_.SetProgress(Progress{.batches = 1}, seconds(19));
  EXPECT_TRUE(process_.IsHanging(seconds(20), seconds(5)))
      << "nothing has changed";
}

TEST_F(TrialProcessTest, DoesNotHangWhileItIsBlocked) {
  process_.SetRunning(seconds(0), Timestamp(0));

  EXPECT_TRUE(process_.Receive(7));
  EXPECT_FALSE(process_.IsHanging(seconds(9), seconds(5))) << "by the store";
  EXPECT_EQ(process_.PopUnacknowledged(), 7);
  EXPECT_TRUE(process_.IsHanging(seconds(9), seconds(5)));
  EXPECT_TRUE(process_.Block(seconds(9), "disk full"));
  EXPECT_FALSE(process_.IsHanging(seconds(99), seconds(5))) << "by the disk";
}

TEST_F(TrialProcessTest, AcknowledgesSeveralMessagesAtOnce) {
  EXPECT_TRUE(process_.Receive(1));
  EXPECT_FALSE(process_.Receive(2));

  EXPECT_EQ(process_.PopUnacknowledged(), 2);
  EXPECT_EQ(process_.PopUnacknowledged(), 0);
}

TEST_F(TrialProcessTest, ReportsAFullDiskOnceAndWhenItBlocks) {
  EXPECT_TRUE(process_.IsNewsOfDisk(/*blocks=*/false));
  EXPECT_FALSE(process_.IsNewsOfDisk(/*blocks=*/false));
  EXPECT_TRUE(process_.IsNewsOfDisk(/*blocks=*/true));
  EXPECT_FALSE(process_.IsNewsOfDisk(/*blocks=*/true));

  EXPECT_FALSE(process_.Unblock(seconds(1))) << "it was never blocked";
  EXPECT_TRUE(process_.IsNewsOfDisk(/*blocks=*/false));
}

TEST_F(TrialProcessTest, CountsTheTimeOfAnOperationWithoutADiskWait) {
  EXPECT_EQ(process_.DrainWork(seconds(3)), 0) << "it is starting";
  process_.SetWorking(seconds(4));
  EXPECT_TRUE(process_.Block(seconds(5), "disk full"));
  EXPECT_TRUE(process_.Unblock(seconds(8)));

  EXPECT_EQ(process_.DrainWork(seconds(10)), 3);
  EXPECT_EQ(process_.DrainWork(seconds(12)), 0) << "it is idle";
}

TEST_F(TrialProcessTest, CountsItsRunningTimeOnce) {
  EXPECT_EQ(process_.DrainSeconds(seconds(3)), 0);
  process_.SetRunning(seconds(4), Timestamp(0));

  EXPECT_EQ(process_.DrainSeconds(seconds(6)), 2);
  EXPECT_EQ(process_.DrainSeconds(seconds(9)), 3);
  EXPECT_EQ(process_.recorded_seconds(), 5);
}

TEST(StartQueueTest, ServesByTurn) {
  StartQueue queue;
  queue.Add(/*turn=*/7, /*trial=*/1);
  queue.Add(/*turn=*/3, /*trial=*/2);

  EXPECT_EQ(queue.Pop(), 2);
  EXPECT_EQ(queue.Pop(), 1);
  EXPECT_TRUE(queue.empty());
}

TEST(StartQueueTest, CountsATrialOnce) {
  StartQueue queue;
  queue.Add(1, 1);
  queue.Add(1, 1);

  EXPECT_EQ(queue.size(), 1u);
}

TEST(StartQueueTest, HoldsBackDelayedTrials) {
  StartQueue queue;
  queue.Delay(milliseconds(100), /*turn=*/1, /*trial=*/1);
  queue.Add(1, 1);
  queue.Add(2, 2);

  EXPECT_EQ(queue.size(), 1u);
  EXPECT_FALSE(queue.empty());
  EXPECT_EQ(queue.next_wake(), milliseconds(100));
  EXPECT_EQ(queue.Pop(), 2);
}

TEST(StartQueueTest, WokenTrialRegainsItsPlace) {
  StartQueue queue;
  queue.Delay(milliseconds(100), /*turn=*/1, /*trial=*/1);
  queue.Add(/*turn=*/2, /*trial=*/2);

  queue.Wake(milliseconds(99));
  EXPECT_EQ(queue.size(), 1u);
  queue.Wake(milliseconds(100));

  EXPECT_EQ(queue.next_wake(), std::nullopt);
  EXPECT_EQ(queue.Pop(), 1);
}

TEST(StartQueueTest, HoldsTheSlotOfATrialUntilItIsWoken) {
  StartQueue queue;
  queue.Delay(milliseconds(100), 1, 1, /*keeps_slot=*/true);
  queue.Delay(milliseconds(100), 2, 2, /*keeps_slot=*/false);
  EXPECT_EQ(queue.held(), 1u);

  queue.Wake(milliseconds(100));
  EXPECT_EQ(queue.held(), 0u);

  queue.Delay(milliseconds(100), 3, 3, /*keeps_slot=*/true);
  queue.Clear();
  EXPECT_EQ(queue.held(), 0u);
}

TEST(StartQueueTest, ForgetsAllWhenCleared) {
  StartQueue queue;
  queue.Add(1, 1);
  queue.Delay(milliseconds(1), 2, 2);

  queue.Clear();
  EXPECT_TRUE(queue.empty());
  queue.Add(2, 2);
  EXPECT_EQ(queue.size(), 1u);
}

using testing::FieldsAre;
using testing::Optional;

TEST(EarlierValuesTest, IsEmptyUpToTheCheckpoint) {
  EarlierValues values(/*from=*/100, /*last=*/100);

  EXPECT_TRUE(values.empty());
  EXPECT_FALSE(values.Pass(MetricKind::kTraining, 120).has_value());
  EXPECT_FALSE(values.PassAll().has_value());
}

TEST(EarlierValuesTest, ReturnsEachRangeOncePerKind) {
  EarlierValues values(/*from=*/100, /*last=*/130);

  EXPECT_THAT(values.Pass(MetricKind::kTraining, 110),
              Optional(FieldsAre(101, 110)));
  EXPECT_THAT(values.Pass(MetricKind::kTraining, 120),
              Optional(FieldsAre(110, 120)));
  EXPECT_FALSE(values.Pass(MetricKind::kTraining, 120).has_value());
  EXPECT_THAT(values.Pass(MetricKind::kValidation, 120),
              Optional(FieldsAre(101, 120)));
}

TEST(EarlierValuesTest, ReturnsNothingBeyondTheLastValue) {
  EarlierValues values(/*from=*/100, /*last=*/130);
  ASSERT_TRUE(values.Pass(MetricKind::kTraining, 140).has_value());

  EXPECT_FALSE(values.Pass(MetricKind::kTraining, 150).has_value());
}

TEST(EarlierValuesTest, OrderlyEndPassesAll) {
  EarlierValues values(/*from=*/100, /*last=*/130);
  EXPECT_TRUE(values.Cover(130));
  EXPECT_FALSE(values.Cover(131));

  EXPECT_THAT(
      values.PassAll(),
      Optional(FieldsAre(101, std::numeric_limits<std::int64_t>::max())));
  EXPECT_TRUE(values.empty());
}

}  // namespace

}  // namespace dtrain
