#include <cmath>
#include <filesystem>
#include <map>
#include <vector>

#include <gmock/gmock.h>

#include "engine/base/error.h"
#include "engine/train/trainer.h"
#include "tests/engine/train/small_trial.h"

namespace dtrain {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// What checkpoint_policy makes of validations. Their val_loss is `values`, one
// for each batch in turn.
class CheckpointPolicyTest : public SmallTrialTest {
 protected:
  CheckpointPolicyTest() {
    spec_.until = Length{6};
    spec_.settings.min_validation_period = {1};
    options_.evaluate = [this](TrialContext& context) -> Metrics {
      const auto index = static_cast<std::size_t>(context.batches());
      return {{"val_loss", torch::tensor(values_.at(index))}};
    };
  }

  // The batches of the checkpoints of a whole training.
  std::vector<std::int64_t> Saved() {
    FakeRunner runner;
    EXPECT_EQ(Train(runner).reason, EndReason::kCompleted);
    return runner.BatchesOf<CheckpointSaved>();
  }

  // From batch 0 to 6.
  std::vector<double> values_ = {9, 5, 6, 4, 4, 3, 8};
};

TEST_F(CheckpointPolicyTest, BestSavesEachValidationThatIsBetterThanAllBefore) {
  EXPECT_THAT(Saved(), ElementsAre(1, 3, 5, 6));
}

TEST_F(CheckpointPolicyTest, BestObeysTheDirectionOfTheMetric) {
  spec_.settings.smaller_is_better = false;
  EXPECT_THAT(Saved(), ElementsAre(1, 2, 6));
}

TEST_F(CheckpointPolicyTest, BestIsFinite) {
  values_ = {9, NAN, -INFINITY, 4, NAN, 3, 8};
  EXPECT_THAT(Saved(), ElementsAre(3, 5, 6));
}

TEST_F(CheckpointPolicyTest, BestNeedsTheSearchersMetric) {
  spec_.settings.searcher_metric = "accuracy";
  EXPECT_THAT(Saved(), ElementsAre(6));
}

TEST_F(CheckpointPolicyTest, AllSavesEachValidation) {
  spec_.settings.checkpoint_policy = "all";
  values_[2] = NAN;
  EXPECT_THAT(Saved(), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST_F(CheckpointPolicyTest, NoneSavesNoValidation) {
  spec_.settings.checkpoint_policy = "none";
  spec_.settings.min_checkpoint_period = {4};
  EXPECT_THAT(Saved(), ElementsAre(4, 6));
}

TEST_F(CheckpointPolicyTest, NoBatchIsSavedTwice) {
  spec_.settings.min_checkpoint_period = {1};
  EXPECT_THAT(Saved(), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST_F(CheckpointPolicyTest, AnInitialValidationMayBeTheBest) {
  spec_.settings.perform_initial_validation = true;
  values_ = {1, 5, 6, 4, 4, 3, 8};
  EXPECT_THAT(Saved(), ElementsAre(0, 6));
}

TEST_F(CheckpointPolicyTest, ResumesFromACheckpointOfTheBeginning) {
  spec_.settings.perform_initial_validation = true;
  options_.adam = true;
  values_ = {1, 5, 6, 4, 4, 3, 8};
  FakeRunner first;
  options_.on_batch = [&](TrialContext&, BatchIndex index) {
    if (index.batch == 1) throw Error(ErrorKind::kFailed, "died");
  };
  ASSERT_EQ(Train(first).reason, EndReason::kError);
  const auto saved = first.All<CheckpointSaved>();
  ASSERT_EQ(saved.size(), 1u);
  spec_.restore = saved[0].uuid;
  options_.on_batch = nullptr;
  FakeRunner second;
  ASSERT_EQ(Train(second).reason, EndReason::kCompleted);
  EXPECT_THAT(second.BatchesOf<ValidationReport>(),
              ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(second.BatchesOf<CheckpointSaved>(), ElementsAre(6));
}

TEST_F(CheckpointPolicyTest, ARestartDecidesAsAnUndisturbedTraining) {
  FakeRunner first;
  options_.on_batch = [&](TrialContext&, BatchIndex index) {
    if (index.batch == 3) throw Error(ErrorKind::kFailed, "died");
  };
  ASSERT_EQ(Train(first).reason, EndReason::kError);
  EXPECT_THAT(first.BatchesOf<CheckpointSaved>(), ElementsAre(1, 3));
  spec_.restore = first.All<CheckpointSaved>().back().uuid;
  options_.on_batch = nullptr;
  EXPECT_THAT(Saved(), ElementsAre(5, 6));
}

TEST_F(CheckpointPolicyTest, EarlyStoppingKeepsTheBest) {
  spec_.settings.early_stopping = {.metric = "val_loss", .patience = 2};
  values_ = {9, 5, 3, 4, 4, 3, 8};
  EXPECT_THAT(Saved(), ElementsAre(1, 2, 4));
}

TEST_F(CheckpointPolicyTest, SinkingSavesWhereItValidates) {
  spec_.settings.sink_size = 2;
  EXPECT_THAT(Saved(), ElementsAre(2, 4, 6));
}

TEST_F(CheckpointPolicyTest, AFailureToSaveTheBestIsAWarning) {
  const auto checkpoints = directory_.path() / "checkpoints";
  std::filesystem::create_symlink("/nowhere", checkpoints);
  options_.on_batch = [&](TrialContext&, BatchIndex index) {
    if (index.batch == 2) std::filesystem::remove(checkpoints);
  };
  testing::internal::CaptureStderr();
  EXPECT_THAT(Saved(), ElementsAre(3, 5, 6));
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("training goes on without it"));
}

// A metric that only the last batch of an epoch has: of 5, and reports come
// every 4.
class EpochEndTest : public SmallTrialTest {
 protected:
  EpochEndTest() {
    spec_.until = Length{12};
    options_.epoch_loss = [](BatchIndex index) {
      return index.batch % 5 == 4 ? torch::tensor(20.0 - index.batch)
                                  : torch::Tensor();
    };
  }

  // The batches and values of what was reported of it.
  static std::map<std::int64_t, double> Reported(const FakeRunner& runner) {
    std::map<std::int64_t, double> reported;
    for (const auto& report : runner.All<TrainingReport>()) {
      const double value = Value(report.metrics, "epoch_loss");
      if (!std::isnan(value)) reported[report.batches] = value;
    }
    return reported;
  }

  const std::map<std::int64_t, double> expected_ = {{5, 16}, {10, 11}};
};

TEST_F(EpochEndTest, IsReportedThere) {
  FakeRunner runner;
  ASSERT_EQ(Train(runner).reason, EndReason::kCompleted);
  EXPECT_THAT(runner.BatchesOf<TrainingReport>(), ElementsAre(4, 5, 8, 10, 12));
  EXPECT_EQ(Reported(runner), expected_);
  // The means of the others are of all batches since their own last report.
  const auto reports = runner.All<TrainingReport>();
  EXPECT_EQ(reports[1].metrics.size(), 1u);
  EXPECT_EQ(Value(reports[2].metrics, "batch"), (4 + 5 + 6 + 7) / 4.0);
}

TEST_F(EpochEndTest, ComesWithAReportThatIsDueThere) {
  spec_.settings.scheduling_unit = 5;
  FakeRunner runner;
  ASSERT_EQ(Train(runner).reason, EndReason::kCompleted);
  EXPECT_THAT(runner.BatchesOf<TrainingReport>(), ElementsAre(5, 10, 12));
  EXPECT_EQ(Reported(runner), expected_);
}

TEST_F(EpochEndTest, IsTheSameAfterARestart) {
  for (std::int64_t at = 1; at < 12; ++at) {
    spec_.restore.clear();
    FakeRunner first;
    options_.on_batch = [&](TrialContext&, BatchIndex index) {
      first.stop = index.batch + 1 == at;
    };
    ASSERT_EQ(Train(first).reason, EndReason::kStopped);
    spec_.restore = first.All<CheckpointSaved>().back().uuid;
    options_.on_batch = nullptr;
    FakeRunner second;
    ASSERT_EQ(Train(second).reason, EndReason::kCompleted);
    auto reported = Reported(first);
    reported.merge(Reported(second));
    EXPECT_EQ(reported, expected_) << at;
  }
}

TEST_F(EpochEndTest, MayBeWhatIsSearchedOnWithoutValidationData) {
  options_.has_validation = false;
  spec_.settings.searcher_metric = "epoch_loss";
  FakeRunner runner;
  ASSERT_EQ(Train(runner).reason, EndReason::kCompleted);
  EXPECT_EQ(Value(runner.All<OperationCompleted>()[0].metrics, "epoch_loss"),
            11);
}

TEST_F(EpochEndTest, MayStopTheTraining) {
  options_.has_validation = false;
  options_.epoch_loss = [](BatchIndex index) {
    return index.batch % 5 == 4 ? torch::tensor(1.0 * index.batch)
                                : torch::Tensor();
  };
  spec_.settings.early_stopping = {.metric = "epoch_loss", .patience = 1};
  FakeRunner runner{.orders = {RunOperation{{100}}}};
  EXPECT_THAT(Train(runner).message, HasSubstr("did not improve once"));
  EXPECT_EQ(Value(runner.All<OperationCompleted>()[0].metrics, "epoch_loss"),
            9);
}

TEST_F(EpochEndTest, MayPaceALearningRate) {
  options_.has_validation = false;
  options_.epoch_loss = [](BatchIndex index) {
    return index.batch % 5 == 4 ? torch::tensor(1.0) : torch::Tensor();
  };
  options_.set_up = [](TrialContext& context,
                       torch::optim::Optimizer& optimizer) {
    context.Add(LrSchedule(ReduceOnPlateau{
                    .metric = "epoch_loss", .factor = 0.5, .patience = 0}),
                optimizer, StepMode::kManual);
  };
  FakeRunner runner;
  const Finished finished = Train(runner);
  ASSERT_EQ(finished.reason, EndReason::kCompleted) << finished.message;
  EXPECT_EQ(Value(runner.All<TrainingReport>().back().metrics, "lr"), 0.025);
}

}  // namespace
}  // namespace dtrain
