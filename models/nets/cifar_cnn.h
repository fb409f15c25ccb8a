#pragma once

#include <memory>

#include "engine/train/torch_modules.h"
#include "models/ops/conv_relu_pool.h"

namespace dtrain {

/// The convolutional network of PyBlaze's training guide (and of PyTorch's
/// CIFAR-10 tutorial), for colour images of 32×32: two 5×5 convolutions with
/// ReLU and max pooling, three dense layers; 62,006 parameters with ten
/// classes. Make it with std::make_shared.
class CifarCnn final : public torch::nn::Module {
 public:
  /// `own_kernels`: see ConvReluPool.
  explicit CifarCnn(std::int64_t classes, bool own_kernels = true);

  /// Logits [samples, classes] of `images` [samples, 3, 32, 32].
  torch::Tensor forward(const torch::Tensor& images);

 private:
  std::shared_ptr<ConvReluPool> conv1_;
  std::shared_ptr<ConvReluPool> conv2_;
  torch::nn::Linear fc1_;
  torch::nn::Linear fc2_;
  torch::nn::Linear fc3_;
};

}  // namespace dtrain
