#include "models/nets/lenet.h"

namespace dtrain {

namespace nn = torch::nn;

LeNet::LeNet(std::int64_t classes, bool own_kernels)
    // Padding makes the 32×32 of the paper out of 28×28.
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
  x = torch::relu(fc1_(x.flatten(/*start_dim=*/1)));
  x = torch::relu(fc2_(x));
  return fc3_(x);
}

}  // namespace dtrain
