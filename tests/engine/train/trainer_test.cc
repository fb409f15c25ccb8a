#include "engine/train/trainer.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <vector>

#include <gmock/gmock.h>

#include "engine/base/error.h"
#include "tests/engine/train/small_trial.h"

namespace dtrain {

namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class TrainerTest : public SmallTrialTest {};

TEST_F(TrainerTest, ReportsEveryUnitAndAtTheEnd) {
  FakeRunner runner;
  EXPECT_EQ(Train(runner).reason, EndReason::kCompleted);
  EXPECT_THAT(runner.ReportedBatches<TrainingReport>(), ElementsAre(4, 8, 10));
  EXPECT_THAT(runner.ReportedBatches<ValidationReport>(), ElementsAre(10));
  EXPECT_THAT(runner.ReportedBatches<CheckpointSaved>(), ElementsAre(10));
}

TEST_F(TrainerTest, ReportsReadyFirstAndCompletionLast) {
  FakeRunner runner;
  ASSERT_EQ(Train(runner).reason, EndReason::kCompleted);
  EXPECT_TRUE(std::holds_alternative<Ready>(runner.messages.front()));
  const auto& done = std::get<OperationCompleted>(runner.messages.back());
  EXPECT_EQ(done.length, Length{10});
  EXPECT_EQ(done.batches, 10);
  EXPECT_FALSE(done.early);
  EXPECT_THAT(done.metrics, IsEmpty()) << "the validation report has them";
}

TEST_F(TrainerTest, TrainingMetricsAreMeansSinceTheLastReport) {
  FakeRunner runner;
  ASSERT_EQ(Train(runner).reason, EndReason::kCompleted);
  const auto reports = runner.All<TrainingReport>();
  EXPECT_EQ(Value(reports[0].metrics, "batch"), (0 + 1 + 2 + 3) / 4.0);
  EXPECT_EQ(Value(reports[2].metrics, "batch"), (8 + 9) / 2.0);
  EXPECT_EQ(Value(reports[2].metrics, "lr"), 0.05);
  EXPECT_EQ(reports[2].epoch, 2.0);
}

TEST_F(TrainerTest, WithoutAveragingTheLastBatchCounts) {
  spec_.settings.average_training_metrics = false;
  FakeRunner runner;
  ASSERT_EQ(Train(runner).reason, EndReason::kCompleted);
  EXPECT_EQ(Value(runner.All<TrainingReport>()[0].metrics, "batch"), 3);
}

TEST_F(TrainerTest, PeriodsAreCountedInTheirUnits) {
  spec_.settings.min_validation_period = {1, Unit::kEpochs};
  spec_.settings.min_checkpoint_period = {20, Unit::kRecords};
  FakeRunner runner;
  ASSERT_EQ(Train(runner).reason, EndReason::kCompleted);
  EXPECT_THAT(runner.ReportedBatches<ValidationReport>(), ElementsAre(5, 10));
  // At batch 5 for its validation, which is the best so far.
  EXPECT_THAT(runner.ReportedBatches<CheckpointSaved>(),
              ElementsAre(3, 5, 6, 9, 10));
}

TEST_F(TrainerTest, ReportsThenValidatesThenCheckpointsAtOneBatch) {
  spec_.until = Length{4};
  FakeRunner runner;
  ASSERT_EQ(Train(runner).reason, EndReason::kCompleted);
  std::erase_if(runner.messages, [](const TrialMessage& message) {
    return std::holds_alternative<Progress>(message);
  });
  ASSERT_EQ(runner.messages.size(), 5u);
  EXPECT_TRUE(std::holds_alternative<TrainingReport>(runner.messages[1]));
  EXPECT_TRUE(std::holds_alternative<ValidationReport>(runner.messages[2]));
  EXPECT_TRUE(std::holds_alternative<CheckpointSaved>(runner.messages[3]));
}

TEST_F(TrainerTest, ContinuesWithTheNextOperation) {
  spec_.until = std::nullopt;
  FakeRunner runner{.orders = {RunOperation{{1, Unit::kEpochs}},
                               RunOperation{{40, Unit::kRecords}}}};
  ASSERT_EQ(Train(runner).reason, EndReason::kCompleted);
  EXPECT_THAT(runner.ReportedBatches<OperationCompleted>(), ElementsAre(5, 6));
  EXPECT_THAT(runner.ReportedBatches<ValidationReport>(), ElementsAre(5, 6));
}

TEST_F(TrainerTest, AnOperationAlreadyReachedIsCompletedAtOnce) {
  FakeRunner runner{.orders = {RunOperation{{5}}}};
  ASSERT_EQ(Train(runner).reason, EndReason::kCompleted);
  EXPECT_THAT(runner.ReportedBatches<OperationCompleted>(),
              ElementsAre(10, 10));
  EXPECT_THAT(runner.ReportedBatches<ValidationReport>(), ElementsAre(10));
}

TEST_F(TrainerTest, InitialValidationComesBeforeTheFirstBatch) {
  spec_.settings.perform_initial_validation = true;
  FakeRunner runner;
  ASSERT_EQ(Train(runner).reason, EndReason::kCompleted);
  EXPECT_THAT(runner.ReportedBatches<ValidationReport>(), ElementsAre(0, 10));
}

TEST_F(TrainerTest, WithoutValidationDataTrainingMetricsCount) {
  options_.has_validation = false;
  spec_.settings.searcher_metric = "loss";
  FakeRunner runner;
  ASSERT_EQ(Train(runner).reason, EndReason::kCompleted);
  EXPECT_EQ(runner.All<OperationCompleted>()[0].metrics,
            runner.All<TrainingReport>().back().metrics);
}

TEST_F(TrainerTest, StopCheckpointsAtTheNextBoundary) {
  FakeRunner runner;
  options_.on_batch = [&](TrialContext&, BatchIndex index) {
    if (index.batch == 2) runner.stop = true;
  };
  EXPECT_EQ(Train(runner).reason, EndReason::kStopped);
  EXPECT_THAT(runner.ReportedBatches<CheckpointSaved>(), ElementsAre(3));
  EXPECT_THAT(runner.ReportedBatches<ValidationReport>(), IsEmpty());
}

TEST_F(TrainerTest, StopInterruptsAValidation) {
  FakeRunner runner;
  options_.evaluate = [&](TrialContext&) -> Metrics {
    runner.stop = true;
    return {{"val_loss", torch::tensor(1.0)}};
  };
  EXPECT_EQ(Train(runner).reason, EndReason::kStopped);
  EXPECT_THAT(runner.ReportedBatches<ValidationReport>(), IsEmpty());
  EXPECT_THAT(runner.ReportedBatches<CheckpointSaved>(), ElementsAre(10));
}

TEST_F(TrainerTest, StopAfterAnOperationNeedsNoSecondCheckpoint) {
  FakeRunner runner{.orders = {StopTrial{}}};
  EXPECT_EQ(Train(runner).reason, EndReason::kStopped);
  EXPECT_THAT(runner.ReportedBatches<CheckpointSaved>(), ElementsAre(10));
}

TEST_F(TrainerTest, EarlyStoppingEndsTheTraining) {
  spec_.settings.min_validation_period = {1};
  spec_.settings.early_stopping = {.metric = "val_loss", .patience = 3};
  options_.evaluate = [](TrialContext& context) -> Metrics {
    const double best_at_two = std::abs(context.batches() - 2.0);
    return {{"val_loss", torch::tensor(best_at_two)}};
  };
  FakeRunner runner{.orders = {RunOperation{{100}}}};
  EXPECT_THAT(Train(runner).message,
              HasSubstr("did not improve 3 times in a row"));
  EXPECT_THAT(runner.ReportedBatches<OperationCompleted>(), ElementsAre(5, 5));
  EXPECT_TRUE(runner.All<OperationCompleted>()[1].early);
  EXPECT_THAT(runner.ReportedBatches<CheckpointSaved>(), ElementsAre(1, 2, 5));
  EXPECT_THAT(runner.ReportedBatches<TrainingReport>(), ElementsAre(4, 5));
}

TEST_F(TrainerTest, TrialMayEndItself) {
  options_.on_batch = [](TrialContext& context, BatchIndex index) {
    if (index.batch == 6) context.RequestStop("good enough");
  };
  FakeRunner runner;
  const Finished finished = Train(runner);
  EXPECT_EQ(finished.reason, EndReason::kCompleted);
  EXPECT_EQ(finished.message, "good enough");
  EXPECT_THAT(runner.ReportedBatches<OperationCompleted>(), ElementsAre(7));
  EXPECT_TRUE(runner.All<OperationCompleted>()[0].early);
  EXPECT_THAT(runner.ReportedBatches<ValidationReport>(), ElementsAre(7));
}

TEST_F(TrainerTest, ShapeErrorsAreOneReadableLine) {
  options_.on_batch = [](TrialContext&, BatchIndex index) {
    if (index.batch == 2) torch::mm(torch::ones({2, 3}), torch::ones({2, 3}));
  };
  FakeRunner runner;
  const Finished finished = Train(runner);
  EXPECT_EQ(finished.reason, EndReason::kError);
  EXPECT_EQ(finished.message,
            "training batch 2: mat1 and mat2 shapes cannot be multiplied (2x3 "
            "and 2x3)");
}

TEST_F(TrainerTest, InvalidHyperparametersAreAReasonOfTheirOwn) {
  options_.set_up = [](TrialContext&, torch::optim::Optimizer&) {
    throw InvalidHyperparameters("lr and momentum do not go together");
  };
  FakeRunner runner;
  const Finished finished = Train(runner);
  EXPECT_EQ(finished.reason, EndReason::kInvalidHp);
  EXPECT_EQ(finished.message, "lr and momentum do not go together");
  EXPECT_THAT(runner.messages, IsEmpty());
}

TEST_F(TrainerTest, AMissingSearcherMetricIsLeftToTheRunner) {
  spec_.settings.searcher_metric = "accuracy";
  FakeRunner runner;
  const Finished finished = Train(runner);
  EXPECT_EQ(finished.reason, EndReason::kCompleted);
  EXPECT_TRUE(
      std::ranges::any_of(runner.messages, [](const TrialMessage& message) {
        return std::holds_alternative<ValidationReport>(message);
      }));
}

TEST_F(TrainerTest, ReportsANonFiniteMetric) {
  options_.evaluate = [](TrialContext&) -> Metrics {
    return {{"val_loss", torch::ones({3})}};
  };
  FakeRunner runner;
  EXPECT_THAT(Train(runner).message,
              HasSubstr("metric 'val_loss' is Float[3]; return one number"));
}

TEST_F(TrainerTest, InconsistentRecordsGiveOneWarning) {
  spec_.settings.records_per_epoch = 1'000;
  FakeRunner runner;
  testing::internal::CaptureStderr();
  EXPECT_EQ(Train(runner).reason, EndReason::kCompleted);
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("<4>records_per_epoch is 1000"));
  EXPECT_EQ(log.find("records_per_epoch"), log.rfind("records_per_epoch"));
}

