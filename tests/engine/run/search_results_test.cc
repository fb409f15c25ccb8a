#include "engine/run/search_results.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dtrain {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

SearcherConfig Adaptive() {
  // Brackets of three, two and one rung: 100 300 900, 300 900, 900.
  return {.name = "adaptive_asha",
          .metric = "loss",
          .max_length = 900,
          .max_trials = 20,
          .divisor = 3,
          .mode = "conservative",
          .max_rungs = 3};
}

TEST(RungsTest, CountsTrialsOverAllBrackets) {
  Rungs rungs(Adaptive(), Unit::kBatches);
  rungs.Count(300);
  rungs.Count(300);

  const auto status = rungs.Status({{900, 1}});

  ASSERT_THAT(status, SizeIs(3));
  EXPECT_EQ(status[0].length, (Length{100, Unit::kBatches}));
  EXPECT_EQ(status[1].done, 2);
  EXPECT_EQ(status[1].running, 0);
  EXPECT_EQ(status[2].running, 1);
}

TEST(RungsTest, FindsTheRungInTheTrialsBracket) {
  const Rungs rungs(Adaptive(), Unit::kBatches);

  EXPECT_EQ(rungs.WhyStopped(1, 100),
            "not promoted from rung 1 of 3 (100 batches)");
  EXPECT_EQ(rungs.WhyStopped(2, 300),
            "not promoted from rung 2 of 3 (300 batches)");
  EXPECT_EQ(rungs.WhyStopped(1, 300),
            "not promoted from rung 1 of 2 (300 batches)");
}

TEST(RungsTest, ReportsTheRungOfAStoppedTrial) {
  SearcherConfig config = Adaptive();
  config.stop_once = true;
  config.max_length = 9;
  const Rungs rungs(config, Unit::kEpochs);

  EXPECT_EQ(rungs.WhyStopped(1, 1), "stopped at rung 1 of 3 (1 epoch)");
}

TEST(RungsTest, IsEmptyIfAllTrialsTrainToOneLength) {
  Rungs rungs({.name = "random", .max_length = 10, .max_trials = 3},
              Unit::kEpochs);
  rungs.Count(10);

  EXPECT_THAT(rungs.Status({}), IsEmpty());
  EXPECT_EQ(rungs.WhyStopped(0, 0), "stopped by the searcher");
}

class BestTrialTest : public testing::Test {
 protected:
  TrialRow first_{.id = {1, 1}, .hparams = {{"x", 1}}};
  TrialRow second_{.id = {1, 2}, .hparams = {{"x", 2}}};
  BestTrial best_{/*smaller_is_better=*/true};
};

TEST_F(BestTrialTest, IsTheSmallestValue) {
  EXPECT_TRUE(best_.Offer(first_, 0.5, {100}));
  EXPECT_TRUE(best_.Offer(second_, 0.4, {100}));
  EXPECT_FALSE(best_.Offer(first_, 0.45, {200}));

  EXPECT_EQ(best_.trial(), 2);
  EXPECT_EQ(best_.validation()->value, 0.4);
  EXPECT_EQ(best_.hparams().at("x"), 2);
  EXPECT_EQ(first_.best->batches, 200);
}

TEST_F(BestTrialTest, IsTheLargestValueIfLargerIsBetter) {
  BestTrial best(/*smaller_is_better=*/false);

  EXPECT_TRUE(best.Offer(first_, 0.4, {100}));
  EXPECT_FALSE(best.Offer(second_, 0.3, {100}));
}

TEST_F(BestTrialTest, IsTheFirstOfEqualTrials) {
  best_.Offer(second_, 0.5, {100});

  EXPECT_TRUE(best_.Offer(first_, 0.5, {100}));
  EXPECT_FALSE(best_.Offer(second_, 0.5, {200}));
  EXPECT_EQ(best_.trial(), 1);
}

TEST_F(BestTrialTest, IsNeverNanOrInfinite) {
  EXPECT_FALSE(
      best_.Offer(first_, std::numeric_limits<double>::quiet_NaN(), {100}));
  EXPECT_FALSE(
      best_.Offer(first_, -std::numeric_limits<double>::infinity(), {100}));
  EXPECT_FALSE(best_.validation().has_value());
}

TEST_F(BestTrialTest, NamesItsCheckpointWhileItExists) {
  best_.Offer(first_, 0.5, {100});
  best_.SetCheckpoint({1, 2}, 100, "other");
  EXPECT_EQ(best_.validation()->checkpoint, "");

  best_.SetCheckpoint({1, 1}, 100, "own");
  EXPECT_EQ(best_.validation()->checkpoint, "own");

  best_.ClearCheckpoint("own");
  EXPECT_EQ(best_.validation()->checkpoint, "");
}

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
