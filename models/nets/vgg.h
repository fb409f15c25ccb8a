#pragma once

#include "models/nets/image_classifier.h"

namespace dtrain {

/// VGG (Simonyan and Zisserman, arXiv:1409.1556) as torchvision has it: images
/// of at least 32×32.
class Vgg final : public ImageClassifier {
 public:
  /// `layers` with weights: 11, 13, 16 or 19.
  Vgg(int layers, bool batch_norm, std::int64_t classes);

  torch::Tensor Features(const torch::Tensor& images) override;
  torch::Tensor Classify(const torch::Tensor& features) override;
  std::string head() const override { return "classifier.6"; }

 private:
  torch::nn::Sequential features_;
  torch::nn::Sequential classifier_;
};

}  // namespace dtrain
