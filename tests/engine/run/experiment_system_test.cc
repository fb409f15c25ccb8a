// Experiment: records of what trials use.

#include "tests/engine/run/experiment_fixture.h"

namespace dtrain {
namespace {

using testing::SizeIs;

class ExperimentSystemTest : public ExperimentTest {
 protected:
  ExperimentSystemTest() {
    clock_.now = [this] { return Timestamp(++microseconds_); };
  }

  void Sample(TrialId trial, std::int64_t memory, int rank = 0) {
    launcher_.Push(
        SystemSampled{.trial = trial,
                      .sample = {.seconds = 5, .memory_bytes = memory},
                      .rank = rank});
  }

  std::int64_t microseconds_ = 0;
};

TEST_F(ExperimentSystemTest, RecordsSamplesOfEachRun) {
  config_.max_restarts = 1;
  launcher_.on_start = [this](const TrialSpec& spec) {
    Sample(spec.id, /*memory=*/10 + spec.run);
    if (spec.run > 0) return trials_.Begin(spec);
    launcher_.Push(TrialStarted{.trial = spec.id, .pid = 1});
    Sample(spec.id, /*memory=*/20, /*rank=*/2);
    launcher_.Exit(spec.id, 1);
  };

  EXPECT_EQ(Run().state, State::kCompleted);

  const auto rows = store_.SystemSamples({id_, 1});
  ASSERT_THAT(rows, SizeIs(3));
  EXPECT_EQ(rows[0].sample.memory_bytes, 10);
  EXPECT_EQ(rows[1].sample.memory_bytes, 11);
  EXPECT_EQ(rows[2].rank, 2);
  EXPECT_GT(rows[2].time, Timestamp(0));
}

TEST_F(ExperimentSystemTest, IgnoresTrialsThatItDoesNotHave) {
  launcher_.on_start = [this](const TrialSpec& spec) {
    Sample({spec.id.experiment, 99}, 1);
    trials_.Begin(spec);
  };

  EXPECT_EQ(Run().state, State::kCompleted);

  EXPECT_EQ(store_.FindSystemUse(id_), std::nullopt);
}

}  // namespace
}  // namespace dtrain