TEST_F(TrainerTest, AFailedPeriodicCheckpointIsAWarning) {
  spec_.settings.min_checkpoint_period = {4};
  const auto checkpoints = directory_.path() / "checkpoints";
  std::filesystem::create_symlink("/nowhere", checkpoints);
  options_.on_batch = [&](TrialContext&, BatchIndex index) {
    if (index.batch == 5) std::filesystem::remove(checkpoints);
  };
  FakeRunner runner;
  testing::internal::CaptureStderr();
  EXPECT_EQ(Train(runner).reason, EndReason::kCompleted);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("training continues without it"));
  EXPECT_THAT(runner.ReportedBatches<CheckpointFailed>(), ElementsAre(4));
  EXPECT_THAT(runner.ReportedBatches<CheckpointSaved>(), ElementsAre(8, 10));
}

TEST_F(TrainerTest, ASecondFailedCheckpointInARowIsAnError) {
  spec_.settings.min_checkpoint_period = {4};
  std::filesystem::create_symlink("/nowhere",
                                  directory_.path() / "checkpoints");
  FakeRunner runner;
  const Finished finished = Train(runner);
  EXPECT_EQ(finished.reason, EndReason::kError);
  EXPECT_THAT(finished.message, HasSubstr("cannot be written"));
  EXPECT_THAT(runner.ReportedBatches<CheckpointFailed>(), ElementsAre(4));
}

