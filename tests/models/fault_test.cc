#include "models/fault.h"

#include <cmath>
#include <fstream>
#include <stdexcept>

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/train/trainer_context.h"
#include "models/table.h"

namespace dtrain {

namespace {

using ::testing::internal::CaptureStdout;
using ::testing::internal::GetCapturedStdout;

TEST(FaultProcessTest, FloodsTheLogWithLinesOfTheLengthAskedFor) {
  CaptureStdout();
  FloodLog(/*bytes=*/10, /*line=*/4);
  EXPECT_EQ(GetCapturedStdout(), "xxx\nxxx\nxx");
}

TEST(FaultProcessTest, FloodsTheLogWithAnEndlessLine) {
  CaptureStdout();
  FloodLog(/*bytes=*/200'000, /*line=*/0);
  EXPECT_EQ(GetCapturedStdout(), std::string(200'000, 'x'));
}

TEST(FaultProcessTest, FloodsTheLogWithLinesLongerThanAChunk) {
  CaptureStdout();
  FloodLog(/*bytes=*/200'000, /*line=*/100'000);
  const std::string line = std::string(99'999, 'x') + '\n';
  EXPECT_EQ(GetCapturedStdout(), line + line);
}

TEST(FaultProcessTest, WritesBytesAsTheyAre) {
  CaptureStdout();
  WriteHex("1b5B00ff");
  EXPECT_EQ(GetCapturedStdout(), std::string("\x1b[\0\xff", 4));
}

TEST(FaultProcessTest, RefusesInvalidHex) {
  EXPECT_THROW(WriteHex("1b5"), std::invalid_argument);
  EXPECT_THROW(WriteHex("zz"), std::invalid_argument);
}

TEST(FaultProcessTest, HoldsMemoryThatIsWrittenTo) {
  const std::vector<std::uint8_t> held = HoldMemory(/*mebibytes=*/2);
  EXPECT_EQ(held.size(), std::size_t{2} << 20);
  EXPECT_EQ(held.back(), 0x5A);
}

TEST(FaultProcessTest, LeavesADaemonInItsOwnSession) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // so that it becomes our child
  SpawnDaemon();
  std::ifstream children("/proc/self/task/" + std::to_string(::getpid()) +
                         "/children");
  pid_t daemon = 0;
  ASSERT_TRUE(children >> daemon);
  EXPECT_NE(::getsid(daemon), ::getsid(0));
  ::kill(daemon, SIGKILL);
  EXPECT_EQ(::waitpid(daemon, nullptr, 0), daemon);
}

using ::testing::ElementsAre;
using ::testing::ExitedWithCode;
using ::testing::Key;
using ::testing::KilledBySignal;

class FaultTrialTest : public ::testing::Test {
 protected:
  FaultTrial& Make(nlohmann::json hparams) {
    spec_.hparams = std::move(hparams);
    trial_ = std::make_unique<FaultTrial>(context_);
    return *trial_;
  }
  // The metrics of step `step`, trained as batch step − 1.
  Metrics Train(std::int64_t step) {
    return trial_->TrainBatch(Batch(), {.batch = step - 1});
  }
  Metrics Validate(std::int64_t batches) {
    context_.SetBatches(batches);
    return trial_->EvaluateBatch(Batch());
  }
  static double Value(const Metrics& metrics, const std::string& name) {
    return metrics.at(name).item<double>();
  }

  TrialSpec spec_;
  TrainerContext context_{spec_, torch::kCPU};
  std::unique_ptr<FaultTrial> trial_;
};

TEST_F(FaultTrialTest, IsInTheTable) {
  const auto trial = FindModel("builtin:FaultTrial")->make(context_);
  EXPECT_EQ(trial->TrainingData()->BatchesPerEpoch(), 100);
}

TEST_F(FaultTrialTest, MeasuresItsFormulaExactly) {
  Make({{"x", 0.7}});
  const double first = (0.7 - 0.3) * (0.7 - 0.3) + 1 / (1 + 1 / 100.0);
  const double later = (0.7 - 0.3) * (0.7 - 0.3) + 1 / (1 + 250 / 100.0);
  EXPECT_EQ(Value(Train(1), "loss"), first);
  EXPECT_EQ(Value(Train(1), "acc"), 1 - first);
  EXPECT_EQ(Value(Validate(250), "loss"), later);
  EXPECT_EQ(Value(Validate(250), "acc"), 1 - later);
}

TEST_F(FaultTrialTest, ReportsNanAtTheRequestedStep) {
  Make({{"nan_at", 3}});
  EXPECT_TRUE(std::isnan(Value(Train(3), "loss")));
  EXPECT_TRUE(std::isnan(Value(Validate(3), "acc")));
  EXPECT_FALSE(std::isnan(Value(Train(4), "loss")));
}

TEST_F(FaultTrialTest, ReportsInfinityAtTheRequestedStep) {
  Make({{"inf_at", 3}});
  EXPECT_EQ(Value(Train(3), "loss"), HUGE_VAL);
  EXPECT_EQ(Value(Train(3), "acc"), -HUGE_VAL);
  EXPECT_LT(Value(Train(2), "loss"), HUGE_VAL);
}

TEST_F(FaultTrialTest, OmitsTheLossAtTheRequestedStep) {
  Make({{"skip_metric_at", 3}});
  EXPECT_THAT(Train(3), ElementsAre(Key("acc")));
  EXPECT_THAT(Validate(3), ElementsAre(Key("acc")));
  EXPECT_THAT(Train(4), ElementsAre(Key("acc"), Key("loss")));
}

TEST_F(FaultTrialTest, ReportsANameThatTheTrainerReportsToo) {
  Make({{"dup_metric_at", 3}});
  EXPECT_THAT(Train(3), ElementsAre(Key("acc"), Key("loss"), Key("lr")));
  MetricValues rates;
  context_.AppendLearningRates(rates);
  EXPECT_THAT(rates, ElementsAre(testing::Pair("lr", 0.5)));
}

TEST_F(FaultTrialTest, ReportsMoreMetricsForBenchmarks) {
  Make({{"metrics", 2}});
  EXPECT_THAT(Train(1), ElementsAre(Key("acc"), Key("loss"), Key("metric_0"),
                                    Key("metric_1")));
}

using FaultTrialDeathTest = FaultTrialTest;

TEST_F(FaultTrialDeathTest, ExitsWhenTheStepBegins) {
  Make({{"crash_at", 3}, {"exit_code", 7}});
  Train(2);
  EXPECT_EXIT(Train(3), ExitedWithCode(7), "");
}

TEST_F(FaultTrialDeathTest, ExitsAtTheStartForStepZero) {
  EXPECT_EXIT(Make({{"crash_at", 0}}), ExitedWithCode(1), "");
}

TEST_F(FaultTrialDeathTest, AbortsWhenTheStepBegins) {
  Make({{"abort_at", 3}});
  EXPECT_EXIT(Train(3), KilledBySignal(SIGABRT), "");
}

TEST_F(FaultTrialDeathTest, HangsUntilASignalEndsIt) {
  Make({{"hang_at", 3}});
  EXPECT_EXIT(
      {
        ::alarm(1);
        Train(3);
      },
      KilledBySignal(SIGALRM), "");
}

TEST_F(FaultTrialDeathTest, IgnoresTermIfAsked) {
  EXPECT_EXIT(
      {
        Make({{"ignore_term", true}});
        ::raise(SIGTERM);
        ::_exit(3);
      },
      ExitedWithCode(3), "");
}

TEST_F(FaultTrialTest, CallsItsHyperparametersInvalidAtTheStep) {
  Make({{"invalid_hp_at", 3}});
  Train(2);
  EXPECT_THROW(Train(3), InvalidHyperparameters);
}

TEST_F(FaultTrialTest, FailsOnlyInTheFirstRun) {
  spec_.run = 1;
  Make({{"invalid_hp_at", 3}, {"nan_at", 4}, {"log_bytes", 10}});
  EXPECT_FALSE(Train(3).empty());
  EXPECT_FALSE(std::isnan(Value(Train(4), "loss")));
}

TEST_F(FaultTrialTest, FailsInEveryRunIfAsked) {
  spec_.run = 1;
  Make({{"invalid_hp_at", 3}, {"once", false}});
  EXPECT_THROW(Train(3), InvalidHyperparameters);
}

TEST_F(FaultTrialTest, TakesALabelOutOfRangeAtTheStep) {
  Make({{"label_out_of_range_at", 3}});
  Train(2);
  EXPECT_THROW(Train(3), c10::Error);
}

TEST_F(FaultTrialTest, HoldsMemoryOfTheDevice) {
  EXPECT_NO_THROW(Make({{"device_mb", 1}}));
  EXPECT_THROW(Make({{"device_mb", -1}}), InvalidHyperparameters);
}

TEST_F(FaultTrialTest, WritesToItsLogAtTheStart) {
  testing::internal::CaptureStdout();
  Make({{"log_hex", "1b5b"}, {"log_bytes", 6}, {"log_line", 3}});
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "\x1b[xx\nxx\n");
}

TEST_F(FaultTrialTest, RefusesInvalidHex) {
  EXPECT_THROW(Make({{"log_hex", "xyz"}}), InvalidHyperparameters);
}

TEST_F(FaultTrialTest, RefusesStepsBelowZero) {
  EXPECT_THROW(Make({{"crash_at", -3}}), InvalidHyperparameters);
}

TEST_F(FaultTrialTest, MakesCheckpointsOfTheRequestedSize) {
  const auto state = Make({{"ckpt_mb", 2}}).Save();
  EXPECT_EQ(state.at("ballast").nbytes(), std::size_t{2} << 20);
  EXPECT_NO_THROW(trial_->Load(state));
}

TEST_F(FaultTrialTest, DetectsADamagedCheckpoint) {
  auto state = Make({{"ckpt_mb", 1}}).Save();
  state.at("ballast") = state.at("ballast").clone();
  state.at("ballast")[77] = 0;
  EXPECT_THROW(trial_->Load(state), std::runtime_error);
}

TEST_F(FaultTrialTest, SavesNothingByDefault) {
  EXPECT_TRUE(Make(nlohmann::json::object()).Save().empty());
}

TEST_F(FaultTrialTest, CountsSamplesOnRequest) {
  Make({{"global_batch_size", 32}, {"batches_per_epoch", 10}});
  const auto source = trial_->TrainingData();
  EXPECT_EQ(source->SamplesPerEpoch(), 320);
  EXPECT_EQ(source->Read().size(), 32);
}

}  // namespace

}  // namespace dtrain
