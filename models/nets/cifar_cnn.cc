#include "models/nets/cifar_cnn.h"

namespace dtrain {

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
  x = torch::relu(fc1_(x.flatten(/*start_dim=*/1)));
  x = torch::relu(fc2_(x));
  return fc3_(x);
}

}  // namespace dtrain