TEST_F(TrainerTest, AFailedLastCheckpointIsAnError) {
  std::filesystem::create_symlink("/nowhere",
                                  directory_.path() / "checkpoints");
  FakeRunner runner;
  const Finished finished = Train(runner);
  EXPECT_EQ(finished.reason, EndReason::kError);
  EXPECT_THAT(finished.message, HasSubstr("cannot be written"));
  EXPECT_THAT(runner.All<OperationCompleted>(), IsEmpty());
}

TEST_F(TrainerTest, SinkingReportsOnceASink) {
  spec_.settings.sink_size = 3;
  spec_.settings.scheduling_unit = 1;
  spec_.settings.min_validation_period = {4};
  FakeRunner runner;
  ASSERT_EQ(Train(runner).reason, EndReason::kCompleted);
  EXPECT_THAT(runner.ReportedBatches<TrainingReport>(),
              ElementsAre(3, 6, 9, 10));
  // After the sinks that pass batches 4 and 8, and at the end.
  EXPECT_THAT(runner.ReportedBatches<ValidationReport>(),
              ElementsAre(6, 9, 10));
}

TEST_F(TrainerTest, ASinkIsAnEpoch) {
  spec_.settings.sink_size = 3;
  spec_.until = Length{2, Unit::kEpochs};
  std::vector<std::int64_t> epochs;
  options_.on_batch = [&](TrialContext&, BatchIndex index) {
    epochs.push_back(index.epoch);
  };
  FakeRunner runner;
  ASSERT_EQ(Train(runner).reason, EndReason::kCompleted);
  EXPECT_THAT(epochs, ElementsAre(0, 0, 0, 1, 1, 1));
  EXPECT_EQ(runner.All<TrainingReport>().back().epoch, 2);
}

