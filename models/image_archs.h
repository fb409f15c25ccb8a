#pragma once

#include <array>
#include <string_view>

namespace dtrain {

/// The networks of torchvision that ImageNetTrial trains, by their names there.
/// models/nets/image_classifier.h makes them.
inline constexpr std::array<std::string_view, 19> kImageArchs = {
    "alexnet",          "resnet18",
    "resnet34",         "resnet50",
    "resnet101",        "resnet152",
    "resnext50_32x4d",  "resnext101_32x8d",
    "resnext101_64x4d", "vgg11",
    "vgg11_bn",         "vgg13",
    "vgg13_bn",         "vgg16",
    "vgg16_bn",         "vgg19",
    "vgg19_bn",         "wide_resnet50_2",
    "wide_resnet101_2",
};

/// What it trains them on: the values of its hyperparameter `dataset`.
inline constexpr std::array<std::string_view, 3> kImageDatasets = {
    "imagefolder", "cifar10", "fake"};

}  // namespace dtrain
