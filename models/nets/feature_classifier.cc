#include "models/nets/feature_classifier.h"

#include <cstddef>
#include <utility>

namespace dtrain {

namespace nn = torch::nn;

FeatureClassifier::FeatureClassifier(nn::Sequential features, std::int64_t side,
                                     nn::Sequential classifier)
    : features_(register_module("features", std::move(features))),
      side_(side),
      classifier_(register_module("classifier", std::move(classifier))) {}

torch::Tensor FeatureClassifier::Features(const torch::Tensor& images) {
  torch::Tensor x = features_->forward(images);
  x = torch::adaptive_avg_pool2d(x, {side_, side_}).flatten(/*start_dim=*/1);
  auto layer = classifier_->begin();
  for (std::size_t i = 0; i + 1 < classifier_->size(); ++i, ++layer) {
    x = layer->forward(x);
  }
  return x;
}

torch::Tensor FeatureClassifier::Classify(const torch::Tensor& features) {
  return classifier_->at<nn::LinearImpl>(classifier_->size() - 1)
      .forward(features);
}

nn::ReLU InPlaceRelu() { return nn::ReLU(nn::ReLUOptions(/*inplace=*/true)); }

}  // namespace dtrain
