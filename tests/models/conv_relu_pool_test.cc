#include "models/ops/conv_relu_pool.h"

#include <memory>
#include <string>
#include <vector>

#include <ATen/autocast_mode.h>
#include <c10/core/InferenceMode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>

#include "engine/base/error.h"
#include "models/ops/conv_relu_pool_cuda.h"
#include "tests/engine/kernels/conv_on_host.h"
#include "tests/support/recorded_graph.h"

namespace dtrain {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// The layer and what it is compared with: one of the same weights that
// LibTorch's operators work out.
struct Pair {
  explicit Pair(ConvReluPoolOptions options) {
    torch::manual_seed(5);
    own = std::make_shared<ConvReluPool>(options);
    options.own_kernels = false;
    torch::manual_seed(5);
    plain = std::make_shared<ConvReluPool>(options);
  }

  std::shared_ptr<ConvReluPool> own;
  std::shared_ptr<ConvReluPool> plain;
};

// The output that `forward` computes of `images`, then the gradients by them
// and by the parameters of a loss that weighs each value of the output
// differently.
template <typename Forward>
std::vector<torch::Tensor> Results(ConvReluPool& layer,
                                   const torch::Tensor& images,
                                   Forward forward) {
  for (torch::Tensor& parameter : layer.parameters()) {
    parameter.mutable_grad().reset();
  }
  const torch::Tensor x = images.clone().requires_grad_();
  const torch::Tensor y = forward(x);
  const torch::Tensor weights =
      torch::sin(torch::arange(y.numel(), torch::kFloat)).view_as(y);
  (y * weights.to(y.scalar_type())).sum().backward();
  std::vector<torch::Tensor> results = {y.detach(), x.grad()};
  for (const torch::Tensor& parameter : layer.parameters()) {
    results.push_back(parameter.grad());
  }
  return results;
}

std::vector<torch::Tensor> Results(ConvReluPool& layer,
                                   const torch::Tensor& images) {
  return Results(layer, images,
                 [&](const torch::Tensor& x) { return layer.forward(x); });
}

torch::Tensor ForwardByCuda(const ConvReluPool& layer,
                            const torch::Tensor& images,
                            std::int64_t padding = 0,
                            const ConvCudaKernels& kernels = kHostConvKernels) {
  const auto parameters = layer.named_parameters();
  const torch::Tensor* bias = parameters.find("bias");
  return ConvReluPoolByCuda(images, parameters["weight"],
                            bias != nullptr ? *bias : torch::Tensor(), padding,
                            kernels);
}

// Relative to the largest value of each tensor.
void ExpectNear(const std::vector<torch::Tensor>& ours,
                const std::vector<torch::Tensor>& theirs, double tolerance) {
  ASSERT_EQ(ours.size(), theirs.size());
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const torch::Tensor expected = theirs[i].to(torch::kDouble);
    ASSERT_EQ(ours[i].sizes(), expected.sizes());
    const double largest = expected.abs().max().item<double>();
    ASSERT_GT(largest, 0);
    EXPECT_LE((ours[i] - expected).abs().max().item<double>() / largest,
              tolerance)
        << "result " << i;
  }
}

struct Case {
  const char* name;
  ConvReluPoolOptions options;
  std::int64_t side;
  std::int64_t images;
};

class ConvReluPoolShapeTest : public testing::TestWithParam<Case> {
 protected:
  torch::Tensor Images() const {
    torch::manual_seed(6);
    const Case& given = GetParam();
    return torch::randn(
        {given.images, given.options.in, given.side, given.side});
  }
};

TEST_P(ConvReluPoolShapeTest, AgreesWithLibTorchOnOneThread) {
  torch::set_num_threads(1);
  const Pair pair(GetParam().options);
  ExpectNear(Results(*pair.own, Images()), Results(*pair.plain, Images()),
             1e-5);
}

TEST_P(ConvReluPoolShapeTest, AgreesWithLibTorchOnTwoThreads) {
  torch::set_num_threads(2);
  const Pair pair(GetParam().options);
  const auto ours = Results(*pair.own, Images());
  ExpectNear(ours, Results(*pair.plain, Images()), 1e-5);
  // Bit-identical to the first time.
  const auto again = Results(*pair.own, Images());
  for (std::size_t i = 0; i < ours.size(); ++i) {
    EXPECT_TRUE(torch::equal(ours[i], again[i])) << "result " << i;
  }
}

