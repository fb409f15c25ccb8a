#include "models/ops/linear_relu.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "tests/support/recorded_graph.h"

namespace dtrain {
namespace {

struct LayerResults {
  torch::Tensor output;
  std::vector<torch::Tensor> gradients;  // of x, weight and bias
};

class LinearReluTest : public testing::TestWithParam<torch::ScalarType> {
 protected:
  LinearReluTest() {
    torch::manual_seed(3);
    x_ = torch::randn({13, 7}).to(GetParam()).requires_grad_();
    linear_->to(GetParam());
  }

  template <typename Layer>
  LayerResults Evaluate(Layer layer) const {
    const torch::Tensor output = layer();
    const std::vector<torch::Tensor> gradients = torch::autograd::grad(
        {output.pow(2).sum()}, {x_, linear_->weight, linear_->bias});
    return {.output = output.detach(), .gradients = gradients};
  }

  void ExpectTheSame(const LayerResults& one, const LayerResults& other) const {
    EXPECT_TRUE(torch::equal(one.output, other.output));
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_TRUE(torch::equal(one.gradients[i], other.gradients[i])) << i;
    }
  }

  LayerResults Plain() {
    return Evaluate([&] { return torch::relu(linear_(x_)); });
  }

  torch::Tensor x_;
  torch::nn::Linear linear_{7, 5};
};

TEST_P(LinearReluTest, FusedOneEqualsLibTorchToTheBit) {
  ExpectTheSame(Evaluate([&] {
                  return FusedLinearRelu(x_, linear_->weight, linear_->bias);
                }),
                Plain());
}

TEST_P(LinearReluTest, OnCpusItIsLibTorchs) {
  ExpectTheSame(Evaluate([&] { return LinearRelu(linear_, x_); }), Plain());
}

INSTANTIATE_TEST_SUITE_P(Types, LinearReluTest,
                         testing::Values(torch::kFloat, torch::kDouble));

TEST(FusedLinearReluTest, HasSecondDerivatives) {
  torch::manual_seed(3);
  const auto x = torch::randn({3, 4}, torch::kDouble).requires_grad_();
  torch::nn::Linear linear(4, 2);
  linear->to(torch::kDouble);
  const auto second = [&](const torch::Tensor& output) {
    const auto first = torch::autograd::grad(
        {output.pow(3).sum()}, {x}, /*grad_outputs=*/{},
        /*retain_graph=*/std::nullopt, /*create_graph=*/true);
    return torch::autograd::grad({first[0].pow(2).sum()}, {linear->weight})[0];
  };
  EXPECT_TRUE(
      torch::allclose(second(FusedLinearRelu(x, linear->weight, linear->bias)),
                      second(torch::relu(linear(x)))));
}

TEST(FusedLinearReluTest, IsOneOperationForwardAndFourBackward) {
  const auto x = torch::randn({3, 4}).requires_grad_();
  torch::nn::Linear linear(4, 2);
  const auto ones = torch::ones({3, 2});
  RecordedGraph graph;
  graph.Capture([&] {
    torch::autograd::grad({FusedLinearRelu(x, linear->weight, linear->bias)},
                          {x, linear->weight, linear->bias}, {ones});
  });
  EXPECT_EQ(graph.launches(),
            (std::vector<std::string>{"aten::_addmm_activation",
                                      "aten::threshold_backward", "aten::mm",
                                      "aten::mm", "aten::sum"}));
}

}  // namespace
}  // namespace dtrain
