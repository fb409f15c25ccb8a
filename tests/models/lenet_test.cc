#include <cstdlib>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/train/train_trial.h"
#include "models/nets/conv_nets.h"
#include "models/table.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::SizeIs;

TEST(LeNet5Test, HasTheParametersOfTheGuide) {
  const LeNet5 net(10);
  std::int64_t count = 0;
  for (const auto& parameter : net.parameters()) count += parameter.numel();
  EXPECT_EQ(count, 61'684);
  for (const auto& entry : net.named_parameters()) {
    EXPECT_NE(entry.key(), "conv1.bias");
  }
}

TEST(LeNet5Test, IsInitializedTruncatedNormal) {
  torch::manual_seed(1);
  torch::Tensor weights = torch::empty({100'000});
  FillTruncatedNormal(weights, 0.02);
  EXPECT_LE(weights.abs().max().item<double>(), 0.04);
  EXPECT_NEAR(weights.mean().item<double>(), 0, 5e-4);
  // The deviation of a normal distribution cut at two of its own.
  EXPECT_NEAR(weights.std().item<double>(), 0.02 * 0.8796, 2e-4);
  // A quarter lies beyond the upper quartile, 0.6257 deviations.
  EXPECT_NEAR(weights.gt(0.02 * 0.6257).to(torch::kFloat).mean().item<double>(),
              0.25, 0.01);
}

TEST(ReluReduceMeanDenseTest, IsInitializedWithOnes) {
  ReluReduceMeanDense net(3, 2);
  const torch::Tensor x = torch::tensor({1.0, -1.0, 2.0}).view({1, 3, 1, 1});
  EXPECT_TRUE(torch::equal(net.forward(x), torch::tensor({{4.0, 4.0}})));
}

// Trains in this process, on drawn digits.
class MNISTTrialTest : public testing::Test {
 protected:
  MNISTTrialTest() {
    torch::set_num_threads(1);
    spec_.directory = directory_.path();
    spec_.hparams = {{"global_batch_size", 32}, {"dataset", "strokes"}};
    std::filesystem::create_directory(directory_.path() / "checkpoints");
  }
  Finished Train(const char* entrypoint, Length until) {
    spec_.until = until;
    const TrialLink link = {
        .send =
            [this](TrialMessage message) {
              if (auto* report = std::get_if<TrainingReport>(&message)) {
                reports_.push_back(*report);
              }
            },
        .next = [] { return CloseTrial(); },
        .stop_requested =
            [this] {
              ++asked_;
              return false;
            },
        .unacknowledged = [] { return std::vector<TrialMessage>(); }};
    testing::internal::CaptureStderr();
    const Finished finished = TrainTrial(spec_, FindModel(entrypoint)->make,
                                         link, torch::kCPU, Clock::System());
    log_ = testing::internal::GetCapturedStderr();
    return finished;
  }

  const TemporaryDirectory directory_;
  TrialSpec spec_;
  std::vector<TrainingReport> reports_;
  std::string log_;
  int asked_ = 0;  // whether to stop
};

TEST_F(MNISTTrialTest, ReportsOncePerSink) {
  spec_.settings.sink_size = 20;
  spec_.settings.scheduling_unit = 1;  // of no effect
  ASSERT_EQ(Train("lenet:MNISTTrial", {3, Unit::kEpochs}).reason,
            EndReason::kCompleted);
  ASSERT_THAT(reports_, SizeIs(3));
  EXPECT_EQ(reports_[0].batches, 20);
  EXPECT_EQ(reports_[2].batches, 60);
  EXPECT_EQ(reports_[2].epoch, 3);
  EXPECT_THAT(log_,
              HasSubstr("============== Starting Training ==============\n"));
  EXPECT_THAT(log_, HasSubstr("epoch: 1 step: 20, loss is 2."));
  EXPECT_THAT(log_, HasSubstr("epoch: 3 step: 20, loss is 2."));
  // A float has at most 9 significant digits.
  EXPECT_THAT(log_,
              ContainsRegex("epoch: 3 step: 20, loss is 2\\.[0-9]{1,8}\n"));
}

TEST_F(MNISTTrialTest, MatchesTheLossesOfTheGuide) {
  spec_.settings.sink_size = 10;
  spec_.hparams["custom_loop"] = true;
  ASSERT_EQ(Train("lenet:MNISTTrial", {2, Unit::kEpochs}).reason,
            EndReason::kCompleted);
  EXPECT_THAT(log_, HasSubstr("epoch: 1/2, losses: 2."));
  EXPECT_THAT(log_, HasSubstr("epoch: 2/2, losses: 2."));
}

TEST_F(MNISTTrialTest, SensMultipliesTheGradients) {
  spec_.settings.scheduling_unit = 1;
  ASSERT_EQ(Train("lenet:MNISTTrial", {5, Unit::kBatches}).reason,
            EndReason::kCompleted);
  const auto plain = std::exchange(reports_, {});
  // Twice the gradient at half the rate is the same step.
  spec_.hparams["sens"] = 2;
  spec_.hparams["lr"] = 0.005;
  ASSERT_EQ(Train("lenet:MNISTTrial", {5, Unit::kBatches}).reason,
            EndReason::kCompleted);
  ASSERT_EQ(reports_.size(), 5);
  for (int i = 0; i < 5; ++i) {
    EXPECT_NEAR(reports_[i].metrics[0].second, plain[i].metrics[0].second,
                1e-6);
  }
}

TEST_F(MNISTTrialTest, TheDenseNetworkHasAsManyLossesAsSamples) {
  spec_.hparams = {{"global_batch_size", 32}};
  ASSERT_EQ(Train("lenet:ReLUReduceMeanDenseTrial", {1, Unit::kBatches}).reason,
            EndReason::kCompleted);
  EXPECT_THAT(log_,
              HasSubstr("-------loss------ [0. 0. 0. 0. 0. 0. 0. 0. 0. "
                        "0. 0. 0. 0. 0. 0. 0. 0. 0. 0. 0. 0. 0. 0. 0.\n"));
  EXPECT_THAT(log_, HasSubstr("> 0. 0. 0. 0. 0. 0. 0. 0.]\n"));
  ASSERT_THAT(reports_, SizeIs(1));
  EXPECT_EQ(reports_[0].metrics[0].second, 0);
}

}  // namespace
}  // namespace dtrain
