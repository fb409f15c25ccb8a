#pragma once

#include <memory>

#include "engine/train/torch_modules.h"
#include "models/ops/conv_relu_pool.h"

namespace dtrain {

/// LeNet-5 (LeCun et al., 1998) with ReLU and max pooling, for grey images of
/// 28×28: 61,706 parameters with ten classes. Make it with std::make_shared.
class LeNet final : public torch::nn::Module {
 public:
  /// `own_kernels`: see ConvReluPool.
  explicit LeNet(std::int64_t classes, bool own_kernels = true);

  /// Logits [samples, classes] of `images` [samples, 1, 28, 28].
  torch::Tensor forward(const torch::Tensor& images);

 private:
  std::shared_ptr<ConvReluPool> conv1_;
  std::shared_ptr<ConvReluPool> conv2_;
  torch::nn::Linear fc1_;
  torch::nn::Linear fc2_;
  torch::nn::Linear fc3_;
};

}  // namespace dtrain
