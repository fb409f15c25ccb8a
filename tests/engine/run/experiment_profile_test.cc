// Experiment: records of a trial's profile.

#include "tests/engine/run/experiment_fixture.h"

namespace dtrain {
namespace {

using testing::Contains;
using testing::HasSubstr;

class ExperimentProfileTest : public ExperimentTest {
 protected:
  void ReportProfile(TrialId trial, std::int64_t seq, std::int64_t batches) {
    launcher_.Report(trial, ProfileReport{.seq = seq,
                                          .batches = batches,
                                          .trained = 20,
                                          .samples = 1'280,
                                          .seconds = {0.25, 1},
                                          .minor_faults = 3});
  }
  void Crash(TrialId trial) { launcher_.Exit(trial, 1); }
};

TEST_F(ExperimentProfileTest, IsRecordedAndAcknowledged) {
  trials_.silent = true;
  launcher_.on_start = [this](const TrialSpec& spec) {
    launcher_.Push(TrialStarted{.trial = spec.id, .pid = 1});
    ReportProfile(spec.id, 1, 20);
    ReportProfile(spec.id, 2, 40);
  };
  launcher_.on_wait = [this, waits = 0]() mutable {
    if (++waits == 60) launcher_.Push(Interrupted{.signal = 2});
  };

  (void)Run();

  const auto sums = store_.Profile({id_, 1});
  ASSERT_TRUE(sums);
  EXPECT_EQ(sums->trained, 40);
  EXPECT_EQ(sums->samples, 2'560);
  EXPECT_EQ(sums->seconds, (PhaseSeconds{0.5, 2}));
  EXPECT_EQ(sums->minor_faults, 6);
  EXPECT_THAT(launcher_.calls(), Contains(HasSubstr(R"("ack","seq":2})")));
}

TEST_F(ExperimentProfileTest, IsAbsentWithoutReports) {
  (void)Run();

  EXPECT_EQ(store_.Profile({id_, 1}), std::nullopt);
}

TEST_F(ExperimentProfileTest, RestartForgetsTheProfileBeyondTheCheckpoint) {
  config_.max_restarts = 1;
  launcher_.on_start = [this](const TrialSpec& spec) {
    if (spec.run > 0) return trials_.Begin(spec);
    launcher_.Push(TrialStarted{.trial = spec.id, .pid = 1});
    ReportProfile(spec.id, 1, 20);
    launcher_.Report(
        spec.id, CheckpointSaved{.seq = 2, .uuid = "aaaa-20", .batches = 20});
    ReportProfile(spec.id, 3, 40);
    Crash(spec.id);
  };

  EXPECT_EQ(Run().state, State::kCompleted);

  EXPECT_EQ(launcher_.started().at(1).restore, "aaaa-20");
  EXPECT_EQ(store_.Profile({id_, 1})->batches, 20);
  EXPECT_EQ(store_.Profile({id_, 1})->trained, 20);
}

TEST_F(ExperimentProfileTest, ReportedAgainAfterARestartCountsOnce) {
  config_.max_restarts = 1;
  launcher_.on_start = [this](const TrialSpec& spec) {
    launcher_.Push(TrialStarted{.trial = spec.id, .pid = 1});
    ReportProfile(spec.id, 1, 20);
    if (spec.run > 0) return trials_.Work(spec.id, *spec.until);
    launcher_.Report(
        spec.id, CheckpointSaved{.seq = 2, .uuid = "aaaa-20", .batches = 20});
    Crash(spec.id);
  };

  EXPECT_EQ(Run().state, State::kCompleted);

  EXPECT_EQ(store_.Profile({id_, 1})->trained, 20);
}

}  // namespace
}  // namespace dtrain
