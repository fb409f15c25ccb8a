#include "engine/process/trial_end.h"

#include <csignal>

#include <gtest/gtest.h>

namespace dtrain {
namespace {

Finished Error(const std::string& message) {
  return {.reason = EndReason::kError, .message = message};
}

TEST(TrialEndTest, ReportsTheFirstIndependentFailure) {
  const TrialEnd end = CombineEnds(
      {{.rank = 2, .exit_code = 0},
       {.rank = 1, .exit_code = -1, .signal = SIGKILL, .ended_by_us = true},
       {.rank = 3, .exit_code = 4},
       {.rank = 0, .exit_code = 5}});
  EXPECT_EQ(end.rank.rank, 3);
  EXPECT_EQ(end.rank.exit_code, 4);
  EXPECT_FALSE(end.message);
}

TEST(TrialEndTest, ReportsTheFirstDeathWithoutAnIndependentFailure) {
  const TrialEnd end = CombineEnds(
      {{.rank = 1, .exit_code = 0},
       {.rank = 0, .exit_code = -1, .signal = SIGKILL, .ended_by_us = true}});
  EXPECT_EQ(end.rank.rank, 1);
  EXPECT_FALSE(end.message);
}

TEST(TrialEndTest, RankZeroReportsForAll) {
  const TrialEnd end =
      CombineEnds({{.rank = 1, .exit_code = 1, .message = Error("one")},
                   {.rank = 0,
                    .exit_code = 1,
                    .message = Error("zero"),
                    .late_message = true}});
  EXPECT_EQ(end.message->message, "zero");
}

TEST(TrialEndTest, MissingPeerIsNotTheCauseOfACrash) {
  const TrialEnd end =
      CombineEnds({{.rank = 1, .exit_code = -1, .signal = SIGSEGV},
                   {.rank = 0,
                    .exit_code = 1,
                    .message = Error("rank 1 is gone"),
                    .late_message = true}});
  EXPECT_EQ(end.rank.signal, SIGSEGV);
  EXPECT_FALSE(end.message);
}

TEST(TrialEndTest, LostConnectionIsNotTheCauseOfACrash) {
  const RankEnd first = {
      .rank = 0,
      .exit_code = 1,
      .message = Error("rank 1 failed: its connection was lost")};
  const TrialEnd crashed =
      CombineEnds({first, {.rank = 1, .exit_code = -1, .signal = SIGKILL}});
  EXPECT_EQ(crashed.rank.signal, SIGKILL);
  EXPECT_FALSE(crashed.message);
  const TrialEnd failed = CombineEnds(
      {first, {.rank = 1, .exit_code = 1, .message = Error("no luck")}});
  EXPECT_EQ(failed.message->message, "rank 1: no luck");
  EXPECT_EQ(CombineEnds({first}).message->message, first.message->message);
}

TEST(TrialEndTest, CrashAfterAReportedReasonIsNotTheReason) {
  const TrialEnd end =
      CombineEnds({{.rank = 1, .exit_code = -1, .signal = SIGABRT},
                   {.rank = 0, .exit_code = 1, .message = Error("zero")}});
  EXPECT_EQ(end.message->message, "zero");
}

TEST(TrialEndTest, StoppedTrialStaysStopped) {
  const TrialEnd end =
      CombineEnds({{.rank = 1, .exit_code = -1, .signal = SIGSEGV},
                   {.rank = 0,
                    .message = Finished{.reason = EndReason::kStopped},
                    .late_message = true}});
  EXPECT_EQ(end.message->reason, EndReason::kStopped);
}

TEST(TrialEndTest, FailedRankReportsWithoutRankZero) {
  const TrialEnd end = CombineEnds(
      {{.rank = 1, .message = Finished{.reason = EndReason::kCompleted}},
       {.rank = 2, .exit_code = 1, .message = Error("two")},
       {.rank = 0, .exit_code = -1, .signal = SIGKILL, .ended_by_us = true}});
  EXPECT_EQ(end.rank.rank, 2);
  EXPECT_EQ(end.message->message, "rank 2: two");
}

TEST(TrialEndTest, FailureReportOfASuccessfulExitCounts) {
  const TrialEnd end = CombineEnds(
      {{.rank = 1,
        .message =
            Finished{.reason = EndReason::kInvalidHp, .message = "too large"}},
       {.rank = 0, .exit_code = -1, .signal = SIGKILL, .ended_by_us = true}});
  EXPECT_EQ(end.message->reason, EndReason::kInvalidHp);
  EXPECT_EQ(end.message->message, "rank 1: too large");
}

TEST(TrialEndTest, SuccessOfAnotherRankDoesNotHideACrash) {
  const TrialEnd end = CombineEnds(
      {{.rank = 0, .exit_code = -1, .signal = SIGSEGV},
       {.rank = 1, .message = Finished{.reason = EndReason::kCompleted}}});
  EXPECT_EQ(end.rank.rank, 0);
  EXPECT_FALSE(end.message);
}

}  // namespace
}  // namespace dtrain
