#include "engine/train/backward_update.h"

#include <functional>
#include <vector>

#include <gtest/gtest.h>
#include <torch/optim.h>

#include "engine/train/flat_optimizers.h"
#include "engine/train/torch_modules.h"

namespace dtrain {
namespace {

using MakeOptimizer = std::function<std::unique_ptr<torch::optim::Optimizer>(
    std::vector<torch::Tensor>)>;

torch::nn::Sequential Net() {
  torch::manual_seed(3);
  return torch::nn::Sequential(torch::nn::Linear(4, 8), torch::nn::ReLU(),
                               torch::nn::Linear(8, 8), torch::nn::ReLU(),
                               torch::nn::Linear(8, 1));
}

torch::Tensor Loss(torch::nn::Sequential& net, int step) {
  const torch::Tensor x =
      torch::sin(torch::arange(12, torch::kFloat) + step).view({3, 4});
  return net->forward(x).square().mean();
}

// The weights after five steps, of a step behind each backward pass.
std::vector<torch::Tensor> TrainPlain(const MakeOptimizer& make) {
  auto net = Net();
  const auto optimizer = make(net->parameters());
  for (int step = 0; step < 5; ++step) {
    optimizer->zero_grad();
    Loss(net, step).backward();
    optimizer->step();
  }
  return net->parameters();
}

void ExpectSame(const MakeOptimizer& make) {
  const auto plain = TrainPlain(make);
  auto net = Net();
  const auto optimizer = make(net->parameters());
  const BackwardUpdate update(*optimizer);
  for (int step = 0; step < 5; ++step) {
    Loss(net, step).backward();
    for (const torch::Tensor& parameter : net->parameters()) {
      EXPECT_FALSE(parameter.grad().defined());
    }
  }
  const auto weights = net->parameters();
  for (std::size_t i = 0; i < plain.size(); ++i) {
    EXPECT_TRUE(torch::equal(weights[i], plain[i])) << "parameter " << i;
  }
}

TEST(BackwardUpdateTest, ComesToTheSameWithSgd) {
  ExpectSame([](auto parameters) {
    return std::make_unique<torch::optim::SGD>(
        parameters,
        torch::optim::SGDOptions(0.1).momentum(0.9).weight_decay(1e-2));
  });
}

TEST(BackwardUpdateTest, ComesToTheSameWithAdam) {
  ExpectSame([](auto parameters) {
    return std::make_unique<torch::optim::AdamW>(
        parameters, torch::optim::AdamWOptions(0.01));
  });
}

TEST(BackwardUpdateTest, ComesToTheSameWithFlatOptimizers) {
  ExpectSame([](auto parameters) {
    return std::make_unique<FlatSgd>(
        parameters,
        torch::optim::SGDOptions(0.1).momentum(0.9).weight_decay(1e-2));
  });
  ExpectSame([](auto parameters) {
    return std::make_unique<FlatAdamW>(parameters,
                                       torch::optim::AdamWOptions(0.01));
  });
}

TEST(BackwardUpdateTest, HoldsOneGradientAtATime) {
  auto net = Net();
  torch::optim::SGD optimizer(net->parameters(), 0.1);
  const BackwardUpdate update(optimizer);
  Loss(net, 0).backward();
  // The largest of them is 8×8 floats.
  EXPECT_EQ(update.peak_bytes(), 8 * 8 * sizeof(float));
}

TEST(BackwardUpdateTest, EndsWithItsHooks) {
  auto net = Net();
  torch::optim::SGD optimizer(net->parameters(), 0.1);
  { const BackwardUpdate update(optimizer); }
  Loss(net, 0).backward();
  EXPECT_TRUE(net->parameters()[0].grad().defined());
}

TEST(BackwardUpdateTest, LeavesFrozenParametersAlone) {
  auto net = Net();
  net->parameters()[0].set_requires_grad(false);
  torch::optim::SGD optimizer(net->parameters(), 0.1);
  const torch::Tensor before = net->parameters()[0].clone();
  const BackwardUpdate update(optimizer);
  Loss(net, 0).backward();
  EXPECT_TRUE(torch::equal(net->parameters()[0], before));
}

}  // namespace
}  // namespace dtrain
