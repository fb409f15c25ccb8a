#include "engine/nodes/shared_trial.h"

#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dtrain {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr TrialId kShared{.experiment = 1, .number = 1};

// A trial of two machines with two ranks each.
class SharedTrialTest : public testing::Test {
 protected:
  SharedTrialTest() {
    while (trial_.PopNext()) continue;
  }
  TrialExited MakeExit(int rank, int exit_code) const {
    return {.trial = kShared, .exit_code = exit_code, .rank = rank};
  }
  TrialExited Killed(int rank) const {
    return {.trial = kShared,
            .exit_code = -1,
            .signal = SIGKILL,
            .rank = rank,
            .killed_by_us = true};
  }
  static Finished Error(const std::string& message) {
    return {.reason = EndReason::kError, .message = message};
  }
  TrialExited End() {
    EXPECT_TRUE(trial_.ended());
    trial_.EmitEnd(events_);
    return std::get<TrialExited>(events_.back());
  }
  // Message right before the end, or empty.
  std::string FinalMessage() const {
    if (events_.size() < 2) return "";
    const auto* said =
        std::get_if<MessageReceived>(&events_[events_.size() - 2]);
    return said == nullptr ? "" : std::get<Finished>(said->message).message;
  }

  Duration now_{0};
  std::vector<LogRecord> log_;
  std::deque<LaunchEvent> events_;
  Clock clock_{.now = [] { return Timestamp(0); },
               .monotonic = [this] { return now_; }};
  // None of its parts has begun; the other machine's is the first to.
  SharedTrial Trial() {
    return SharedTrial(
        TrialSpec{.id = kShared, .world_size = 2},
        /*places=*/{{.node = 0, .slots = 2}, {.node = 7, .slots = 2}},
        /*order=*/{1, 0},
        TrialOutput([this](const LogRecord& record) { log_.push_back(record); },
                    clock_),
        clock_);
  }
  SharedTrial trial_ = Trial();  // all have begun
};

TEST_F(SharedTrialTest, ShardsHaveTheirRanks) {
  trial_.SetAddress({.host = "h"});
  const TrialSpec part = trial_.ShardSpec(1);

  EXPECT_EQ(part.rank, 2);
  EXPECT_EQ(part.world_size, 4);
  EXPECT_EQ(part.address->host, "h");
  EXPECT_EQ(part.address->ranks_here, 2);
}

TEST_F(SharedTrialTest, ShardsAreOnTheirNodes) {
  EXPECT_EQ(trial_.ShardOn(7), 1);
  EXPECT_EQ(trial_.ShardOn(1), std::nullopt);
  EXPECT_EQ(trial_.ShardNode(1), 7);
}

TEST_F(SharedTrialTest, FinalMessageMayPrecedeTheEndOfItsShard) {
  trial_.OnFinished(0,
                    {.reason = EndReason::kCompleted, .message = "in advance"});
  trial_.OnEnded(0, {.exited = MakeExit(0, 0)});
  trial_.OnEnded(1, {.exited = MakeExit(2, 0)});

  End();

  EXPECT_EQ(FinalMessage(), "in advance");
}

TEST_F(SharedTrialTest, KeepsMessagesToRank0UntilItStarts) {
  trial_ = Trial();
  trial_.Hold({Acknowledge{7}});

  EXPECT_THAT(trial_.DrainHeld(), SizeIs(1));
  EXPECT_THAT(trial_.DrainHeld(), IsEmpty());
}

TEST_F(SharedTrialTest, StartsWithTheLastShardAndKeepsEarlierMessages) {
  trial_.OnStarted(0, {.trial = kShared, .pid = 5}, events_);
  trial_.OnMessage(Ready{}, events_);
  EXPECT_THAT(events_, IsEmpty());

  trial_.OnStarted(1, {.trial = kShared}, events_);

  ASSERT_THAT(events_, SizeIs(2));
  EXPECT_EQ(std::get<TrialStarted>(events_[0]).pid, 5);
  EXPECT_TRUE(std::holds_alternative<MessageReceived>(events_[1]));
}

