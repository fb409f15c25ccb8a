#include "models/nets/conv_nets.h"

#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/optim.h>

namespace dtrain {

namespace {

using ::testing::ElementsAre;

template <typename Net>
std::vector<std::string> ListNames() {
  return Net(10).named_parameters().keys();
}

TEST(ConvReluPoolNetsTest, HaveTheNamesOfEarlierCheckpoints) {
  EXPECT_THAT(ListNames<LeNet>(),
              ElementsAre("conv1.weight", "conv1.bias", "conv2.weight",
                          "conv2.bias", "fc1.weight", "fc1.bias", "fc2.weight",
                          "fc2.bias", "fc3.weight", "fc3.bias"));
  EXPECT_EQ(ListNames<CifarCnn>(), ListNames<LeNet>());
  EXPECT_THAT(
      ListNames<LeNet5>(),
      ElementsAre("conv1.weight", "conv2.weight", "fc1.weight", "fc1.bias",
                  "fc2.weight", "fc2.bias", "fc3.weight", "fc3.bias"));
}

// The losses of a hundred steps of SGD on one batch after another of eight.
template <typename Net>
std::vector<double> Losses(bool own_kernels, torch::IntArrayRef shape) {
  torch::manual_seed(8);
  const auto net = std::make_shared<Net>(10, own_kernels);
  const torch::Tensor images = torch::rand(shape);
  const torch::Tensor target = torch::randint(10, {shape[0], shape[1]});
  torch::optim::SGD optimizer(net->parameters(),
                              torch::optim::SGDOptions(0.01).momentum(0.9));
  std::vector<double> losses;
  for (int step = 0; step < 100; ++step) {
    optimizer.zero_grad();
    const torch::Tensor loss = torch::nn::functional::cross_entropy(
        net->forward(images[step % shape[0]]), target[step % shape[0]]);
    loss.backward();
    optimizer.step();
    losses.push_back(loss.item<double>());
  }
  return losses;
}

TEST(ConvReluPoolNetsTest, LearnAsLibTorchForAHundredSteps) {
  torch::set_num_threads(2);
  const auto lenet = [](bool own) {
    return Losses<LeNet>(own, {8, 32, 1, 28, 28});
  };
  EXPECT_THAT(lenet(true),
              testing::Pointwise(testing::DoubleNear(1e-4), lenet(false)));
  const auto cifar = [](bool own) {
    return Losses<CifarCnn>(own, {8, 32, 3, 32, 32});
  };
  EXPECT_THAT(cifar(true),
              testing::Pointwise(testing::DoubleNear(1e-4), cifar(false)));
}

}  // namespace

}  // namespace dtrain
