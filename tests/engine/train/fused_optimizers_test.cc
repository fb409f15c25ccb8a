#include "engine/train/fused_optimizers.h"

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <torch/optim.h>

#include "engine/train/memory_format.h"
#include "engine/train/optimizer_state.h"
#include "engine/train/torch_modules.h"
#include "engine/train/trained_objects.h"

namespace dtrain {

namespace {

namespace optim = torch::optim;
using Optimizer = std::shared_ptr<optim::Optimizer>;
using Groups = std::vector<optim::OptimizerParamGroup>;

// An optimizer in LibTorch's implementation and in ours.
struct FusedCase {
  const char* name;
  std::function<Optimizer(Groups)> theirs;
  std::function<Optimizer(Groups)> ours;
};

template <typename Theirs, typename Ours, typename Options>
FusedCase TheSame(const char* name, Options options) {
  return {name,
          [=](Groups groups) {
            return std::make_shared<Theirs>(std::move(groups), options);
          },
          [=](Groups groups) {
            return std::make_shared<Ours>(std::move(groups), options);
          }};
}

FusedCase Sgd(const char* name, optim::SGDOptions options) {
  return TheSame<optim::SGD, FusedSgd>(name, options);
}
FusedCase Adam(const char* name, optim::AdamOptions options) {
  return TheSame<optim::Adam, FusedAdam>(name, options);
}
FusedCase AdamW(const char* name, optim::AdamWOptions options) {
  return TheSame<optim::AdamW, FusedAdamW>(name, options);
}

// A net of tensors of several sizes, the same each time.
class SeveralTensors final : public torch::nn::Module {
 public:
  explicit SeveralTensors(torch::ScalarType type = torch::kFloat) {
    torch::manual_seed(2);
    const std::vector<std::vector<std::int64_t>> shapes = {
        {7, 3, 3, 3}, {7}, {40, 33}, {40}, {1}, {}};
    for (const auto& shape : shapes) {
      register_parameter("p" + std::to_string(parameters().size()),
                         torch::randn(shape).to(type));
    }
    // A memory order of its own, as channels_last gives it.
    parameters()[0].set_data(
        parameters()[0].contiguous(torch::MemoryFormat::ChannelsLast));
  }

