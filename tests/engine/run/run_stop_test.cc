#include "engine/run/run_stop.h"

#include <gtest/gtest.h>

namespace dtrain {
namespace {

TEST(RunStopTest, FinishedSearchIsCompleted) {
  const RunStop stop;
  const RunResult result = stop.Result(
      /*experiment=*/7, {.over = true, .ended = 3, .finished = 2});

  EXPECT_EQ(result.experiment, 7);
  EXPECT_EQ(result.state, State::kCompleted);
  EXPECT_EQ(result.error, "");
}

TEST(RunStopTest, SearchOfFailedTrialsReportsTheLastError) {
  const RunStop stop;
  const RunResult result =
      stop.Result(1, {.over = true,
                      .failed = true,
                      .ended = 2,
                      .last_error = "trial 1.2: exited with code 1"});

  EXPECT_EQ(result.state, State::kError);
  EXPECT_EQ(result.error, "trial 1.2: exited with code 1");
}

TEST(RunStopTest, SearchOfKilledTrialsIsCanceledWithAReason) {
  const RunStop stop;
  const auto error = [&](std::int64_t ended, std::int64_t killed) {
    const RunResult result =
        stop.Result(1, {.over = true, .ended = ended, .killed = killed});
    EXPECT_EQ(result.state, State::kCanceled);
    return result.error;
  };

  EXPECT_EQ(error(1, 1), "its trial was killed");
  EXPECT_EQ(error(3, 3), "every trial was killed");
  EXPECT_EQ(error(3, 2), "every trial was killed or failed");
}

TEST(RunStopTest, StopPausesAndKeepsItsCauses) {
  RunStop stop;
  EXPECT_TRUE(stop.SetSignal(15));
  stop.Stop("stopped by SIGTERM");
  stop.SetTimedOut();

  EXPECT_TRUE(stop.stopping());
  EXPECT_EQ(stop.why(), "stopped by SIGTERM");
  const RunResult result = stop.Result(1, {});
  EXPECT_EQ(result.state, State::kPaused);
  EXPECT_EQ(result.signal, 15);
  EXPECT_TRUE(result.timed_out);
}

TEST(RunStopTest, DistinguishesASecondSignal) {
  RunStop stop;
  stop.Stop("paused by request");
  EXPECT_TRUE(stop.SetSignal(2));
  EXPECT_FALSE(stop.SetSignal(2));
}

TEST(RunStopTest, KeepsTheFirstProblem) {
  RunStop stop;
  EXPECT_TRUE(stop.SetProblem(Error(ErrorKind::kDiskFull, "disk full")));
  EXPECT_FALSE(stop.SetProblem(Error(ErrorKind::kStore, "moved")));
  stop.Stop("stopped: disk full");

  const RunResult result = stop.Result(1, {});
  EXPECT_EQ(result.state, State::kPaused);
  EXPECT_EQ(result.error, "disk full");
  EXPECT_EQ(result.error_kind, ErrorKind::kDiskFull);
}

TEST(RunStopTest, FailureOverridesACancel) {
  RunStop stop;
  stop.Cancel();
  EXPECT_EQ(stop.EndState({}), State::kCanceled);

  EXPECT_TRUE(stop.SetFailure("x was never read"));
  EXPECT_FALSE(stop.SetFailure("y was never read"));

  EXPECT_EQ(stop.Result(1, {}).state, State::kError);
  EXPECT_EQ(stop.Result(1, {}).error, "x was never read");
}

}  // namespace
}  // namespace dtrain
