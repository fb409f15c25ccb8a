#include "models/xception.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/optim.h>

#include "engine/train/gradients.h"
#include "engine/train/train_trial.h"
#include "models/table.h"
#include "tests/support/recorded_network.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

std::int64_t Count(const torch::nn::Module& module) {
  std::int64_t count = 0;
  for (const auto& parameter : module.parameters()) count += parameter.numel();
  return count;
}

TEST(XceptionTest, HasTheParametersOfThePaper) {
  EXPECT_EQ(Count(Xception(1000)), 22'855'952);
  EXPECT_EQ(Count(Xception(10)), 22'855'952 - 990 * 2049);
}

// Against PyTorch with the same weights: tests/golden/make_networks.py.
TEST(XceptionTest, AgreesWithPyTorch) {
  torch::set_num_threads(1);
  const auto net = std::make_shared<Xception>(1000);
  ExpectAsRecorded("xception", *net, [&](const torch::Tensor& images) {
    return net->forward(images);
  });
}

TEST(XceptionTest, IsFeaturesAndLogits) {
  torch::set_num_threads(1);
  const torch::NoGradGuard guard;
  const auto net = std::make_shared<Xception>(5);
  net->eval();
  const torch::Tensor images = torch::randn({1, 3, 299, 299});
  const torch::Tensor features = net->Features(images);
  EXPECT_EQ(features.sizes(), torch::IntArrayRef({1, 2048, 10, 10}));
  EXPECT_TRUE(torch::equal(net->Logits(features), net->forward(images)));
}

TEST(XceptionTest, UpdatedInBackwardHoldsFewGradients) {
  torch::set_num_threads(1);
  const auto net = std::make_shared<Xception>(1000);
  torch::optim::SGD optimizer(net->parameters(), 0.1);
  const BackwardUpdate update(optimizer);
  net->forward(torch::randn({1, 3, 299, 299})).sum().backward();
  const double all = 4.0 * static_cast<double>(Count(*net));
  EXPECT_GT(static_cast<double>(update.peak_bytes()), 0.13 * all);
  EXPECT_LT(static_cast<double>(update.peak_bytes()), 0.16 * all);
}

// The trial as it is trained, on two small batches of its made-up data.
class XceptionTrialTest : public testing::Test {
 protected:
  Finished Train() {
    torch::set_num_threads(1);
    std::filesystem::create_directory(directory_.path() / "checkpoints");
    spec_.directory = directory_.path();
    spec_.hparams["global_batch_size"] = 2;
    spec_.hparams["num_classes"] = 4;
    spec_.until = Length{.count = 2, .unit = Unit::kBatches};
    spec_.settings.scheduling_unit = 1;
    const TrialLink link = {
        .send =
            [this](TrialMessage message) {
              if (auto* report = std::get_if<TrainingReport>(&message)) {
                reports_.push_back(*report);
              }
            },
        .next = [] { return CloseTrial(); },
        .stop_requested = [] { return false; },
        .unacknowledged = [] { return std::vector<TrialMessage>(); }};
    return TrainTrial(spec_, FindModel("xception:XceptionTrial")->make, link,
                      torch::kCPU, Clock::System());
  }

  const TemporaryDirectory directory_;
  TrialSpec spec_;
  std::vector<TrainingReport> reports_;
};

TEST_F(XceptionTrialTest, MatchesUpdatesInBackward) {
  ASSERT_EQ(Train().reason, EndReason::kCompleted);
  const auto plain = std::exchange(reports_, {});
  ASSERT_EQ(plain.size(), 2);
  spec_.settings.update_in_backward = true;
  ASSERT_EQ(Train().reason, EndReason::kCompleted);
  ASSERT_EQ(reports_.size(), 2);
  EXPECT_EQ(reports_[0].metrics, plain[0].metrics);
  EXPECT_EQ(reports_[1].metrics, plain[1].metrics);
}

TEST_F(XceptionTrialTest, RefusesZeroClasses) {
  spec_.hparams["num_classes"] = 0;
  torch::set_num_threads(1);
  spec_.hparams["global_batch_size"] = 1;
  const TrialLink link = {
      .send = [](const TrialMessage&) {},
      .next = [] { return CloseTrial(); },
      .stop_requested = [] { return false; },
      .unacknowledged = [] { return std::vector<TrialMessage>(); }};
  const Finished finished =
      TrainTrial(spec_, FindModel("xception:XceptionTrial")->make, link,
                 torch::kCPU, Clock::System());
  EXPECT_EQ(finished.reason, EndReason::kInvalidHp);
  EXPECT_THAT(finished.message, testing::HasSubstr("'num_classes' is 0"));
}

}  // namespace
}  // namespace dtrain
