#include "engine/train/trainer_context.h"

#include <fstream>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/optim.h>
#include <torch/types.h>

#include "engine/base/error.h"
#include "engine/train/torch_modules.h"
#include "engine/train/trained_objects.h"

namespace dtrain {

namespace {

using testing::HasSubstr;

// Returns the message of the error that `act` throws, or "nothing".
template <typename Act>
std::string ThrownBy(Act act) {
  try {
    act();
    return "nothing";
  } catch (const Error& error) {
    return error.what();
  }
}

// One weight of 1, plain SGD with a rate of 1: after a step the weight is 1
// minus the gradient that was used.
class TrainerContextTest : public testing::Test {
 protected:
  void SetUp() override {
    torch::nn::init::ones_(net_->weight);
    context_.Add(net_.ptr(), "model");
    optimizer_ = std::make_shared<torch::optim::SGD>(net_->parameters(), 1.0);
    context_.Add(optimizer_, "optimizer");
  }

  // One batch with the gradient `gradient`.
  void Train(double gradient, Clip clip = {}) {
    context_.Backward(net_->weight.sum() * gradient, {});
    context_.Step(*optimizer_, clip);
    context_.EndBatch(/*batches_per_epoch=*/4);
  }

  double Weight() const { return net_->weight.item<double>(); }
  double Lr() const { return optimizer_->param_groups()[0].options().get_lr(); }