TEST_F(TrainerTest, SinkingOfTheWholeSetIsAnEpochOfTheData) {
  spec_.settings.sink_size = -1;
  FakeRunner runner;
  ASSERT_EQ(Train(runner).reason, EndReason::kCompleted);
  EXPECT_THAT(runner.ReportedBatches<TrainingReport>(), ElementsAre(5, 10));
}

TEST_F(TrainerTest, StopWaitsForTheEndOfTheSink) {
  spec_.settings.sink_size = 4;
  FakeRunner runner;
  options_.on_batch = [&](TrialContext&, BatchIndex index) {
    if (index.batch == 1) runner.stop = true;
  };
  ASSERT_EQ(Train(runner).reason, EndReason::kStopped);
  EXPECT_THAT(runner.ReportedBatches<CheckpointSaved>(), ElementsAre(4));
}

// The data continue where the last sink ended, for any size of the sinks.
TEST_F(TrainerTest, SinkingDoesNotChangeTheTraining) {
  FakeRunner plain;
  ASSERT_EQ(Train(plain).reason, EndReason::kCompleted);
  spec_.settings.sink_size = 3;
  FakeRunner sunk;
  ASSERT_EQ(Train(sunk).reason, EndReason::kCompleted);
  EXPECT_EQ(sunk.All<ValidationReport>().back().metrics,
            plain.All<ValidationReport>().back().metrics);
}

// Effect of checkpoint_policy on validations. Their val_loss is `values`, one
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
    return runner.ReportedBatches<CheckpointSaved>();
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
  EXPECT_THAT(second.ReportedBatches<ValidationReport>(),
              ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(second.ReportedBatches<CheckpointSaved>(), ElementsAre(6));
}

TEST_F(CheckpointPolicyTest, RestartDecidesLikeAnUninterruptedTraining) {
  FakeRunner first;
  options_.on_batch = [&](TrialContext&, BatchIndex index) {
    if (index.batch == 3) throw Error(ErrorKind::kFailed, "died");
  };
  ASSERT_EQ(Train(first).reason, EndReason::kError);
  EXPECT_THAT(first.ReportedBatches<CheckpointSaved>(), ElementsAre(1, 3));
  spec_.restore = first.All<CheckpointSaved>().back().uuid;
  options_.on_batch = nullptr;
  EXPECT_THAT(Saved(), ElementsAre(5, 6));
}

TEST_F(CheckpointPolicyTest, EarlyStoppingKeepsTheBest) {
  spec_.settings.early_stopping = {.metric = "val_loss", .patience = 2};
  values_ = {9, 5, 3, 4, 4, 3, 8};
  EXPECT_THAT(Saved(), ElementsAre(1, 2, 4));
}

TEST_F(CheckpointPolicyTest, SinkingSavesAtValidations) {
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
              HasSubstr("training continues without it"));
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

TEST_F(EpochEndTest, IsReportedAtTheEndOfAnEpoch) {
  FakeRunner runner;
  ASSERT_EQ(Train(runner).reason, EndReason::kCompleted);
  EXPECT_THAT(runner.ReportedBatches<TrainingReport>(),
              ElementsAre(4, 5, 8, 10, 12));
  EXPECT_EQ(Reported(runner), expected_);
  // The means of the others are of all batches since their own last report.
  const auto reports = runner.All<TrainingReport>();
  EXPECT_EQ(reports[1].metrics.size(), 1u);
  EXPECT_EQ(Value(reports[2].metrics, "batch"), (4 + 5 + 6 + 7) / 4.0);
}

TEST_F(EpochEndTest, IsMergedWithADueReport) {
  spec_.settings.scheduling_unit = 5;
  FakeRunner runner;
  ASSERT_EQ(Train(runner).reason, EndReason::kCompleted);
  EXPECT_THAT(runner.ReportedBatches<TrainingReport>(), ElementsAre(5, 10, 12));
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

TEST_F(EpochEndTest, MayBeTheSearcherMetricWithoutValidationData) {
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

TEST_F(EpochEndTest, MayDriveALearningRateSchedule) {
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
