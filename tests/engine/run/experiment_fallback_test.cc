// Checkpoints that turn out to be damaged, trials that fail and get further, a
// disk that is full.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tests/engine/run/experiment_fixture.h"

namespace dtrain {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kFirst = "aaaaaaaa-0000-4000-8000-000000000000";
constexpr const char* kSecond = "bbbbbbbb-0000-4000-8000-000000000000";
constexpr const char* kThird = "cccccccc-0000-4000-8000-000000000000";

// Actions of the trial's first processes, in order; later ones train.
class ExperimentFallbackTest : public ExperimentTest {
 protected:
  ExperimentFallbackTest() {
    config_.max_restarts = 1;
    launcher_.on_start = [this](const TrialSpec& spec) {
      const std::size_t run = launcher_.started().size() - 1;
      if (run >= lives_.size()) return trials_.Begin(spec);
      launcher_.Push(TrialStarted{.trial = spec.id, .pid = 1});
      lives_[run]();
    };
  }

  void Save(const char* uuid, std::int64_t batches) {
    launcher_.Report({id_, 1},
                     TrainingReport{.seq = ++seq_,
                                    .batches = batches,
                                    .metrics = {{"loss", 0.1 * batches}}});
    launcher_.Report(
        {id_, 1},
        CheckpointSaved{.seq = ++seq_, .uuid = uuid, .batches = batches});
  }
  void End(EndReason reason, const std::string& message) {
    launcher_.Report({id_, 1}, Finished{.reason = reason, .message = message});
    launcher_.Exit({id_, 1}, reason == EndReason::kError ? 1 : 0);
  }
  void Crash() { launcher_.Exit({id_, 1}, 3); }

  std::string ReadState(const std::string& uuid) {
    return store_.CheckpointByPrefix(uuid).state;
  }
  std::vector<std::string> Restored() const {
    std::vector<std::string> restored;
    for (const TrialSpec& spec : launcher_.started()) {
      restored.push_back(spec.restore);
    }
    return restored;
  }

  std::vector<std::function<void()>> lives_;
  std::int64_t seq_ = 0;
};

TEST_F(ExperimentFallbackTest, FallsBackToAnIntactCheckpoint) {
  config_.checkpoints.policy = "all";
  lives_ = {[this] { Save(kFirst, 10), Save(kSecond, 20), Crash(); },
            [this] { End(EndReason::kDamaged, "checkpoint bbbb: garbled"); },
            [this] { End(EndReason::kDamaged, "checkpoint aaaa: garbled"); }};

  const RunResult result = Run();

  EXPECT_EQ(result.state, State::kCompleted);
  EXPECT_THAT(Restored(), ElementsAre("", kSecond, kFirst, ""));
  EXPECT_EQ(ReadState(kFirst), "CORRUPT");
  EXPECT_EQ(ReadState(kSecond), "CORRUPT");
  EXPECT_EQ(Trial().restarts, 1) << "one crash; the rest is not its fault";
  EXPECT_THAT(reporter_.notices,
              Contains(AllOf(HasSubstr("checkpoint bbbb: garbled"),
                             HasSubstr("resumes from checkpoint aaaaaaaa"))));
  EXPECT_THAT(reporter_.notices,
              Contains(HasSubstr("resumes from the beginning")));
}

TEST_F(ExperimentFallbackTest, GivesUpATrialThatFailsAgainWithoutProgress) {
  lives_ = {[this] { Save(kFirst, 10), Crash(); }, [this] { Crash(); },
            [this] { FAIL() << "a third start"; }};

  EXPECT_EQ(Run().state, State::kError);

  EXPECT_EQ(Trial().restarts, 1);
  EXPECT_EQ(Trial().reason, "exited with code 3 (after 1 restart)");
}

TEST_F(ExperimentFallbackTest, RecordsTheProgressOfAFailedTrial) {
  config_.max_restarts = 0;
  // The report and the crash come at once.
  lives_ = {[this] {
    launcher_.Report(
        {id_, 1},
        TrainingReport{.seq = ++seq_, .batches = 10, .metrics = {{"loss", 1}}});
    Crash();
  }};

  EXPECT_EQ(Run().state, State::kError);

  EXPECT_EQ(Trial().batches, 10);
}

TEST_F(ExperimentFallbackTest, ProgressResetsTheCountOfFailures) {
  lives_ = {[this] { Save(kFirst, 10), Crash(); },
            [this] { Save(kSecond, 20), Crash(); }};

  EXPECT_EQ(Run().state, State::kCompleted);

  EXPECT_EQ(Trial().restarts, 2);
  EXPECT_EQ(Trial().failures, 1);
}

// The first process measured it, and its checkpoint kept it.
TEST_F(ExperimentFallbackTest, ReportOfAnEarlierProcessBelongsToItsRun) {
  const auto validate = [this] {
    launcher_.Report({id_, 1}, ValidationReport{.seq = ++seq_,
                                                .batches = 10,
                                                .metrics = {{"loss", 4}},
                                                .time = Timestamp(5)});
  };
  lives_ = {[this] { Save(kFirst, 10), Crash(); },
            [&] { validate(), Save(kSecond, 20), Crash(); },
            [&] { validate(), Save(kThird, 30), Crash(); }};

  EXPECT_EQ(Run().state, State::kCompleted);

  std::vector<std::int64_t> runs;
  store_.ForEachMetric({.experiment = id_, .kind = MetricKind::kValidation},
                       [&](const MetricRow& row) {
                         if (row.batches == 10) runs.push_back(row.run);
                       });
  EXPECT_THAT(runs, ElementsAre(1));
  EXPECT_EQ(std::ranges::count(reporter_.validated, 10), 1) << "shown once";
}

TEST_F(ExperimentFallbackTest, PausesIfACheckpointLacksSpace) {
  lives_ = {[this] { End(EndReason::kDiskFull, "checkpoint: no space"); }};

  const RunResult result = Run();

  EXPECT_EQ(result.state, State::kPaused);
  EXPECT_EQ(result.error, "checkpoint: no space");
  EXPECT_EQ(store_.Experiment(id_)->row.error, "checkpoint: no space");
  EXPECT_EQ(Trial().state, State::kPaused);
  EXPECT_EQ(Trial().restarts, 0);
  EXPECT_EQ(Run().state, State::kCompleted);
  EXPECT_EQ(store_.Experiment(id_)->row.error, "");
}

TEST_F(ExperimentFallbackTest, StopsATrialWhoseStartIsBeingRecorded) {
  // The start of a trial that forgets metrics waits for their transaction; a
  // signal that comes before it is not lost on the trial.
  lives_ = {[this] {
    Save(kFirst, 10);
    launcher_.Report(
        {id_, 1},
        TrainingReport{.seq = ++seq_, .batches = 15, .metrics = {{"loss", 1}}});
    Crash();
    launcher_.Push(Interrupted{SIGINT});
  }};

  EXPECT_EQ(Run().state, State::kPaused);
}

}  // namespace
}  // namespace dtrain