TEST_P(ConvReluPoolShapeTest, AgreesWithLibTorchInDouble) {
  torch::set_num_threads(2);
  const Pair pair(GetParam().options);
  const auto ours = Results(*pair.own, Images());
  pair.plain->to(torch::kDouble);
  ExpectNear(ours, Results(*pair.plain, Images().to(torch::kDouble)), 1e-5);
}

TEST_P(ConvReluPoolShapeTest, CudaKernelsAgreeWithLibTorchInDouble) {
  const Pair pair(GetParam().options);
  const std::int64_t padding = GetParam().options.padding;
  const auto ours = Results(*pair.own, Images(), [&](const torch::Tensor& x) {
    return ForwardByCuda(*pair.own, x, padding);
  });
  pair.plain->to(torch::kDouble);
  ExpectNear(ours, Results(*pair.plain, Images().to(torch::kDouble)), 1e-5);
}

TEST_P(ConvReluPoolShapeTest, CudaKernelsDoNotDependOnTheOrderOfThreads) {
  const Pair pair(GetParam().options);
  const std::int64_t padding = GetParam().options.padding;
  const auto run = [&](const ConvCudaKernels& kernels) {
    return Results(*pair.own, Images(), [&](const torch::Tensor& x) {
      return ForwardByCuda(*pair.own, x, padding, kernels);
    });
  };
  const auto forth = run(kHostConvKernels);
  const auto back = run(kReversedConvKernels);
  for (std::size_t i = 0; i < forth.size(); ++i) {
    EXPECT_TRUE(torch::equal(forth[i], back[i])) << "result " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, ConvReluPoolShapeTest,
    testing::Values(Case{"LeNet1", {1, 6, 5, 2}, 28, 32},
                    Case{"LeNet1WithoutBias", {1, 6, 5, 0, false}, 32, 33},
                    Case{"LeNet2", {6, 16, 5}, 14, 32},
                    Case{"LeNet2WithoutBias", {6, 16, 5, 0, false}, 14, 17},
                    Case{"Cifar1", {3, 6, 5}, 32, 37},
                    Case{"Cifar2", {6, 16, 5}, 14, 37},
                    Case{"OneImage", {3, 6, 5}, 32, 1},
                    Case{"OddSide", {2, 3, 3, 1}, 9, 19},
                    Case{"WindowOfOne", {4, 5, 1}, 2, 9}),
    [](const auto& info) { return info.param.name; });

class ConvReluPoolTest : public testing::Test {
 protected:
  ConvReluPoolTest() { torch::set_num_threads(2); }

  const Pair pair_{{.in = 2, .out = 3, .kernel = 3}};
  const torch::Tensor images_ = torch::randn({9, 2, 8, 8});
};

// Name of the backward function that made the result.
std::string Origin(const torch::Tensor& result) {
  return result.grad_fn() ? result.grad_fn()->name() : "";
}

TEST_F(ConvReluPoolTest, RefusesAnEmptyOutput) {
  EXPECT_THAT(
      [this] {
        pair_.own->forward(torch::zeros({1, 2, 3, 3}));
      },
      ThrowsMessage<Error>(HasSubstr("nothing is left of an image of "
                                     "3x3 with kernel 3")));
}

TEST_F(ConvReluPoolTest, LibTorchRefusesOtherChannels) {
  EXPECT_THROW(pair_.own->forward(torch::zeros({1, 4, 8, 8})), c10::Error);
  EXPECT_THROW(ConvReluPool({.in = 0}), c10::Error);
}

TEST_F(ConvReluPoolTest, UsesItsKernelsIfSupported) {
  EXPECT_THAT(Origin(pair_.own->forward(images_)), HasSubstr("Operation"));
  EXPECT_THAT(Origin(pair_.plain->forward(images_)), HasSubstr("MaxPool"));
}

TEST_F(ConvReluPoolTest, UsesLibTorchOtherwise) {
  const torch::Tensor channels_last =
      images_.contiguous(torch::MemoryFormat::ChannelsLast);
  EXPECT_THAT(Origin(pair_.own->forward(channels_last)), HasSubstr("MaxPool"));
  EXPECT_TRUE(torch::allclose(pair_.own->forward(channels_last),
                              pair_.own->forward(images_), 1e-5, 1e-6));
  // One image without a dimension for the batch.
  EXPECT_EQ(pair_.own->forward(images_[0]).sizes(),
            torch::IntArrayRef({3, 3, 3}));
  pair_.own->to(torch::kDouble);
  const torch::Tensor doubles = pair_.own->forward(images_.to(torch::kDouble));
  EXPECT_EQ(doubles.scalar_type(), torch::kDouble);
  EXPECT_THAT(Origin(doubles), HasSubstr("MaxPool"));
}

TEST_F(ConvReluPoolTest, LeavesAutocastToLibTorch) {
  at::autocast::set_autocast_dtype(at::kCPU, torch::kBFloat16);
  at::autocast::set_autocast_enabled(at::kCPU, true);
  const torch::Tensor halves = pair_.own->forward(images_);
  at::autocast::set_autocast_enabled(at::kCPU, false);
  at::autocast::clear_cache();
  EXPECT_EQ(halves.scalar_type(), torch::kBFloat16);
}

TEST_F(ConvReluPoolTest, TakesAnEmptyBatch) {
  const torch::Tensor x = torch::zeros({0, 2, 8, 8}, torch::requires_grad());
  const torch::Tensor y = pair_.own->forward(x);
  EXPECT_EQ(y.sizes(), torch::IntArrayRef({0, 3, 3, 3}));
  y.sum().backward();
  EXPECT_EQ(x.grad().sizes(), x.sizes());
  for (const torch::Tensor& parameter : pair_.own->parameters()) {
    EXPECT_TRUE(parameter.grad().eq(0).all().item<bool>());
  }
}

TEST_F(ConvReluPoolTest, GivesTheSameWithoutGradients) {
  const torch::Tensor learning = pair_.own->forward(images_);
  pair_.own->eval();
  {
    const torch::NoGradGuard guard;
    const torch::Tensor y = pair_.own->forward(images_);
    EXPECT_FALSE(y.requires_grad());
    EXPECT_TRUE(torch::equal(y, learning));
  }
  const c10::InferenceMode inference;
  EXPECT_TRUE(torch::equal(pair_.own->forward(images_), learning));
}

TEST_F(ConvReluPoolTest, ComputesOnlyRequiredGradients) {
  const auto parameters = pair_.own->named_parameters();
  parameters["weight"].set_requires_grad(false);
  pair_.own->forward(images_).sum().backward();
  pair_.plain->forward(images_).sum().backward();
  EXPECT_FALSE(parameters["weight"].grad().defined());
  ExpectNear({parameters["bias"].grad()},
             {pair_.plain->named_parameters()["bias"].grad()}, 1e-5);
}

TEST_F(ConvReluPoolTest, SupportsASecondBackward) {
  const torch::Tensor loss = pair_.own->forward(images_).square().sum();
  loss.backward({}, /*retain_graph=*/true);
  const torch::Tensor once = pair_.own->parameters()[0].grad().clone();
  loss.backward();
  EXPECT_TRUE(torch::equal(pair_.own->parameters()[0].grad(), once * 2));
}

// The gradient of the squared norm of a gradient, as a penalty has it.
template <typename Forward>
std::vector<torch::Tensor> SecondGradients(const ConvReluPool& layer,
                                           const torch::Tensor& images,
                                           Forward forward) {
  const torch::Tensor x = images.clone().requires_grad_();
  const torch::Tensor loss = forward(x).pow(3).sum();
  const auto first = torch::autograd::grad({loss}, {x}, {},
                                           /*retain_graph=*/true,
                                           /*create_graph=*/true);
  const std::vector<torch::Tensor> parameters = layer.parameters();
  return torch::autograd::grad({first[0].square().sum()},
                               {x, parameters[0], parameters[1]});
}

TEST_F(ConvReluPoolTest, HasGradientsOfGradients) {
  const auto expected = SecondGradients(
      *pair_.plain, images_,
      [&](const torch::Tensor& x) { return pair_.plain->forward(x); });
  ExpectNear(SecondGradients(
                 *pair_.own, images_,
                 [&](const torch::Tensor& x) { return pair_.own->forward(x); }),
             expected, 1e-5);
  ExpectNear(SecondGradients(*pair_.own, images_,
                             [&](const torch::Tensor& x) {
                               return ForwardByCuda(*pair_.own, x);
                             }),
             expected, 1e-5);
}

// On a GPU, a layer is two launches forth and back, or three: no operation of
// LibTorch is among them.
TEST_F(ConvReluPoolTest, CudaKernelsLaunchNoOperationOfLibTorch) {
  const torch::Tensor gradient = torch::ones({9, 3, 3, 3});
  RecordedGraph graph;
  graph.Capture([&] {
    torch::autograd::grad({ForwardByCuda(*pair_.own, images_)},
                          pair_.own->parameters(), {gradient});
  });
  EXPECT_THAT(graph.launches(), testing::IsEmpty());
}

TEST_F(ConvReluPoolTest, CudaKernelsTakeAnEmptyBatch) {
  const torch::Tensor x = torch::zeros({0, 2, 8, 8}, torch::requires_grad());
  const torch::Tensor y = ForwardByCuda(*pair_.own, x);
  EXPECT_EQ(y.sizes(), torch::IntArrayRef({0, 3, 3, 3}));
  y.sum().backward();
  for (const torch::Tensor& parameter : pair_.own->parameters()) {
    EXPECT_TRUE(parameter.grad().eq(0).all().item<bool>());
  }
}

TEST_F(ConvReluPoolTest, CudaKernelsComputeOnlyRequiredGradients) {
  const auto parameters = pair_.own->named_parameters();
  parameters["bias"].set_requires_grad(false);
  ForwardByCuda(*pair_.own, images_).sum().backward();
  pair_.plain->forward(images_).sum().backward();
  EXPECT_FALSE(parameters["bias"].grad().defined());
  ExpectNear({parameters["weight"].grad()},
             {pair_.plain->named_parameters()["weight"].grad()}, 1e-5);
}

TEST_F(ConvReluPoolTest, CudaKernelsGiveTheSameWithoutGradients) {
  const torch::Tensor learning = ForwardByCuda(*pair_.own, images_);
  const torch::NoGradGuard guard;
  const torch::Tensor y = ForwardByCuda(*pair_.own, images_);
  EXPECT_FALSE(y.requires_grad());
  EXPECT_TRUE(torch::equal(y, learning));
}

TEST_F(ConvReluPoolTest, CudaKernelsRefuseAnEmptyOutput) {
  EXPECT_THAT(
      [this] {
        ForwardByCuda(*pair_.own, torch::zeros({1, 2, 3, 3}));
      },
      ThrowsMessage<Error>(HasSubstr("nothing is left of an image")));
}

// Weights moved by a step change the loss as their gradient says.
TEST_F(ConvReluPoolTest, AgreesWithFiniteDifferences) {
  const torch::Tensor weight = pair_.own->parameters()[0];
  const auto loss = [&] {
    return pair_.own->forward(images_).to(torch::kDouble).square().mean();
  };
  loss().backward();
  const torch::NoGradGuard guard;
  constexpr double kStep = 1e-3;
  const torch::Tensor direction = weight.grad() / weight.grad().norm();
  const double rate = weight.grad().norm().item<double>();
  weight.add_(direction, kStep);
  const double above = loss().item<double>();
  weight.sub_(direction, 2 * kStep);
  EXPECT_NEAR((above - loss().item<double>()) / (2 * kStep) / rate, 1, 1e-2);
}

TEST(ConvReluPoolNamesTest, MatchConv2d) {
  torch::manual_seed(5);
  const torch::nn::Conv2d convolution(2, 3, 3);
  const Pair pair({.in = 2, .out = 3, .kernel = 3});
  const auto theirs = convolution->named_parameters();
  EXPECT_THAT(pair.own->named_parameters().keys(),
              ElementsAre("weight", "bias"));
  for (const auto& entry : pair.own->named_parameters()) {
    EXPECT_TRUE(torch::equal(entry.value(), theirs[entry.key()]));
  }
}

}  // namespace
}  // namespace dtrain
