#pragma once

#include <memory>

#include "engine/train/torch_modules.h"
#include "models/ops/conv_relu_pool.h"

namespace dtrain {

/// LeNet-5 (LeCun et al., 1998) with ReLU and max pooling, for grayscale images
/// of 28×28: 61,706 parameters with ten classes. Create it with
/// std::make_shared.
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

/// Fills `tensor` with a normal distribution around 0 with deviation `sigma`,
/// truncated at two deviations, like MindSpore's TruncatedNormal.
void FillTruncatedNormal(torch::Tensor tensor, double sigma);

/// LeNet-5 of MindSpore's training guide, for grayscale images of 32×32:
/// convolutions without bias, everything else TruncatedNormal(0.02); 61,684
/// parameters with ten classes. Create it with std::make_shared.
class LeNet5 final : public torch::nn::Module {
 public:
  /// `own_kernels`: see ConvReluPool.
  explicit LeNet5(std::int64_t classes, bool own_kernels = true);

  /// Logits [samples, classes] of `images` [samples, 1, 32, 32].
  torch::Tensor forward(const torch::Tensor& images);

 private:
  std::shared_ptr<ConvReluPool> conv1_;
  std::shared_ptr<ConvReluPool> conv2_;
  torch::nn::Linear fc1_;
  torch::nn::Linear fc2_;
  torch::nn::Linear fc3_;
};

/// ReLU, mean over height and width, a dense layer: MindSpore's example of a
/// custom network. All weights and biases are initially 1.
class ReluReduceMeanDense final : public torch::nn::Module {
 public:
  ReluReduceMeanDense(std::int64_t channels, std::int64_t classes);

  /// Logits [samples, classes] of `x` [samples, channels, height, width].
  torch::Tensor forward(const torch::Tensor& x);

 private:
  torch::nn::Linear dense_;
};

/// The convolutional network of PyBlaze's training guide (and of PyTorch's
/// CIFAR-10 tutorial), for colour images of 32×32: two 5×5 convolutions with
/// ReLU and max pooling, three dense layers; 62,006 parameters with ten
/// classes. Create it with std::make_shared.
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