  TrialSpec spec_;
  TrainerContext context_{spec_, torch::kCPU};
  torch::nn::Linear net_{torch::nn::LinearOptions(1, 1).bias(false)};
  std::shared_ptr<torch::optim::SGD> optimizer_;
};

TEST_F(TrainerContextTest, PlateauWithoutItsMetricNamesTheAvailable) {
  context_.Add(LrSchedule(ReduceOnPlateau{.metric = "val_auc"}), *optimizer_,
               StepMode::kManual, 1);
  EXPECT_EQ(ThrownBy([&] {
              context_.ObserveValidation({{"val_loss", 1}, {"val_error", 2}});
            }),
            "the plateau schedule follows the metric 'val_auc', which was not "
            "reported; set its metric to one of: val_error, val_loss");
}

TEST_F(TrainerContextTest, PlateauWithoutAMetricFollowsTheSearchers) {
  spec_.settings.searcher_metric = "accuracy";
  spec_.settings.smaller_is_better = false;
  context_.Add(LrSchedule(ReduceOnPlateau{.factor = 0.5, .patience = 0}),
               *optimizer_, StepMode::kManual, 1);
  Train(0);
  context_.ObserveValidation({{"accuracy", 1}});
  context_.ObserveValidation({{"accuracy", 2}});
  EXPECT_DOUBLE_EQ(Lr(), 1);
  context_.ObserveValidation({{"accuracy", 1}});
  EXPECT_DOUBLE_EQ(Lr(), 0.5);
}

TEST_F(TrainerContextTest, RefusesANullModel) {
  EXPECT_EQ(ThrownBy([&] {
              context_.Add(std::shared_ptr<torch::nn::Module>(), "other");
            }),
            "Add: the model 'other' is null");
  EXPECT_EQ(ThrownBy([&] {
              context_.Add(std::shared_ptr<torch::optim::Optimizer>(), "other");
            }),
            "Add: the optimizer 'other' is null");
}

TEST_F(TrainerContextTest, StepUsesAndClearsTheGradient) {
  Train(0.25);
  EXPECT_EQ(Weight(), 0.75);
  EXPECT_FALSE(net_->weight.grad().defined());
}

TEST_F(TrainerContextTest, BackwardTakesALossOfSeveralValues) {
  const torch::Tensor losses = net_->weight.flatten().repeat({3});
  context_.Backward(losses, {});
  EXPECT_EQ(net_->weight.grad().item<double>(), 3);
  context_.Backward(losses, torch::tensor({0.5, 0.0, 0.25}));
  EXPECT_EQ(net_->weight.grad().item<double>(), 3.75);
}

TEST_F(TrainerContextTest, AggregationStepsWithTheMeanGradient) {
  spec_.settings.aggregation_frequency = 2;
  Train(0.25);
  EXPECT_EQ(Weight(), 1);
  Train(0.5);
  EXPECT_EQ(Weight(), 1 - 0.375);
}

TEST_F(TrainerContextTest, AggregationWithoutAveragingStepsWithTheSum) {
  spec_.settings.aggregation_frequency = 2;
  spec_.settings.average_aggregated_gradients = false;
  Train(0.25);
  Train(0.5);
  EXPECT_EQ(Weight(), 0.25);
}

TEST_F(TrainerContextTest, ClipsByTheNormOfTheSettings) {
  spec_.settings.clip_norm = 0.5;
  Train(4);
  EXPECT_NEAR(Weight(), 0.5, 1e-6);
}

TEST_F(TrainerContextTest, ClippingNeverScalesUp) {
  spec_.settings.clip_norm = 5;
  Train(0.25);
  EXPECT_EQ(Weight(), 0.75);
}

TEST_F(TrainerContextTest, ClipOfTheCallOverridesTheSettings) {
  spec_.settings.clip_norm = 0.5;
  Train(-4, {.value = 2});
  EXPECT_EQ(Weight(), 3);
}

TEST_F(TrainerContextTest, SchedulesSetTheRateAtOnceAndByBatch) {
  context_.Add(LrSchedule(StepLr{.step_size = 1, .gamma = 0.5},
                          {.steps = 1, .start = 0.25}),
               *optimizer_, StepMode::kEveryBatch, 1);
  EXPECT_EQ(Lr(), 0.25);
  Train(0);
  EXPECT_EQ(Lr(), 1);
  Train(0);
  EXPECT_EQ(Lr(), 0.5);
}

TEST_F(TrainerContextTest, ManualSchedulesWaitForTheTrial) {
  context_.Add(LrSchedule(ExponentialLr{.gamma = 0.5}), *optimizer_,
               StepMode::kManual, 1);
  Train(0);
  EXPECT_EQ(Lr(), 1);
  context_.StepSchedules();
  EXPECT_EQ(Lr(), 0.5);
}

TEST_F(TrainerContextTest, SchedulesCompose) {
  context_.Add(LrSchedule(ExponentialLr{.gamma = 0.5}), *optimizer_,
               StepMode::kEveryBatch, 1);
  context_.Add(LrSchedule(ReduceOnPlateau{.metric = "loss", .patience = 0}),
               *optimizer_, StepMode::kManual, 1);
  Train(0);
  context_.ObserveValidation({{"loss", 1}});
  context_.ObserveValidation({{"loss", 2}});
  EXPECT_DOUBLE_EQ(Lr(), 0.05);
}

TEST_F(TrainerContextTest, ReportsTheRatesOfAllGroups) {
  auto& groups = optimizer_->param_groups();
  groups.push_back(groups[0]);
  groups[1].options().set_lr(0.5);
  const auto other = std::make_shared<torch::nn::LinearImpl>(1, 1);
  context_.Add(other, "critic");
  context_.Add(std::make_shared<torch::optim::Adam>(other->parameters(), 0.125),
               "adam");
  MetricValues metrics;
  context_.AppendLearningRates(metrics);
  EXPECT_EQ(metrics,
            (MetricValues{{"lr", 1}, {"lr_1", 0.5}, {"adam.lr", 0.125}}));
}

TEST_F(TrainerContextTest, RefusesOptimizersThatCannotBeCheckpointed) {
  EXPECT_THAT(ThrownBy([&] {
                context_.Add(
                    std::make_shared<torch::optim::LBFGS>(net_->parameters()),
                    "other");
              }),
              HasSubstr("LBFGS cannot be saved in checkpoints"));
}

TEST_F(TrainerContextTest, RefusesAnOptimizerOfNoAddedModel) {
  const torch::nn::Linear other(1, 1);
  EXPECT_THAT(ThrownBy([&] {
                context_.Add(std::make_shared<torch::optim::SGD>(
                                 other->parameters(), 1.0),
                             "other");
              }),
              HasSubstr("parameters of no added model"));
}

TEST_F(TrainerContextTest, RefusesADuplicateName) {
  EXPECT_THAT(ThrownBy([&] { context_.Add(net_.ptr(), "model"); }),
              HasSubstr("two models are called 'model'"));
}

TEST_F(TrainerContextTest, FindsNestedHyperparameters) {
  spec_.hparams = {
      {"net", {{"width", 8}}}, {"a.b", 1}, {"global_batch_size", 32}};
  EXPECT_EQ(context_.Get<int>("net.width"), 8);
  EXPECT_EQ(context_.Get<int>("a.b"), 1);
  EXPECT_EQ(context_.Get<double>("net.depth", 2.5), 2.5);
  EXPECT_EQ(context_.batch_size(), 32);
  EXPECT_THROW(context_.Get<int>("net.depth"), Error);
  EXPECT_THROW(context_.Get<std::string>("net.width"), Error);
}

TEST_F(TrainerContextTest, RefusesNumbersOutsideOfTheirType) {
  const auto refusal = [&](const nlohmann::json& value, auto type) {
    spec_.hparams = {{"x", value}};
    return ThrownBy([&] { (void)context_.Get<decltype(type)>("x"); });
  };
  EXPECT_THAT(refusal(4294967296, std::uint32_t{}),
              HasSubstr("hyperparameter 'x': expected an integer from 0 to "
                        "4294967295, got 4294967296"));
  EXPECT_THAT(refusal(-1, std::uint32_t{}), HasSubstr("from 0 to 4294967295"));
  EXPECT_THAT(refusal(-1, std::uint64_t{}), HasSubstr("got -1"));
  EXPECT_THAT(refusal(5000000000, int{}), HasSubstr("to 2147483647, got 5"));
  EXPECT_THAT(refusal(-2147483649, int{}), HasSubstr("from -2147483648 to"));
  EXPECT_THAT(refusal(18446744073709551615U, std::int64_t{}),
              HasSubstr("to 9223372036854775807, got 18446744073709551615"));
  EXPECT_THAT(refusal(256, std::uint8_t{}), HasSubstr("from 0 to 255"));
  EXPECT_THAT(refusal(1e39, float{}), HasSubstr("expected a number from -3.4"));

  spec_.hparams = {{"x", 4294967295U}, {"y", -128}, {"z", 1e38}};
  EXPECT_EQ(context_.Get<std::uint32_t>("x"), 4294967295U);
  EXPECT_EQ(context_.Get<std::int8_t>("y"), -128);
  EXPECT_FLOAT_EQ(context_.Get<float>("z"), 1e38F);
}

TEST_F(TrainerContextTest, RefusesABatchSizeThatIsMissingOrTooSmall) {
  EXPECT_THAT(ThrownBy([&] { context_.batch_size(); }),
              HasSubstr("'global_batch_size' is missing"));
  spec_.hparams = {{"global_batch_size", 1}};
  spec_.world_size = 2;
  EXPECT_THAT(ThrownBy([&] { context_.batch_size(); }),
              HasSubstr("do not suffice for 2 ranks"));
}

struct GoldenCase {
  std::string name;
  std::int64_t frequency;
  std::int64_t aggregation;
  std::vector<std::int64_t> steps;  // of the schedule, after each batch
};

void PrintTo(const GoldenCase& golden, std::ostream* out) {
  *out << golden.name;
}

// Every frequency 1 case: with more, Determined counts batches and dtrain, as
// the mode's name says, optimizer steps.
std::vector<GoldenCase> GoldenCases() {
  std::ifstream file(DTRAIN_GOLDEN_DIR "/lr_scheduler_steps.json");
  std::vector<GoldenCase> cases;
  const auto json = nlohmann::json::parse(file);
  for (const auto& entry : json.at("cases")) {
    if (entry.at("step_mode") != "STEP_EVERY_OPTIMIZER_STEP") continue;
    if (entry.at("frequency") != 1) continue;
    cases.push_back(
        {.name = entry.dump(),
         .frequency = 1,
         .aggregation = entry.at("aggregation_frequency"),
         .steps = entry.at("cumulative_scheduler_steps_after_batch")});
  }
  cases.push_back({"every second step", 2, 2, {0, 0, 0, 1, 1, 1, 1, 2}});
  return cases;
}

class OptimizerStepTest : public TrainerContextTest,
                          public testing::WithParamInterface<GoldenCase> {};

TEST_P(OptimizerStepTest, StepsSchedules) {
  const GoldenCase& golden = GetParam();
  spec_.settings.aggregation_frequency = golden.aggregation;
  context_.Add(LrSchedule(StepLr{}), *optimizer_, StepMode::kEveryOptimizerStep,
               golden.frequency);
  std::vector<std::int64_t> steps;
  for (std::size_t i = 0; i < golden.steps.size(); ++i) {
    Train(0);
    steps.push_back(
        context_.objects().optimizers[0].schedules[0].schedule.steps());
  }
  EXPECT_EQ(steps, golden.steps);
}

INSTANTIATE_TEST_SUITE_P(Golden, OptimizerStepTest,
                         testing::ValuesIn(GoldenCases()));

TEST_F(TrainerContextTest, ListsUnreadHyperparameters) {
  spec_.hparams = {{"lr", 0.1},
                   {"global_batch_size", 4},
                   {"dropout", 0.5},
                   {"net", {{"width", 3}, {"depth", 2}}},
                   {"head", {{"size", 1}}}};
  (void)context_.Get<double>("lr");
  (void)context_.Get<int>("missing", 1);
  (void)context_.batch_size();
  (void)context_.Get<int>("net.width");
  EXPECT_THAT(context_.UnreadHparams(),
              testing::ElementsAre("dropout", "head.size", "net.depth"));

  (void)context_.Get<nlohmann::json>("net");
  EXPECT_THAT(context_.UnreadHparams(),
              testing::ElementsAre("dropout", "head.size"));
  (void)context_.hparams();
  EXPECT_THAT(context_.UnreadHparams(), testing::IsEmpty());
}

}  // namespace

}  // namespace dtrain
