#include "engine/process/trial_end.h"

#include <csignal>

#include <gtest/gtest.h>

namespace dtrain {
namespace {

Finished Error(const std::string& message) {
  return {.reason = EndReason::kError, .message = message};
}

TEST(TrialEndTest, TheFirstThatFailedByItselfCounts) {
  const TrialEnd end = JudgeEnd(
      {{.rank = 2, .exit_code = 0},
       {.rank = 1, .exit_code = -1, .signal = SIGKILL, .ended_by_us = true},
       {.rank = 3, .exit_code = 4},
       {.rank = 0, .exit_code = 5}});
  EXPECT_EQ(end.rank.rank, 3);
  EXPECT_EQ(end.rank.exit_code, 4);
  EXPECT_FALSE(end.word);
}

TEST(TrialEndTest, TheFirstToDieCountsWhereNoneFailedByItself) {
  const TrialEnd end = JudgeEnd(
      {{.rank = 1, .exit_code = 0},
       {.rank = 0, .exit_code = -1, .signal = SIGKILL, .ended_by_us = true}});
  EXPECT_EQ(end.rank.rank, 1);
  EXPECT_FALSE(end.word);
}

TEST(TrialEndTest, RankZeroSpeaksForAll) {
  const TrialEnd end = JudgeEnd(
      {{.rank = 1, .exit_code = 1, .word = Error("one")},
       {.rank = 0, .exit_code = 1, .word = Error("zero"), .late_word = true}});
  EXPECT_EQ(end.word->message, "zero");
}

TEST(TrialEndTest, ThatARankIsMissedIsNotWhyItCrashed) {
  const TrialEnd end =
      JudgeEnd({{.rank = 1, .exit_code = -1, .signal = SIGSEGV},
                {.rank = 0,
                 .exit_code = 1,
                 .word = Error("rank 1 is gone"),
                 .late_word = true}});
  EXPECT_EQ(end.rank.signal, SIGSEGV);
  EXPECT_FALSE(end.word);
}

TEST(TrialEndTest, ALostConnectionIsNotWhyItCrashedWhoeverEndedFirst) {
  const RankEnd first = {
      .rank = 0,
      .exit_code = 1,
      .word = Error("rank 1 failed: its connection was lost")};
  const TrialEnd crashed =
      JudgeEnd({first, {.rank = 1, .exit_code = -1, .signal = SIGKILL}});
  EXPECT_EQ(crashed.rank.signal, SIGKILL);
  EXPECT_FALSE(crashed.word);
  const TrialEnd failed =
      JudgeEnd({first, {.rank = 1, .exit_code = 1, .word = Error("no luck")}});
  EXPECT_EQ(failed.word->message, "rank 1: no luck");
  EXPECT_EQ(JudgeEnd({first}).word->message, first.word->message);
}

TEST(TrialEndTest, ACrashAfterTheReasonWasSaidIsNotTheReason) {
  const TrialEnd end =
      JudgeEnd({{.rank = 1, .exit_code = -1, .signal = SIGABRT},
                {.rank = 0, .exit_code = 1, .word = Error("zero")}});
  EXPECT_EQ(end.word->message, "zero");
}

TEST(TrialEndTest, AStoppedTrialIsStoppedWhateverAnotherRankDoesThen) {
  const TrialEnd end =
      JudgeEnd({{.rank = 1, .exit_code = -1, .signal = SIGSEGV},
                {.rank = 0,
                 .word = Finished{.reason = EndReason::kStopped},
                 .late_word = true}});
  EXPECT_EQ(end.word->reason, EndReason::kStopped);
}

TEST(TrialEndTest, WithoutRankZeroTheRankThatFailedSpeaks) {
  const TrialEnd end = JudgeEnd(
      {{.rank = 1, .word = Finished{.reason = EndReason::kCompleted}},
       {.rank = 2, .exit_code = 1, .word = Error("two")},
       {.rank = 0, .exit_code = -1, .signal = SIGKILL, .ended_by_us = true}});
  EXPECT_EQ(end.rank.rank, 2);
  EXPECT_EQ(end.word->message, "rank 2: two");
}

TEST(TrialEndTest, BadNewsOfARankThatEndedWellCount) {
  const TrialEnd end = JudgeEnd(
      {{.rank = 1,
        .word =
            Finished{.reason = EndReason::kInvalidHp, .message = "too large"}},
       {.rank = 0, .exit_code = -1, .signal = SIGKILL, .ended_by_us = true}});
  EXPECT_EQ(end.word->reason, EndReason::kInvalidHp);
  EXPECT_EQ(end.word->message, "rank 1: too large");
}

TEST(TrialEndTest, ThatAnotherRankIsDoneDoesNotHideACrash) {
  const TrialEnd end = JudgeEnd(
      {{.rank = 0, .exit_code = -1, .signal = SIGSEGV},
       {.rank = 1, .word = Finished{.reason = EndReason::kCompleted}}});
  EXPECT_EQ(end.rank.rank, 0);
  EXPECT_FALSE(end.word);
}

}  // namespace
}  // namespace dtrain
