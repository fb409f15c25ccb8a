#pragma once

#include "engine/train/torch_modules.h"

namespace dtrain {

/// LeNet-5 (LeCun et al., 1998) with ReLU and max pooling, for grey images of
/// 28×28: 61,706 parameters with ten classes. Make it with std::make_shared.
class LeNet final : public torch::nn::Module {
 public:
  explicit LeNet(std::int64_t classes);

  /// Logits [samples, classes] of `images` [samples, 1, 28, 28].
  torch::Tensor forward(const torch::Tensor& images);

 private:
  torch::nn::Conv2d conv1_;
  torch::nn::Conv2d conv2_;
  torch::nn::Linear fc1_;
  torch::nn::Linear fc2_;
  torch::nn::Linear fc3_;
};

}  // namespace dtrain
