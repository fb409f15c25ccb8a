#pragma once

#include "models/nets/image_classifier.h"

namespace dtrain {

/// AlexNet as torchvision has it (Krizhevsky, arXiv:1404.5997): images of at
/// least 63×63.
class AlexNet final : public ImageClassifier {
 public:
  explicit AlexNet(std::int64_t classes);

  torch::Tensor Features(const torch::Tensor& images) override;
  torch::Tensor Classify(const torch::Tensor& features) override;
  std::string head() const override { return "classifier.6"; }

 private:
  torch::nn::Sequential features_;
  torch::nn::Sequential classifier_;
};

}  // namespace dtrain