  // Two groups.
  Groups groups() const {
    const auto all = parameters();
    return {optim::OptimizerParamGroup({all[0], all[1], all[2]}),
            optim::OptimizerParamGroup({all[3], all[4], all[5]})};
  }
};

// Gradients of step `step`; the second parameter gets one every third time
// only, from the third on.
void SetGradients(SeveralTensors& net, int step) {
  torch::manual_seed(1000 + step);
  const auto parameters = net.parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    torch::Tensor parameter = parameters[i];
    parameter.mutable_grad() = torch::randn_like(parameter.detach());
    if (i == 1 && step % 3 != 2) parameter.mutable_grad().reset();
  }
}

void Train(SeveralTensors& net, optim::Optimizer& optimizer, int first,
           int last) {
  for (int step = first; step < last; ++step) {
    SetGradients(net, step);
    // A schedule changes the rate like this.
    optimizer.param_groups()[1].options().set_lr(0.01 / (1 + step % 10));
    optimizer.step();
  }
}

void ExpectNear(const SeveralTensors& ours, const SeveralTensors& theirs,
                double tolerance) {
  for (const auto& entry : theirs.named_parameters()) {
    const torch::Tensor& expected = entry.value();
    const torch::Tensor actual = ours.named_parameters()[entry.key()];
    EXPECT_LE((actual - expected).abs().max().item<double>(),
              tolerance * expected.abs().max().item<double>())
        << entry.key();
  }
}

class FusedOptimizerTest : public testing::TestWithParam<FusedCase> {
 protected:
  FusedOptimizerTest() { torch::set_num_threads(2); }
};

TEST_P(FusedOptimizerTest, StepsAsLibTorchDoes) {
  SeveralTensors theirs;
  const Optimizer their_optimizer = GetParam().theirs(theirs.groups());
  Train(theirs, *their_optimizer, 0, 100);
  SeveralTensors ours;
  const Optimizer our_optimizer = GetParam().ours(ours.groups());
  Train(ours, *our_optimizer, 0, 100);
  ExpectNear(ours, theirs, 1e-6);
  EXPECT_EQ(our_optimizer->state().size(), their_optimizer->state().size());
}

TEST_P(FusedOptimizerTest, StepsDoublesAsLibTorchDoes) {
  SeveralTensors theirs(torch::kDouble);
  Train(theirs, *GetParam().theirs(theirs.groups()), 0, 30);
  SeveralTensors ours(torch::kDouble);
  Train(ours, *GetParam().ours(ours.groups()), 0, 30);
  ExpectNear(ours, theirs, 1e-13);
}

TEST_P(FusedOptimizerTest, LeavesOtherTypesToLibTorch) {
  SeveralTensors theirs(torch::kBFloat16);
  Train(theirs, *GetParam().theirs(theirs.groups()), 0, 5);
  SeveralTensors ours(torch::kBFloat16);
  Train(ours, *GetParam().ours(ours.groups()), 0, 5);
  ExpectNear(ours, theirs, 0);
}

// Thirty steps with the one optimizer, a checkpoint, seventy with the other.
void TrainWithBoth(SeveralTensors& net, const Optimizer& first,
                   const Optimizer& second) {
  Train(net, *first, 0, 30);
  const std::shared_ptr<torch::nn::Module> module(&net, [](auto*) {});
  const ParameterNames names = NameParameters({{"model", module}});
  const OptimizerState saved =
      SaveOptimizer({.name = "o", .optimizer = first}, names);
  std::map<std::string, torch::Tensor> tensors;
  for (const auto& [name, tensor] : saved.tensors) {
    tensors[name] = tensor.clone();
  }
  NamedOptimizer loaded{.name = "o", .optimizer = second};
  LoadOptimizer(loaded, names, tensors, saved.facts, /*resumes=*/true);
  Train(net, *second, 30, 100);
}

TEST_P(FusedOptimizerTest, ResumesFromACheckpointOfLibTorch) {
  SeveralTensors whole;
  Train(whole, *GetParam().theirs(whole.groups()), 0, 100);
  SeveralTensors ours;
  TrainWithBoth(ours, GetParam().theirs(ours.groups()),
                GetParam().ours(ours.groups()));
  ExpectNear(ours, whole, 1e-6);
  SeveralTensors theirs;
  TrainWithBoth(theirs, GetParam().ours(theirs.groups()),
                GetParam().theirs(theirs.groups()));
  ExpectNear(theirs, whole, 1e-6);
}

TEST_P(FusedOptimizerTest, ResumesFromItsCheckpointBitIdentically) {
  SeveralTensors whole;
  Train(whole, *GetParam().ours(whole.groups()), 0, 100);
  SeveralTensors parts;
  TrainWithBoth(parts, GetParam().ours(parts.groups()),
                GetParam().ours(parts.groups()));
  ExpectNear(parts, whole, 0);
}

TEST_P(FusedOptimizerTest, TakesGradientsInAnotherMemoryOrder) {
  const auto train = [](SeveralTensors& net, optim::Optimizer& optimizer) {
    for (int step = 0; step < 5; ++step) {
      SetGradients(net, step);
      torch::Tensor parameter = net.parameters()[2];
      parameter.mutable_grad() = torch::randn({33, 40}).t();
      optimizer.step();
    }
  };
  SeveralTensors theirs;
  train(theirs, *GetParam().theirs(theirs.groups()));
  SeveralTensors ours;
  train(ours, *GetParam().ours(ours.groups()));
  ExpectNear(ours, theirs, 0);
}

TEST_P(FusedOptimizerTest, AllowsBackwardOfAnEarlierGraph) {
  SeveralTensors net;
  const Optimizer optimizer = GetParam().ours(net.groups());
  const torch::Tensor weight = net.parameters()[2];
  const torch::Tensor loss = (weight * weight).sum();
  SetGradients(net, 0);
  optimizer->step();
  EXPECT_NO_THROW(loss.backward());
}

TEST_P(FusedOptimizerTest, CallsAClosure) {
  SeveralTensors net;
  const Optimizer optimizer = GetParam().ours(net.groups());
  const torch::Tensor before = net.parameters()[2].detach().clone();
  const torch::Tensor loss = optimizer->step([&] {
    SetGradients(net, 0);
    return torch::ones({});
  });
  EXPECT_EQ(loss.item<float>(), 1);
  EXPECT_FALSE(torch::equal(net.parameters()[2], before));
}

TEST_P(FusedOptimizerTest, DoesNothingWithoutGradients) {
  SeveralTensors net;
  const Optimizer optimizer = GetParam().ours(net.groups());
  const torch::Tensor before = net.parameters()[2].detach().clone();
  optimizer->step();
  EXPECT_TRUE(torch::equal(net.parameters()[2], before));
  EXPECT_EQ(optimizer->state().size(), 0);
}

// A convolution of 1x1 and a depthwise one: their weights' strides are not
// those of their gradients, though they lie in memory alike.
TEST_P(FusedOptimizerTest, StepsConvolutionsOfOneElementInOneOperation) {
  const auto train = [](const std::function<Optimizer(Groups)>& make) {
    torch::manual_seed(6);
    torch::nn::Sequential net(
        torch::nn::Conv2d(torch::nn::Conv2dOptions(16, 32, 1)),
        torch::nn::Conv2d(
            torch::nn::Conv2dOptions(32, 32, 3).padding(1).groups(32)));
    StoreWeights(*net, /*channels_last=*/true);
    const Optimizer optimizer =
        make({optim::OptimizerParamGroup(net->parameters())});
    const torch::Tensor images =
        torch::randn({2, 16, 8, 8})
            .contiguous(torch::MemoryFormat::ChannelsLast);
    for (int step = 0; step < 5; ++step) {
      optimizer->zero_grad();
      net->forward(images).square().mean().backward();
      optimizer->step();
    }
    auto* flat = dynamic_cast<FusedOptimizer*>(optimizer.get());
    if (flat != nullptr) {
      EXPECT_EQ(flat->capturable_state().host_steps(), 0);
    }
    return net->parameters();
  };
  const auto theirs = train(GetParam().theirs);
  const auto ours = train(GetParam().ours);
  for (std::size_t i = 0; i < theirs.size(); ++i) {
    EXPECT_TRUE(torch::allclose(ours[i], theirs[i], 1e-5, 1e-7)) << i;
  }
}

CapturableState& OnDevice(const Optimizer& optimizer) {
  auto& flat = dynamic_cast<FusedOptimizer&>(*optimizer);
  flat.capturable_state().Enable(torch::kCPU);
  return flat.capturable_state();
}

TEST_P(FusedOptimizerTest, StepsBitIdenticallyWithRatesAndCountsOnTheDevice) {
  SeveralTensors host;
  const Optimizer host_optimizer = GetParam().ours(host.groups());
  Train(host, *host_optimizer, 0, 40);
  SeveralTensors device;
  const Optimizer device_optimizer = GetParam().ours(device.groups());
  Train(device, *device_optimizer, 0, 10);
  OnDevice(device_optimizer);
  Train(device, *device_optimizer, 10, 40);
  ExpectNear(device, host, 0);
  const auto facts = [](const SeveralTensors& net, const Optimizer& optimizer) {
    const std::shared_ptr<torch::nn::Module> module(
        const_cast<SeveralTensors*>(&net), [](auto*) {});
    return SaveOptimizer({.name = "o", .optimizer = optimizer},
                         NameParameters({{"model", module}}))
        .facts;
  };
  EXPECT_EQ(facts(device, device_optimizer), facts(host, host_optimizer));
}

TEST_P(FusedOptimizerTest, SkipsAStepOnRequestOfTheDevice) {
  SeveralTensors whole;
  Train(whole, *GetParam().ours(whole.groups()), 0, 20);
  SeveralTensors net;
  const Optimizer optimizer = GetParam().ours(net.groups());
  CapturableState& device = OnDevice(optimizer);
  const torch::Tensor found_inf = torch::zeros({1});
  device.SetFoundInf(found_inf);
  Train(net, *optimizer, 0, 10);
  found_inf.fill_(1);
  Train(net, *optimizer, 50, 53);  // none of these is taken
  found_inf.fill_(0);
  Train(net, *optimizer, 10, 20);
  ExpectNear(net, whole, 0);
}

TEST_P(FusedOptimizerTest, SkipsStepsOfTheBaseClassToo) {
  SeveralTensors net(torch::kBFloat16);
  const Optimizer optimizer = GetParam().ours(net.groups());
  OnDevice(optimizer).SetFoundInf(torch::ones({1}));
  const torch::Tensor before = net.parameters()[2].detach().clone();
  Train(net, *optimizer, 0, 1);
  EXPECT_TRUE(torch::equal(net.parameters()[2], before));
}

INSTANTIATE_TEST_SUITE_P(
    Options, FusedOptimizerTest,
    testing::Values(
        Sgd("Sgd", optim::SGDOptions(0.01)),
        Sgd("SgdDecay", optim::SGDOptions(0.01).weight_decay(0.1)),
        Sgd("SgdMomentum", optim::SGDOptions(0.01).momentum(0.9)),
        Sgd("SgdDampening",
            optim::SGDOptions(0.01).momentum(0.9).dampening(0.5).weight_decay(
                0.1)),
        Sgd("SgdNesterov",
            optim::SGDOptions(0.01).momentum(0.9).nesterov(true).weight_decay(
                0.1)),
        Adam("Adam", optim::AdamOptions(0.01)),
        Adam("AdamDecay",
             optim::AdamOptions(0.01).weight_decay(0.1).betas({0.8, 0.99})),
        Adam("AdamAmsgrad", optim::AdamOptions(0.01).amsgrad(true)),
        AdamW("AdamW", optim::AdamWOptions(0.01).weight_decay(0.1)),
        AdamW("AdamWAmsgrad",
              optim::AdamWOptions(0.01).weight_decay(0.1).amsgrad(true))),
    [](const auto& info) { return info.param.name; });

}  // namespace

}  // namespace dtrain
