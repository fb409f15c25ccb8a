// Experiment: hangs, time limits and delays.

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "engine/store/write_lock.h"
#include "tests/engine/run/experiment_fixture.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

using std::chrono::hours;
using std::chrono::seconds;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

class ExperimentTimeTest : public ExperimentTest {
 protected:
  ExperimentTimeTest() {
    config_.hang_timeout = 5;
    launcher_.on_start = [this](const TrialSpec& spec) {
      launcher_.Push(TrialStarted{.trial = spec.id, .pid = 1});
    };
    launcher_.on_stop = [](TrialId) {};
  }

  // Runs `actions`, the next one at the first wait after its time.
  void At(std::vector<std::pair<Duration, std::function<void()>>> actions) {
    actions_ = std::move(actions);
    launcher_.on_wait = [this] {
      if (next_ >= actions_.size() || time_ < actions_[next_].first) return;
      actions_[next_++].second();
    };
  }
  void Report(TrialMessage message) {
    launcher_.Report({id_, 1}, std::move(message));
  }
  void Finish() { trials_.Work({id_, 1}, Length{100}); }
  bool WasKilled() const {
    return testing::Value(launcher_.calls(), Contains("kill 1.1"));
  }

 private:
  std::vector<std::pair<Duration, std::function<void()>>> actions_;
  std::size_t next_ = 0;
};

TEST_F(ExperimentTimeTest, KillsATrialThatHangsSoonAfterItsTimeout) {
  EXPECT_EQ(Run().state, State::kError);

  EXPECT_TRUE(WasKilled());
  EXPECT_GE(time_, seconds(5));
  EXPECT_LT(time_, seconds(8));
}

// Of a trial that has validated, that is the result; another one has failed.
TEST_F(ExperimentTimeTest, StopsATrialAtItsTimeLimit) {
  config_.hang_timeout = 1000;
  config_.trial_time_limit = 20;
  launcher_.on_stop = [this](TrialId trial) {
    trials_.End(trial, EndReason::kStopped);
  };
  At({{seconds(10), [&] {
         Report(ValidationReport{
             .seq = 1, .batches = 10, .metrics = {{"loss", 0.25}}});
       }}});
  EXPECT_EQ(Run().state, State::kCompleted);
  EXPECT_GE(time_, seconds(20));
  EXPECT_EQ(Trial().state, State::kStopped);
  EXPECT_EQ(Trial().reason, "ended early: trial_time_limit of 20s reached");
  EXPECT_EQ(Trial().best->value, 0.25);

  Record();
  EXPECT_EQ(Run().state, State::kError);
  EXPECT_EQ(Trial().state, State::kError);
  EXPECT_EQ(Trial().reason,
            "trial_time_limit of 20s reached without a validation");
}

TEST_F(ExperimentTimeTest, CountsTheTimeOfEarlierRuns) {
  config_.hang_timeout = 1000;
  config_.trial_time_limit = 20;
  launcher_.on_stop = [this](TrialId trial) {
    launcher_.Push(MessageReceived{trial, Finished{EndReason::kStopped}});
    launcher_.Push(TrialExited{.trial = trial, .seconds = 12});
  };
  At({{seconds(12), [&] { launcher_.Push(Interrupted{.signal = 15}); }}});
  EXPECT_EQ(Run().state, State::kPaused);

  const Duration before = time_;
  EXPECT_EQ(Run().state, State::kError);
  EXPECT_LT(time_ - before, seconds(12));
  EXPECT_THAT(Trial().reason, HasSubstr("trial_time_limit of 20s reached"));
}

TEST_F(ExperimentTimeTest, WaitingForTheStoreIsNotAHang) {
  const TemporaryDirectory directory;
  store_ = Store::OpenForWriting(StoreLayout(directory.path() / "store"));
  Record();
  WriteLock other(store_.layout().WriteLock());
  At({{seconds(1),
       [&] {
         other.Acquire();
         Report(
             TrainingReport{.seq = 1, .batches = 10, .metrics = {{"loss", 1}}});
       }},
      {seconds(20), [&] {
         other.Release();
         Finish();
       }}});

  EXPECT_EQ(Run().state, State::kCompleted);

  EXPECT_FALSE(WasKilled());
}

