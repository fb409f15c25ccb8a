#include "cli/exit_code.h"

#include <csignal>

#include <gtest/gtest.h>

#include "engine/run/reporter.h"

namespace dtrain {
namespace {

RunResult Paused(const std::string& error, ErrorKind kind) {
  return {.state = State::kPaused, .error = error, .error_kind = kind};
}

TEST(ExitCodeTest, FollowsTheKindOfAnError) {
  EXPECT_EQ(ExitCodeOf(ErrorKind::kUsage), 2);
  EXPECT_EQ(ExitCodeOf(ErrorKind::kNotFound), 3);
  EXPECT_EQ(ExitCodeOf(ErrorKind::kStore), 5);
  EXPECT_EQ(ExitCodeOf(ErrorKind::kDiskFull), 5);
  EXPECT_EQ(ExitCodeOf(ErrorKind::kResources), 6);
  EXPECT_EQ(ExitCodeOf(ErrorKind::kDamaged), 1);
  EXPECT_EQ(ExitCodeOf(ErrorKind::kFailed), 1);
}

TEST(ExitCodeTest, FollowsTheStateOfAnExperiment) {
  EXPECT_EQ(ExitCodeOf(State::kCompleted), 0);
  EXPECT_EQ(ExitCodeOf(State::kStopped), 0);
  EXPECT_EQ(ExitCodeOf(State::kPaused), 75);
  EXPECT_EQ(ExitCodeOf(State::kInterrupted), 75);
  EXPECT_EQ(ExitCodeOf(State::kCanceled), 1);
  EXPECT_EQ(ExitCodeOf(State::kError), 1);
}

TEST(ExitCodeTest, TellsWhyARunWasPaused) {
  EXPECT_EQ(ExitCodeOf(RunResult{.state = State::kPaused}), 75);
  EXPECT_EQ(ExitCodeOf(RunResult{.state = State::kPaused, .signal = SIGINT}),
            130);
  EXPECT_EQ(ExitCodeOf(RunResult{.state = State::kPaused, .timed_out = true}),
            124);
  EXPECT_EQ(ExitCodeOf(Paused("no slots", ErrorKind::kResources)), 6);
}

TEST(ExitCodeTest, PrefersAFullDiskToASignal) {
  RunResult result = Paused("no space", ErrorKind::kDiskFull);
  result.signal = SIGTERM;
  EXPECT_EQ(ExitCodeOf(result), 5);
  result.error_kind = ErrorKind::kStore;
  EXPECT_EQ(ExitCodeOf(result), 143);
}

TEST(ExitCodeTest, FollowsTheStateAfterTheEnd) {
  EXPECT_EQ(ExitCodeOf(RunResult{.state = State::kCompleted, .signal = SIGINT}),
            0);
  EXPECT_EQ(ExitCodeOf(RunResult{.state = State::kError, .timed_out = true}),
            1);
}

}  // namespace
}  // namespace dtrain
