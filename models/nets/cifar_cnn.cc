#include "models/nets/cifar_cnn.h"

namespace dtrain {

namespace nn = torch::nn;

CifarCnn::CifarCnn(std::int64_t classes)
    : conv1_(register_module("conv1", nn::Conv2d(3, 6, /*kernel_size=*/5))),
      conv2_(register_module("conv2", nn::Conv2d(6, 16, /*kernel_size=*/5))),
      fc1_(register_module("fc1", nn::Linear(16 * 5 * 5, 120))),
      fc2_(register_module("fc2", nn::Linear(120, 84))),
      fc3_(register_module("fc3", nn::Linear(84, classes))) {}

torch::Tensor CifarCnn::forward(const torch::Tensor& images) {
  torch::Tensor x = torch::max_pool2d(torch::relu(conv1_(images)), 2);
  x = torch::max_pool2d(torch::relu(conv2_(x)), 2);
  x = torch::relu(fc1_(x.flatten(/*start_dim=*/1)));
  x = torch::relu(fc2_(x));
  return fc3_(x);
}

}  // namespace dtrain
