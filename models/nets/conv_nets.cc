// The small convolutional networks: LeNet (LeCun et al. 1998, with ReLU and max
// pooling), MindSpore's LeNet5 and its custom network, and the CNN of PyTorch's
// CIFAR-10 tutorial. They differ in biases, sizes and initial values, which
// their guides prescribe. Each layer is made and registered in one expression;
// its name is that of the checkpoint.

#include "models/nets/conv_nets.h"

#include <cmath>

#include "models/ops/linear_relu.h"

namespace dtrain {

namespace nn = torch::nn;

LeNet::LeNet(std::int64_t classes, bool own_kernels)
    // Padding turns 28×28 into the 32×32 of the paper.
    : conv1_(register_module(
          "conv1", std::make_shared<ConvReluPool>(
                       ConvReluPoolOptions{.in = 1,
                                           .out = 6,
                                           .kernel = 5,
                                           .padding = 2,
                                           .own_kernels = own_kernels}))),
      conv2_(register_module(
          "conv2",
          std::make_shared<ConvReluPool>(ConvReluPoolOptions{
              .in = 6, .out = 16, .kernel = 5, .own_kernels = own_kernels}))),
      fc1_(register_module("fc1", nn::Linear(16 * 5 * 5, 120))),
      fc2_(register_module("fc2", nn::Linear(120, 84))),
      fc3_(register_module("fc3", nn::Linear(84, classes))) {}

torch::Tensor LeNet::forward(const torch::Tensor& images) {
  torch::Tensor x = conv2_->forward(conv1_->forward(images));
  x = LinearRelu(fc1_, x.flatten(/*start_dim=*/1));
  x = LinearRelu(fc2_, x);
  return fc3_(x);
}

namespace nn = torch::nn;

namespace {

constexpr double kSigma = 0.02;

std::shared_ptr<ConvReluPool> Convolution(std::int64_t in, std::int64_t out,
                                          bool own_kernels) {
  return std::make_shared<ConvReluPool>(
      ConvReluPoolOptions{.in = in,
                          .out = out,
                          .kernel = 5,
                          .bias = false,
                          .own_kernels = own_kernels});
}

}  // namespace

void FillTruncatedNormal(torch::Tensor tensor, double sigma) {
  const torch::NoGradGuard guard;
  // By the inverse of the distribution function, within 2 deviations.
  const double limit = std::erf(2 / std::sqrt(2.0));
  tensor.uniform_(-limit, limit).erfinv_().mul_(sigma * std::sqrt(2.0));
  tensor.clamp_(-2 * sigma, 2 * sigma);
}

LeNet5::LeNet5(std::int64_t classes, bool own_kernels)
    : conv1_(register_module("conv1", Convolution(1, 6, own_kernels))),
      conv2_(register_module("conv2", Convolution(6, 16, own_kernels))),
      fc1_(register_module("fc1", nn::Linear(16 * 5 * 5, 120))),
      fc2_(register_module("fc2", nn::Linear(120, 84))),
      fc3_(register_module("fc3", nn::Linear(84, classes))) {
  for (const torch::Tensor& parameter : parameters()) {
    FillTruncatedNormal(parameter, kSigma);
  }
}

torch::Tensor LeNet5::forward(const torch::Tensor& images) {
  torch::Tensor x = conv2_->forward(conv1_->forward(images));
  x = LinearRelu(fc1_, x.flatten(/*start_dim=*/1));
  x = LinearRelu(fc2_, x);
  return fc3_(x);
}

ReluReduceMeanDense::ReluReduceMeanDense(std::int64_t channels,
                                         std::int64_t classes)
    : dense_(register_module("dense", nn::Linear(channels, classes))) {
  for (torch::Tensor& parameter : parameters()) nn::init::ones_(parameter);
}

torch::Tensor ReluReduceMeanDense::forward(const torch::Tensor& x) {
  return dense_(torch::relu(x).mean({2, 3}));
}

namespace nn = torch::nn;

namespace {

std::shared_ptr<ConvReluPool> ConvolutionOfCifar(std::int64_t in,
                                                 std::int64_t out,
                                                 bool own_kernels) {
  return std::make_shared<ConvReluPool>(ConvReluPoolOptions{
      .in = in, .out = out, .kernel = 5, .own_kernels = own_kernels});
}

}  // namespace

CifarCnn::CifarCnn(std::int64_t classes, bool own_kernels)
    : conv1_(register_module("conv1", ConvolutionOfCifar(3, 6, own_kernels))),
      conv2_(register_module("conv2", ConvolutionOfCifar(6, 16, own_kernels))),
      fc1_(register_module("fc1", nn::Linear(16 * 5 * 5, 120))),
      fc2_(register_module("fc2", nn::Linear(120, 84))),
      fc3_(register_module("fc3", nn::Linear(84, classes))) {}

torch::Tensor CifarCnn::forward(const torch::Tensor& images) {
  torch::Tensor x = conv2_->forward(conv1_->forward(images));
  x = LinearRelu(fc1_, x.flatten(/*start_dim=*/1));
  x = LinearRelu(fc2_, x);
  return fc3_(x);
}

}  // namespace dtrain