TEST_F(ExperimentTimeTest, WaitingForDiskSpaceIsNotAHang) {
  At({{seconds(1),
       [&] {
         Report(CheckpointFailed{
             .batches = 10, .message = "no space", .waits = true});
       }},
      {seconds(20), [&] { Finish(); }}});

  EXPECT_EQ(Run().state, State::kCompleted);

  EXPECT_FALSE(WasKilled());
}

TEST_F(ExperimentTimeTest, StoppingSlowlyIsNotAHang) {
  At({{seconds(1), [&] { launcher_.Push(Interrupted{.signal = 2}); }},
      {seconds(20), [&] {
         trials_.End({id_, 1}, EndReason::kStopped);
       }}});

  EXPECT_EQ(Run().state, State::kPaused);

  EXPECT_FALSE(WasKilled());
}

class TimeLimitTest : public ExperimentTimeTest {
 protected:
  TimeLimitTest() {
    config_.hang_timeout = 1e9;
    launcher_.on_stop = [this](TrialId trial) {
      trials_.End(trial, EndReason::kStopped);
    };
  }
  void ExpectPausedAfterThreeSeconds() {
    const RunResult result = Run();
    EXPECT_EQ(result.state, State::kPaused);
    EXPECT_TRUE(result.timed_out);
    EXPECT_THAT(Trial().reason, HasSubstr("time limit"));
    EXPECT_GE(time_, seconds(3));
    EXPECT_LT(time_, seconds(6));
  }
};

TEST_F(TimeLimitTest, OfTheConfigurationApplies) {
  config_.time_limit = 3;
  ExpectPausedAfterThreeSeconds();
}

TEST_F(TimeLimitTest, OfTheConfigurationOverridesALongerOne) {
  config_.time_limit = 3;
  timeout_ = hours(1);
  ExpectPausedAfterThreeSeconds();
}

TEST_F(TimeLimitTest, OfTheCallOverridesALongerOne) {
  config_.time_limit = 3600;
  timeout_ = seconds(3);
  ExpectPausedAfterThreeSeconds();
}

TEST_F(TimeLimitTest, OfWaitingForDiskSpacePausesTheExperiment) {
  disk_wait_ = seconds(10);
  At({{seconds(1), [&] {
         Report(CheckpointFailed{
             .batches = 10, .message = "no space", .waits = true});
       }}});

  const RunResult result = Run();

  EXPECT_EQ(result.state, State::kPaused);
  EXPECT_EQ(result.error, "no space");
  EXPECT_EQ(result.error_kind, ErrorKind::kDiskFull);
  EXPECT_GE(time_, seconds(11));
  EXPECT_LT(time_, seconds(15));
}

// Delay of each restart, from the end of a process to the next start.
TEST_F(ExperimentTimeTest, WaitsTwiceAsLongForEachRestart) {
  config_.max_restarts = 12;
  std::vector<Duration> waited;
  std::optional<Duration> ended;
  launcher_.on_start = [&](const TrialSpec& spec) {
    if (ended) waited.push_back(time_ - *ended);
    launcher_.Push(TrialStarted{.trial = spec.id, .pid = 1});
    launcher_.Exit(spec.id, 3);
    ended = time_;
  };

  EXPECT_EQ(Run().state, State::kError);

  ASSERT_EQ(waited.size(), 12u);
  EXPECT_LT(waited[0], seconds(2));
  EXPECT_GE(waited[5], std::chrono::milliseconds(3200));
  EXPECT_GE(waited[8], std::chrono::milliseconds(25'600));
  // It stops growing after a minute.
  EXPECT_GE(waited[11], std::chrono::milliseconds(51'200));
  EXPECT_LT(waited[11], seconds(60));
  EXPECT_THAT(reporter_.notices, Contains(HasSubstr("restart 1 of 12 from "
                                                    "batch 0 in 0.1s")));
  EXPECT_THAT(reporter_.notices, Contains(HasSubstr("in 6.4s")));
}

}  // namespace
}  // namespace dtrain
