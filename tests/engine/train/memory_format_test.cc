#include "engine/train/memory_format.h"

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <torch/optim.h>
#include <torch/types.h>

#include "engine/base/error.h"
#include "engine/train/fused_optimizers.h"
#include "engine/train/rank_group.h"
#include "engine/train/torch_modules.h"
#include "engine/train/trainer_context.h"
#include "engine/train/trial.h"
#include "tests/engine/train/in_ranks.h"

namespace dtrain {

namespace {

namespace nn = torch::nn;

TEST(ChannelsLastTest, IsForWideNetworksUnlessAsked) {
  const nn::Sequential wide(nn::Conv2d(3, 16, 3), nn::Conv2d(16, 32, 3));
  const nn::Sequential depthwise(
      nn::Conv2d(3, 32, 3),
      nn::Conv2d(nn::Conv2dOptions(32, 32, 3).groups(32)));
  const nn::Sequential small(nn::Conv2d(1, 6, 5), nn::Conv2d(6, 16, 5));
  const nn::Sequential flat(nn::Linear(20, 20));
  EXPECT_TRUE(IsChannelsLast("auto", *wide));
  EXPECT_TRUE(IsChannelsLast("auto", *depthwise));
  EXPECT_FALSE(IsChannelsLast("auto", *small));
  EXPECT_FALSE(IsChannelsLast("auto", *flat));
  EXPECT_TRUE(IsChannelsLast("on", *small));
  EXPECT_FALSE(IsChannelsLast("off", *wide));
}

TEST(ChannelsLastTest, KeepsValuesShapesAndResults) {
  torch::manual_seed(1);
  nn::Sequential net(nn::Conv2d(3, 16, 3), nn::Conv2d(16, 32, 3));
  const torch::Tensor images = torch::randn({2, 3, 8, 8});
  const torch::Tensor before = net->forward(images);
  const torch::Tensor weight = net->parameters()[2].detach().clone();
  StoreWeights(*net, /*channels_last=*/true);
  const torch::Tensor stored = net->parameters()[2];
  EXPECT_TRUE(stored.is_contiguous(torch::MemoryFormat::ChannelsLast));
  EXPECT_FALSE(stored.is_contiguous());
  EXPECT_TRUE(torch::equal(stored, weight));
  const torch::Tensor after = net->forward(images);
  EXPECT_TRUE(after.is_contiguous(torch::MemoryFormat::ChannelsLast));
  EXPECT_TRUE(torch::allclose(before, after, 1e-5, 1e-6));
  after.sum().backward();
  EXPECT_EQ(stored.grad().sizes(), weight.sizes());
}

bool IsStoredChannelsLast(const torch::Tensor& weight) {
  return !weight.is_contiguous() &&
         weight.is_contiguous(torch::MemoryFormat::ChannelsLast);
}

TEST(ChannelsLastTest, GoesBackToTheStandardFormat) {
  nn::Sequential net(nn::Conv2d(3, 16, 3));
  StoreWeights(*net, /*channels_last=*/true);
  EXPECT_TRUE(IsStoredChannelsLast(net->parameters()[0]));
  StoreWeights(*net, /*channels_last=*/false);
  EXPECT_TRUE(net->parameters()[0].is_contiguous());
}

TEST(MeasuresMemoryFormatTest, OnGpusWithConvolutionsUnlessToldOtherwise) {
  const nn::Sequential net(nn::Conv2d(3, 4, 3));
  const nn::Sequential flat(nn::Linear(3, 4));
  const std::vector<NamedModel> models = {{"model", net.ptr()}};
  TrainerSettings settings;
  EXPECT_TRUE(MeasuresMemoryFormat(settings, torch::kCUDA, models));
  EXPECT_FALSE(MeasuresMemoryFormat(settings, torch::kCPU, models));
  EXPECT_FALSE(
      MeasuresMemoryFormat(settings, torch::kCUDA, {{"model", flat.ptr()}}));
  settings.deterministic = true;
  EXPECT_FALSE(MeasuresMemoryFormat(settings, torch::kCUDA, models));
  settings = {.update_in_backward = true};
  EXPECT_FALSE(MeasuresMemoryFormat(settings, torch::kCUDA, models));
  settings = {.channels_last = "off"};
  EXPECT_FALSE(MeasuresMemoryFormat(settings, torch::kCUDA, models));
}

torch::Tensor Images() {
  return torch::sin(torch::arange(216, torch::kFloat)).view({2, 3, 6, 6});
}

// A network with everything that a step changes: weights, running means,
// gradients, momentum, random numbers, state of the trial's own, and a request
// to stop. Each step takes `standard` or `channels_last` on a clock of its own.
class ConvTrial final : public Trial {
 public:
  explicit ConvTrial(RankGroup* ranks = nullptr)
      : context_(spec_, torch::kCPU, ranks) {
    torch::manual_seed(3);
    context_.Add(net_.ptr(), "model");
    optimizer_ = std::make_shared<FusedSgd>(
        net_->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    context_.Add(optimizer_, "optimizer");
  }

  std::unique_ptr<DataSource> TrainingData() override { return nullptr; }
  std::unique_ptr<DataSource> ValidationData() override { return nullptr; }
  Metrics TrainBatch(const Batch& batch, BatchIndex) override {
    const bool channels_last = IsStoredChannelsLast(weight());
    time_ += channels_last ? channels_last_ : standard_;
    ++steps_;
    if (channels_last && channels_last_.count() == 0) {
      C10_THROW_ERROR(OutOfMemoryError, "out of memory");
    }
    count_.add_(1);
    const torch::Tensor loss = net_->forward(batch.data).exp().mean();
    context_.Backward(loss, {});
    context_.Step(*optimizer_, {});
    context_.StepSchedules();
    context_.RequestStop("enough");
    return {{"loss", loss.detach()}};
  }
  Metrics EvaluateBatch(const Batch&) override { return {}; }
  std::map<std::string, torch::Tensor> Save() override {
    return {{"count", count_}};
  }
  void Load(const std::map<std::string, torch::Tensor>& state) override {
    count_.copy_(state.at("count"));
  }

  void Choose(Duration standard, Duration channels_last) {
    standard_ = standard;
    channels_last_ = channels_last;
    ChooseMemoryFormat(context_, *this, {.data = Images()},
                       {.now = {}, .monotonic = [this] { return time_; }});
  }

  torch::Tensor weight() const { return net_->parameters()[0]; }
  TrainerContext& context() { return context_; }
  FusedSgd& optimizer() { return *optimizer_; }
  nn::Sequential& net() { return net_; }
  int steps() const { return steps_; }
  double count() const { return count_.item<double>(); }

 private:
  const TrialSpec spec_;
  TrainerContext context_;
  nn::Sequential net_{nn::Conv2d(3, 4, 3), nn::BatchNorm2d(4), nn::Dropout()};
  std::shared_ptr<FusedSgd> optimizer_;
  torch::Tensor count_ = torch::zeros({});
  Duration standard_{};
  Duration channels_last_{};
  Duration time_{};
  int steps_ = 0;
};

using std::chrono::milliseconds;

TEST(ChooseMemoryFormatTest, StoresTheWeightsInTheFasterFormat) {
  ConvTrial trial;
  trial.Choose(milliseconds(3), milliseconds(2));
  EXPECT_TRUE(IsStoredChannelsLast(trial.weight()));
  trial.Choose(milliseconds(2), milliseconds(3));
  EXPECT_TRUE(trial.weight().is_contiguous());
  EXPECT_EQ(trial.steps(), 16);
}

TEST(ChooseMemoryFormatTest, AFormatThatNeedsTooMuchMemoryIsNotChosen) {
  ConvTrial trial;
  trial.Choose(milliseconds(3), milliseconds(0));
  EXPECT_TRUE(trial.weight().is_contiguous());
}

TEST(ChooseMemoryFormatTest, ChangesNothingElse) {
  ConvTrial trial;
  const auto state = [&] {
    std::vector<torch::Tensor> tensors;
    for (const auto& one : CollectState(trial.context().objects().models)) {
      tensors.push_back(one.second.detach().clone());
    }
    return tensors;
  };
  const std::vector<torch::Tensor> before = state();
  torch::manual_seed(5);
  const torch::Tensor drawn = torch::rand({3});
  torch::manual_seed(5);
  trial.Choose(milliseconds(3), milliseconds(2));
  EXPECT_TRUE(torch::equal(torch::rand({3}), drawn));
  const std::vector<torch::Tensor> after = state();
  ASSERT_EQ(after.size(), before.size());
  for (std::size_t i = 0; i < before.size(); ++i) {
    EXPECT_TRUE(torch::equal(after[i], before[i])) << i;
  }
  for (const torch::Tensor& parameter : trial.net()->parameters()) {
    EXPECT_FALSE(parameter.grad().defined());
  }
  EXPECT_TRUE(trial.optimizer().state().empty());
  EXPECT_EQ(trial.count(), 0);
  EXPECT_EQ(trial.context().stop_reason(), "");
  EXPECT_EQ(trial.context().batches(), 0);
}

TEST(ChooseMemoryFormatTest, StepsCountAgainAfterwards) {
  ConvTrial trial;
  trial.Choose(milliseconds(3), milliseconds(2));
  const torch::Tensor before = trial.weight().detach().clone();
  (void)trial.TrainBatch({.data = Images()}, {});
  EXPECT_FALSE(torch::equal(trial.weight(), before));
  EXPECT_EQ(trial.context().stop_reason(), "enough");
}

TEST(ChooseMemoryFormatTest, AllRanksTakeTheFormatOfTheFirst) {
  InRanks(2, [](RankGroup& group) {
    ConvTrial trial(&group);
    const bool first = group.is_first();
    trial.Choose(milliseconds(first ? 3 : 2), milliseconds(first ? 2 : 3));
    EXPECT_TRUE(IsStoredChannelsLast(trial.weight()));
    group.ShareModels(trial.context().objects());
    const torch::Tensor data = Images() * (group.rank() + 1.0);
    (void)trial.TrainBatch({.data = data}, {});
    const std::string sum = std::to_string(trial.weight().sum().item<double>());
    EXPECT_EQ(group.Gather(sum), std::vector<std::string>(2, sum));
  });
}

}  // namespace

}  // namespace dtrain
