#pragma once

#include <array>

#include "models/nets/image_classifier.h"

namespace dtrain {

/// What tells the residual networks of torchvision apart.
struct ResNetShape {
  std::array<int, 4> blocks;  // in each of the four stages
  bool bottleneck = false;    // blocks of three convolutions, not of two
  int groups = 1;             // of the 3×3 convolution of a bottleneck
  int width = 64;             // its channels a group, in the first stage
};

/// ResNet (He et al., arXiv:1512.03385), ResNeXt (Xie et al., arXiv:1611.05431)
/// and Wide ResNet (Zagoruyko and Komodakis, arXiv:1605.07146) as torchvision
/// has them, which strides in the 3×3 convolution. Images of any size.
class ResNet final : public ImageClassifier {
 public:
  ResNet(const ResNetShape& shape, std::int64_t classes);

  torch::Tensor Features(const torch::Tensor& images) override;
  torch::Tensor Classify(const torch::Tensor& features) override;
  std::string head() const override { return "fc"; }

 private:
  torch::nn::Conv2d conv1_;
  torch::nn::BatchNorm2d bn1_;
  std::array<torch::nn::Sequential, 4> stages_;
  torch::nn::Linear fc_;
};

}  // namespace dtrain
