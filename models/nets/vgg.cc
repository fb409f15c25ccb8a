#include "models/nets/vgg.h"

#include <array>

#include "models/nets/feature_classifier.h"

namespace dtrain {

namespace nn = torch::nn;

namespace {

constexpr std::array<int, 5> kStageChannels = {64, 128, 256, 512, 512};

// How many convolutions come before each pooling.
std::array<int, 5> Convolutions(int layers) {
  switch (layers) {
    case 11:
      return {1, 1, 2, 2, 2};
    case 13:
      return {2, 2, 2, 2, 2};
    case 16:
      return {2, 2, 3, 3, 3};
    default:
      return {2, 2, 4, 4, 4};
  }
}

nn::Sequential VggFeatures(int layers, bool batch_norm) {
  nn::Sequential features;
  const std::array<int, 5> convolutions = Convolutions(layers);
  int from = 3;
  for (std::size_t stage = 0; stage < convolutions.size(); ++stage) {
    const int to = kStageChannels[stage];
    for (int i = 0; i < convolutions[stage]; ++i) {
      features->push_back(
          nn::Conv2d(nn::Conv2dOptions(from, to, 3).padding(1)));
      if (batch_norm) features->push_back(nn::BatchNorm2d(to));
      features->push_back(InPlaceRelu());
      from = to;
    }
    features->push_back(nn::MaxPool2d(nn::MaxPool2dOptions(2).stride(2)));
  }
  return features;
}

}  // namespace

std::shared_ptr<ImageClassifier> MakeVgg(int layers, bool batch_norm,
                                         std::int64_t classes) {
  auto net = std::make_shared<FeatureClassifier>(
      VggFeatures(layers, batch_norm), /*side=*/7,
      nn::Sequential(nn::Linear(512 * 7 * 7, 4096), InPlaceRelu(),
                     nn::Dropout(0.5), nn::Linear(4096, 4096), InPlaceRelu(),
                     nn::Dropout(0.5), nn::Linear(4096, classes)));
  for (const auto& module : net->modules(/*include_self=*/false)) {
    if (const auto* conv = module->as<nn::Conv2d>()) {
      nn::init::kaiming_normal_(conv->weight, /*a=*/0, torch::kFanOut,
                                torch::kReLU);
      nn::init::zeros_(conv->bias);
    } else if (const auto* linear = module->as<nn::Linear>()) {
      nn::init::normal_(linear->weight, /*mean=*/0, /*std=*/0.01);
      nn::init::zeros_(linear->bias);
    }
  }
  return net;
}

}  // namespace dtrain
