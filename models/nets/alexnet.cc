#include "models/nets/alexnet.h"

#include "models/nets/dense_classifier.h"

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

AlexNet::AlexNet(std::int64_t classes)
    : features_(register_module("features", AlexNetFeatures())),
      classifier_(register_module(
          "classifier",
          nn::Sequential(nn::Dropout(0.5), nn::Linear(256 * 6 * 6, 4096),
                         InPlaceRelu(), nn::Dropout(0.5),
                         nn::Linear(4096, 4096), InPlaceRelu(),
                         nn::Linear(4096, classes)))) {}

torch::Tensor AlexNet::Features(const torch::Tensor& images) {
  const torch::Tensor maps =
      torch::adaptive_avg_pool2d(features_->forward(images), {6, 6});
  return ForwardBeforeLast(*classifier_, maps.flatten(/*start_dim=*/1));
}

torch::Tensor AlexNet::Classify(const torch::Tensor& features) {
  return ForwardLast(*classifier_, features);
}

}  // namespace dtrain
