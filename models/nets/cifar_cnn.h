#pragma once

#include "engine/train/torch_modules.h"

namespace dtrain {

/// The convolutional network of PyBlaze's training guide (and of PyTorch's
/// CIFAR-10 tutorial), for colour images of 32×32: two 5×5 convolutions with
/// ReLU and max pooling, three dense layers; 62,006 parameters with ten
/// classes. Make it with std::make_shared.
class CifarCnn final : public torch::nn::Module {
 public:
  explicit CifarCnn(std::int64_t classes);

  /// Logits [samples, classes] of `images` [samples, 3, 32, 32].
  torch::Tensor forward(const torch::Tensor& images);

 private:
  torch::nn::Conv2d conv1_;
  torch::nn::Conv2d conv2_;
  torch::nn::Linear fc1_;
  torch::nn::Linear fc2_;
  torch::nn::Linear fc3_;
};

}  // namespace dtrain