TEST_F(SharedTrialTest, ShardsStartInTurnAndSlowOnesAreNamed) {
  trial_ = Trial();
  EXPECT_EQ(trial_.PopNext(), 1);
  EXPECT_TRUE(trial_.is_queued(0));
  EXPECT_EQ(trial_.Deadline(), seconds(10));
  EXPECT_EQ(trial_.PopLongWait(), std::nullopt);
  now_ = seconds(10);
  EXPECT_EQ(trial_.PopLongWait(), 1);
  EXPECT_EQ(trial_.PopLongWait(), std::nullopt) << "once";
  trial_.OnStarted(1, {.trial = kShared}, events_);

  EXPECT_EQ(trial_.PopNext(), 0);
  EXPECT_FALSE(trial_.is_queued(0));
  EXPECT_EQ(trial_.Deadline(), seconds(20));
  trial_.OnStarted(0, {.trial = kShared, .pid = 5}, events_);
  EXPECT_FALSE(trial_.Deadline());
  EXPECT_EQ(trial_.PopNext(), std::nullopt);
}

TEST_F(SharedTrialTest, UnstartedShardsNeverStartAfterTheEnd) {
  trial_ = Trial();
  EXPECT_EQ(trial_.PopNext(), 1);
  trial_.OnEnded(1, {.exited = MakeExit(3, 7)});

  EXPECT_EQ(trial_.PopNext(), std::nullopt);
  EXPECT_FALSE(trial_.is_queued(0));
  EXPECT_EQ(End().rank, 3);
}

TEST_F(SharedTrialTest, StopBeforeAnyStartEndsTheTrial) {
  trial_ = Trial();
  trial_.OnStopRequested();

  const TrialExited exited = End();

  EXPECT_EQ(exited.exit_code, 0);
  EXPECT_FALSE(exited.killed_by_us);
}

TEST_F(SharedTrialTest, OthersHaveTwoSecondsAfterAFailure) {
  trial_.OnEnded(1, {.exited = MakeExit(2, 1)});
  EXPECT_FALSE(trial_.PopKillDue());
  EXPECT_EQ(trial_.Deadline(), seconds(2));

  now_ = seconds(2);

  EXPECT_TRUE(trial_.PopKillDue());
  EXPECT_FALSE(trial_.PopKillDue()) << "once";
  EXPECT_FALSE(trial_.Deadline());
}

TEST_F(SharedTrialTest, ReportsTheFirstFailureRatherThanKilledShards) {
  trial_.OnEnded(1, {.exited = MakeExit(3, 7)});
  trial_.OnEnded(0, {.exited = Killed(0)});

  const TrialExited exited = End();

  EXPECT_EQ(exited.rank, 3);
  EXPECT_EQ(exited.exit_code, 7);
  EXPECT_FALSE(exited.killed_by_us);
}

TEST_F(SharedTrialTest, RankWithAReasonIsNamedOnce) {
  trial_.OnEnded(
      1, {.exited = MakeExit(3, 1), .finished = Error("rank 3: no luck")});
  trial_.OnEnded(0, {.exited = Killed(0)});

  End();

  EXPECT_EQ(FinalMessage(), "rank 3: no luck");
}

TEST_F(SharedTrialTest, SuccessIsReportedByRank0) {
  trial_.OnEnded(1, {.exited = MakeExit(2, 0)});
  trial_.OnEnded(0, {.exited = MakeExit(0, 0),
                     .finished = Finished{.reason = EndReason::kCompleted,
                                          .message = "done"}});

  EXPECT_EQ(End().exit_code, 0);
  EXPECT_EQ(FinalMessage(), "done");
}

TEST_F(SharedTrialTest, ReportsAKillOnRequest) {
  trial_.OnKillRequested();
  trial_.OnEnded(0, {.exited = Killed(0)});
  trial_.OnEnded(1, {.exited = Killed(2)});

  EXPECT_TRUE(End().killed_by_us);
}

// As of a trial that did not stop in time.
TEST_F(SharedTrialTest, ReportsAKillAfterAStopAsOurs) {
  trial_.OnStopRequested();
  trial_.OnEnded(0, {.exited = Killed(0)});
  trial_.OnEnded(1, {.exited = Killed(2)});

  EXPECT_TRUE(End().killed_by_us);
}

