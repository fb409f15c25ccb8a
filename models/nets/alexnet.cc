#include "models/nets/alexnet.h"

#include "models/nets/feature_classifier.h"

namespace dtrain {

namespace nn = torch::nn;

namespace {

nn::Sequential AlexNetFeatures() {
  const auto conv = [](int from, int to, int size) {
    return nn::Conv2d(nn::Conv2dOptions(from, to, size).padding(size / 2));
  };
  const auto pool = [] {
    return nn::MaxPool2d(nn::MaxPool2dOptions(3).stride(2));
  };
  nn::Sequential layers;
  layers->push_back(
      nn::Conv2d(nn::Conv2dOptions(3, 64, 11).stride(4).padding(2)));
  layers->push_back(InPlaceRelu());
  layers->push_back(pool());
  layers->push_back(conv(64, 192, 5));
  layers->push_back(InPlaceRelu());
  layers->push_back(pool());
  layers->push_back(conv(192, 384, 3));
  layers->push_back(InPlaceRelu());
  layers->push_back(conv(384, 256, 3));
  layers->push_back(InPlaceRelu());
  layers->push_back(conv(256, 256, 3));
  layers->push_back(InPlaceRelu());
  layers->push_back(pool());
  return layers;
}

}  // namespace

std::shared_ptr<ImageClassifier> MakeAlexNet(std::int64_t classes) {
  return std::make_shared<FeatureClassifier>(
      AlexNetFeatures(), /*side=*/6,
      nn::Sequential(nn::Dropout(0.5), nn::Linear(256 * 6 * 6, 4096),
                     InPlaceRelu(), nn::Dropout(0.5), nn::Linear(4096, 4096),
                     InPlaceRelu(), nn::Linear(4096, classes)));
}

}  // namespace dtrain
