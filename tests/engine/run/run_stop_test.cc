#include "engine/run/run_stop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dtrain {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;

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

TEST(RunStopTest, ResultHasTheLossesInTheirOrder) {
  RunStop stop;
  stop.AddLoss("batch 3 of trial 1.1");
  stop.AddLoss("all that was done of trial 1.2");
  EXPECT_THAT(
      stop.Result(1, {}).lost,
      ElementsAre("batch 3 of trial 1.1", "all that was done of trial 1.2"));
}

TEST(RunTimeTest, TheShortestLimitEndsTheRun) {
  struct Row {
    std::optional<Duration> timeout;
    std::optional<double> limit;
    Duration last;  // moment before the end
  };
  for (const Row& it : {Row{seconds(5), {}, milliseconds(14'999)},
                        Row{{}, 2.5, milliseconds(12'499)},
                        Row{seconds(5), 2.5, milliseconds(12'499)},
                        Row{seconds(2), 2.5, milliseconds(11'999)}}) {
    RunTime time(it.timeout, it.limit);
    time.Start(seconds(10));
    time.SetEarlier(100);
    EXPECT_FALSE(time.IsOver(it.last)) << it.last.count();
    EXPECT_TRUE(time.IsOver(it.last + milliseconds(1))) << it.last.count();
  }
  RunTime without({}, {});
  without.Start(seconds(10));
  EXPECT_FALSE(without.IsOver(seconds(100'000)));
}

TEST(RunTimeTest, DrainsTheSecondsOfThisRunOnce) {
  RunTime time({}, {});
  time.Start(seconds(10));
  time.SetEarlier(100);
  EXPECT_FALSE(time.IsRecordDue(milliseconds(10'999)));
  EXPECT_TRUE(time.IsRecordDue(seconds(11)));
  EXPECT_EQ(time.Drain(seconds(12)), 2);
  EXPECT_FALSE(time.IsRecordDue(milliseconds(12'999)));
  EXPECT_EQ(time.Drain(milliseconds(12'500)), 0.5);
  EXPECT_EQ(time.Drain(milliseconds(12'500)), 0);
  EXPECT_EQ(time.Seconds(seconds(14)), 104);
}

TEST(RunTimeTest, PeriodsBeginWithTheLastCheckThatWasDue) {
  RunTime time({}, {});
  time.Start(seconds(10));
  EXPECT_TRUE(time.PopStatus(seconds(10)));
  EXPECT_FALSE(time.PopStatus(milliseconds(10'099)));
  EXPECT_TRUE(time.PopStatus(milliseconds(10'100)));
  EXPECT_TRUE(time.PopFilesCheck(milliseconds(10'100)));
  EXPECT_FALSE(time.PopFilesCheck(milliseconds(11'099)));
  EXPECT_TRUE(time.PopFilesCheck(milliseconds(11'100)));
}

TEST(RunRequestsTest, ExecutesEachOnceAndKeepsThoseOfTheExperiment) {
  RunRequests requests(/*gpu_share=*/1, /*slots_per_trial=*/1,
                       /*most_trials=*/10);
  EXPECT_TRUE(requests.Add({.id = 3}));
  EXPECT_FALSE(requests.Add({.id = 3}));
  EXPECT_TRUE(requests.Add({.id = 4, .trial = 2}));
  requests.Skip(5);
  EXPECT_FALSE(requests.Add({.id = 5}));
  EXPECT_THAT(requests.until_end(), ElementsAre(3));
}

struct LimitCase {
  double gpu_share;
  std::int64_t slots_per_trial;
  std::int64_t max_slots;
  std::size_t trials;  // of ten
  std::int64_t slots;  // of ten
};

TEST(RunRequestsTest, LimitsTrialsToThoseThatFit) {
  for (const LimitCase& it :
       {LimitCase{1, 1, 3, 3, 3}, LimitCase{1, 2, 5, 2, 4},
        LimitCase{0.5, 1, 2, 4, 4}, LimitCase{1, 4, 1, 1, 4},
        LimitCase{1, 1, 50, 10, 10}}) {
    RunRequests requests(it.gpu_share, it.slots_per_trial,
                         /*most_trials=*/10);
    EXPECT_TRUE(requests.SetMaxSlots(it.max_slots, /*limit=*/true));
    EXPECT_EQ(requests.MaxTrials(), it.trials) << it.max_slots;
    EXPECT_EQ(requests.LimitSlots(10), it.slots) << it.max_slots;
  }
}

TEST(RunRequestsTest, TheFirstLimitMayBePlannedAlready) {
  RunRequests requests(/*gpu_share=*/1, /*slots_per_trial=*/1,
                       /*most_trials=*/10);
  EXPECT_TRUE(requests.SetMaxSlots(2, /*limit=*/false));
  EXPECT_FALSE(requests.SetMaxSlots(2, /*limit=*/true));
  EXPECT_EQ(requests.MaxTrials(), 10U);

  EXPECT_TRUE(requests.SetMaxSlots(1, /*limit=*/true));
  EXPECT_EQ(requests.MaxTrials(), 1U);
  EXPECT_TRUE(requests.SetMaxSlots(std::nullopt, /*limit=*/true));
  EXPECT_EQ(requests.MaxTrials(), 10U);
}

TEST(MaxSlotsTest, IsNoneUnlessANumberIsRecorded) {
  const auto parse = [](const char* text) {
    return FindMaxSlots(nlohmann::json::parse(text));
  };
  EXPECT_EQ(parse(R"({"resources": {"max_slots": 4}})"), 4);
  for (const char* text : {"{}", R"({"resources": {}})",
                           R"({"resources": {"max_slots": null}})"}) {
    EXPECT_EQ(parse(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace dtrain