TEST_F(SharedTrialTest, ReportsAFailureAfterAStopAsItsOwn) {
  trial_.OnStopRequested();
  trial_.OnEnded(0, {.exited = MakeExit(0, 7)});
  trial_.OnEnded(1, {.exited = Killed(2)});

  const TrialExited exited = End();

  EXPECT_FALSE(exited.killed_by_us);
  EXPECT_EQ(exited.exit_code, 7);
}

TEST_F(SharedTrialTest, LostMachineIsAFailure) {
  trial_.OnLost(1, "lost the process with RANK=1");
  trial_.OnLost(1, "again");
  trial_.OnEnded(0, {.exited = Killed(0)});

  const TrialExited exited = End();

  EXPECT_EQ(exited.rank, 2);
  EXPECT_EQ(exited.exit_code, 1);
  EXPECT_THAT(exited.last_lines, ElementsAre("lost the process with RANK=1"));
  // Counts as a crash: repeating it does not make the trial give up.
  EXPECT_EQ(FinalMessage(), "");
  EXPECT_THAT(log_, SizeIs(1));
}

TEST_F(SharedTrialTest, EndOfAMachineThatIsTakenAwayIsNoFailureOfOthers) {
  trial_.OnPreempted();
  trial_.OnEnded(1, {.exited = Killed(2)});
  trial_.OnEnded(0, {.exited = MakeExit(0, 1),
                     .finished = Error("rank 2: its connection was lost")});

  EXPECT_TRUE(End().preempted);
  EXPECT_EQ(FinalMessage(), "");
}

TEST_F(SharedTrialTest, ErrorOfAPreemptedTrialIsReported) {
  trial_.OnPreempted();
  trial_.OnEnded(0, {.exited = MakeExit(0, 1), .finished = Error("no luck")});
  trial_.OnEnded(1, {.exited = Killed(2)});

  EXPECT_TRUE(End().preempted);
  EXPECT_EQ(FinalMessage(), "no luck");
}

TEST_F(SharedTrialTest, UnstartedShardsDoNotStartAfterAPreemption) {
  trial_ = Trial();
  EXPECT_EQ(trial_.PopNext(), 1);
  trial_.OnPreempted();

  EXPECT_EQ(trial_.PopNext(), std::nullopt);
  EXPECT_TRUE(trial_.ended(0)) << "it has not started";
  EXPECT_FALSE(trial_.ended(1));
  trial_.OnEnded(1, {.exited = Killed(2)});
  EXPECT_TRUE(End().preempted);
}

TEST_F(SharedTrialTest, SlotsOfAllShardsAreReported) {
  trial_.OnStarted(1, {.trial = kShared, .pid = 6, .slots = {"b/cpu:1"}},
                   events_);
  trial_.OnStarted(0, {.trial = kShared, .pid = 5, .slots = {"cpu:0"}},
                   events_);

  const auto& started = std::get<TrialStarted>(events_.front());
  EXPECT_EQ(started.pid, 5);
  EXPECT_THAT(started.slots, ElementsAre("cpu:0", "b/cpu:1"));
}

TEST_F(SharedTrialTest, ShardsMayDifferInSize) {
  const SharedTrial trial(TrialSpec{.id = kShared, .world_size = 6},
                          {{.node = 3, .slots = 3},
                           {.node = 1, .slots = 1},
                           {.node = 2, .slots = 2}},
                          {0, 1, 2},
                          TrialOutput([](const LogRecord&) {}, clock_), clock_);

  EXPECT_EQ(trial.ShardSpec(1).rank, 3);
  EXPECT_EQ(trial.ShardSpec(2).rank, 4);
  EXPECT_EQ(trial.ShardSpec(2).world_size, 6);
  EXPECT_EQ(trial.ShardSpec(0).address->ranks_here, 3);
}

TEST_F(SharedTrialTest, ShardThatCannotStartIsNotTheTrialsFault) {
  TrialExited never = MakeExit(2, 1);
  never.not_started = "no process";
  trial_.OnEnded(1, {.exited = never});
  trial_.OnEnded(0, {.exited = {.trial = kShared, .killed_by_us = true}});

  EXPECT_EQ(End().not_started, "no process");
  EXPECT_THAT(events_, SizeIs(1)) << "it never started";
}

}  // namespace
}  // namespace dtrain
