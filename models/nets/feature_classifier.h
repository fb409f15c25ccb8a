#pragma once

#include "models/nets/image_classifier.h"

namespace dtrain {

/// The shape of AlexNet and VGG in torchvision: convolutions ("features"), an
/// average pooling to maps of one size, dense layers ("classifier").
class FeatureClassifier final : public ImageClassifier {
 public:
  /// `side` of the pooled maps. REQUIRES: the last layer of `classifier`, its
  /// seventh, is a torch::nn::Linear.
  FeatureClassifier(torch::nn::Sequential features, std::int64_t side,
                    torch::nn::Sequential classifier);

  torch::Tensor Features(const torch::Tensor& images) override;
  torch::Tensor Classify(const torch::Tensor& features) override;
  std::string head() const override { return "classifier.6"; }

 private:
  torch::nn::Sequential features_;
  std::int64_t side_;
  torch::nn::Sequential classifier_;
};

/// ReLU that overwrites its input.
torch::nn::ReLU InPlaceRelu();

}  // namespace dtrain
