// dtrain's kernels in models, beside LibTorch's operators.

#include <array>
#include <cstdlib>
#include <iostream>

#include <ATen/autocast_mode.h>
#include <gmock/gmock.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>

#include "engine/kernels/conv_cuda.h"
#include "engine/kernels/cross_entropy.h"
#include "engine/train/device.h"
#include "engine/train/torch_modules.h"
#include "models/building_blocks.h"
#include "models/ops/conv_relu_pool.h"
#include "models/ops/conv_relu_pool_cuda.h"
#include "models/ops/softmax_cross_entropy.h"
#include "tests/gpu/gpu.h"

namespace dtrain {
namespace {

TEST(GpuCrossEntropyTest, HasKernels) {
  EXPECT_NE(FindCrossEntropyKernels(), nullptr);
}

class GpuCrossEntropyKernelTest
    : public testing::TestWithParam<std::array<std::int64_t, 2>> {
 protected:
  GpuCrossEntropyKernelTest() {
    torch::manual_seed(5);
    target_[0] = -100;  // a row that does not count
  }

  const torch::Tensor logits_ =
      torch::randn({GetParam()[0], GetParam()[1]}).mul_(4);
  const torch::Tensor target_ =
      torch::randint(0, GetParam()[1], {GetParam()[0]}, torch::kInt64);
};

TEST_P(GpuCrossEntropyKernelTest, AgreesWithLibTorchOnTheCpu) {
  const auto x = logits_.to(kGpu).requires_grad_();
  const auto [loss, accuracy] = CrossEntropyAndAccuracy(x, target_.to(kGpu));
  EXPECT_EQ(loss.grad_fn()->name().find("Nll"), std::string::npos);
  const auto gradient = torch::autograd::grad({loss * 3}, {x})[0];
  const auto expected_x = logits_.to(torch::kDouble).requires_grad_();
  const auto expected =
      torch::nn::functional::cross_entropy(expected_x, target_);
  const auto expected_gradient =
      torch::autograd::grad({expected * 3}, {expected_x})[0];
  EXPECT_NEAR(loss.item<double>(), expected.item<double>(), 1e-5);
  EXPECT_NEAR(accuracy.item<double>(),
              Accuracy(logits_, target_).item<double>(), 1e-6);
  EXPECT_TRUE(torch::allclose(gradient.cpu().to(torch::kDouble),
                              expected_gradient, 1e-5, 1e-6));
}

INSTANTIATE_TEST_SUITE_P(Shapes, GpuCrossEntropyKernelTest,
                         testing::Values(std::array<std::int64_t, 2>{64, 10},
                                         std::array<std::int64_t, 2>{1000, 10},
                                         std::array<std::int64_t, 2>{257, 3},
                                         std::array<std::int64_t, 2>{33, 129},
                                         std::array<std::int64_t, 2>{32, 1000},
                                         std::array<std::int64_t, 2>{3, 5000}));

TEST(GpuCrossEntropyTest, LossInAutocastIsInFloat32) {
  torch::manual_seed(5);
  const auto logits =
      torch::randn({64, 10}, kGpu).to(torch::kBFloat16).requires_grad_();
  const auto target = torch::randint(
      0, 10, {64}, torch::TensorOptions(kGpu).dtype(torch::kInt64));
  at::autocast::set_autocast_enabled(at::kCUDA, true);
  const auto loss = CrossEntropy(logits, target);
  const auto expected = torch::nn::functional::cross_entropy(logits, target);
  at::autocast::set_autocast_enabled(at::kCUDA, false);
  EXPECT_EQ(loss.scalar_type(), torch::kFloat);
  EXPECT_NEAR(loss.item<double>(), expected.item<double>(), 1e-5);
}

// Trains on a label that is not a class.
[[noreturn]] void ComputeLossOfABadLabel() {
  try {
    const auto loss = CrossEntropy(torch::zeros({2, 10}, kGpu),
                                   torch::tensor({3, 10}).to(kGpu));
    loss.item<float>();
  } catch (const c10::Error& error) {
    std::cerr << TorchMessage(error) << std::endl;
    std::_Exit(3);
  }
  std::_Exit(0);
}

TEST(GpuCrossEntropyDeathTest, ALabelThatIsNotAClassIsAnAssertion) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(ComputeLossOfABadLabel(), testing::ExitedWithCode(3),
              "device-side assert triggered");
}

struct ConvCase {
  ConvReluPoolOptions options;
  std::int64_t side = 1;
  std::int64_t images = 1;
};

class GpuConvReluPoolTest : public testing::TestWithParam<ConvCase> {
 protected:
  GpuConvReluPoolTest() {
    torch::manual_seed(6);
    layer_ = std::make_shared<ConvReluPool>(GetParam().options);
    layer_->to(kGpu);
    const ConvCase& given = GetParam();
    images_ = torch::randn(
        {given.images, given.options.in, given.side, given.side}, kGpu);
  }

  // The output, then the gradients by the images and parameters.
  template <typename Forward>
  std::vector<torch::Tensor> Results(Forward forward) const {
    std::vector<torch::Tensor> inputs = {images_.clone().requires_grad_()};
    for (const torch::Tensor& one : layer_->parameters()) inputs.push_back(one);
    const torch::Tensor output = forward(inputs[0]);
    const torch::Tensor weights =
        torch::sin(torch::arange(output.numel(), kGpu)).view_as(output);
    auto results = torch::autograd::grad({(output * weights).sum()}, inputs);
    results.push_back(output.detach());
    return results;
  }

  torch::Tensor ByKernels(const torch::Tensor& images) const {
    const auto parameters = layer_->named_parameters();
    return ConvReluPoolByCuda(
        images, parameters["weight"],
        GetParam().options.bias ? parameters["bias"] : torch::Tensor(),
        GetParam().options.padding, *FindConvCudaKernels());
  }

  std::shared_ptr<ConvReluPool> layer_;
  torch::Tensor images_;
};

TEST_P(GpuConvReluPoolTest, KernelsAgreeWithLibTorch) {
  ASSERT_NE(FindConvCudaKernels(), nullptr);
  const auto ours = Results([&](const auto& x) { return ByKernels(x); });
  const auto theirs =
      Results([&](const auto& x) { return layer_->forward(x); });
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const double largest = theirs[i].abs().max().item<double>();
    EXPECT_LE((ours[i] - theirs[i]).abs().max().item<double>(), 1e-4 * largest)
        << "result " << i;
  }
  const auto again = Results([&](const auto& x) { return ByKernels(x); });
  for (std::size_t i = 0; i < ours.size(); ++i) {
    EXPECT_TRUE(torch::equal(ours[i], again[i])) << "result " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, GpuConvReluPoolTest,
    testing::Values(
        ConvCase{{.in = 1, .out = 6, .kernel = 5, .padding = 2}, 28, 64},
        ConvCase{{.in = 6, .out = 16, .kernel = 5}, 14, 64},
        ConvCase{{.in = 1, .out = 6, .kernel = 5, .bias = false}, 32, 33},
        ConvCase{{.in = 3, .out = 6, .kernel = 5}, 32, 37},
        ConvCase{{.in = 2, .out = 3, .kernel = 3, .padding = 1}, 9, 19},
        ConvCase{{.in = 4, .out = 5, .kernel = 1}, 2, 1}));

}  // namespace
}  // namespace dtrain
