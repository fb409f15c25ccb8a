#include "engine/app/followed_run.h"

#include <chrono>

#include <gtest/gtest.h>

namespace dtrain {
namespace {

using std::chrono::milliseconds;

ExperimentRow In(State state) { return {.state = state}; }

TEST(SettledCheckTest, FollowsTheStateOfARunThatHasARunner) {
  SettledCheck check;
  EXPECT_FALSE(check.IsSettled(In(State::kPending), milliseconds(0)));
  EXPECT_FALSE(check.IsSettled(In(State::kRunning), milliseconds(9'000)));
  for (const State state :
       {State::kPaused, State::kCompleted, State::kError, State::kCanceled}) {
    EXPECT_TRUE(check.IsSettled(In(state), milliseconds(9'000)));
  }
}

TEST(SettledCheckTest, WaitsForARunnerForASecondAndFiveCalls) {
  SettledCheck check;
  for (int call = 0; call < 4; ++call) {
    EXPECT_FALSE(
        check.IsSettled(In(State::kInterrupted), milliseconds(5'000 * call)));
  }
  EXPECT_TRUE(check.IsSettled(In(State::kInterrupted), milliseconds(20'000)));

  SettledCheck fast;
  for (int call = 0; call < 10; ++call) {
    EXPECT_FALSE(
        fast.IsSettled(In(State::kInterrupted), milliseconds(100 * call)));
  }
  EXPECT_TRUE(fast.IsSettled(In(State::kInterrupted), milliseconds(1'000)));
}

TEST(SettledCheckTest, BeginsAgainAfterARunnerWasSeen) {
  SettledCheck check;
  for (int call = 0; call < 5; ++call) {
    (void)check.IsSettled(In(State::kInterrupted), milliseconds(200 * call));
  }
  EXPECT_FALSE(check.IsSettled(In(State::kRunning), milliseconds(1'000)));
  EXPECT_FALSE(check.IsSettled(In(State::kInterrupted), milliseconds(2'000)));
}

}  // namespace
}  // namespace dtrain
