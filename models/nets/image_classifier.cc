#include "models/nets/image_classifier.h"

#include <algorithm>
#include <functional>
#include <iterator>

#include "engine/base/error.h"
#include "models/nets/alexnet.h"
#include "models/nets/resnet.h"
#include "models/nets/vgg.h"

namespace dtrain {
namespace {

using Make = std::shared_ptr<ImageClassifier> (*)(std::int64_t classes);

template <ResNetShape shape>
std::shared_ptr<ImageClassifier> MakeResNet(std::int64_t classes) {
  return std::make_shared<ResNet>(shape, classes);
}

template <int layers, bool batch_norm>
std::shared_ptr<ImageClassifier> MakeVggOf(std::int64_t classes) {
  return MakeVgg(layers, batch_norm, classes);
}

constexpr ResNetShape k18 = {.blocks = {2, 2, 2, 2}};
constexpr ResNetShape k34 = {.blocks = {3, 4, 6, 3}};
constexpr ResNetShape k50 = {.blocks = {3, 4, 6, 3}, .bottleneck = true};
constexpr ResNetShape k101 = {.blocks = {3, 4, 23, 3}, .bottleneck = true};
constexpr ResNetShape k152 = {.blocks = {3, 8, 36, 3}, .bottleneck = true};

constexpr ResNetShape Grouped(ResNetShape shape, int groups, int width) {
  shape.groups = groups;
  shape.width = width;
  return shape;
}

const struct {
  const char* name;
  Make make;
} kArchs[] = {
    {"alexnet", MakeAlexNet},
    {"resnet18", MakeResNet<k18>},
    {"resnet34", MakeResNet<k34>},
    {"resnet50", MakeResNet<k50>},
    {"resnet101", MakeResNet<k101>},
    {"resnet152", MakeResNet<k152>},
    {"resnext50_32x4d", MakeResNet<Grouped(k50, 32, 4)>},
    {"resnext101_32x8d", MakeResNet<Grouped(k101, 32, 8)>},
    {"resnext101_64x4d", MakeResNet<Grouped(k101, 64, 4)>},
    {"vgg11", MakeVggOf<11, false>},
    {"vgg11_bn", MakeVggOf<11, true>},
    {"vgg13", MakeVggOf<13, false>},
    {"vgg13_bn", MakeVggOf<13, true>},
    {"vgg16", MakeVggOf<16, false>},
    {"vgg16_bn", MakeVggOf<16, true>},
    {"vgg19", MakeVggOf<19, false>},
    {"vgg19_bn", MakeVggOf<19, true>},
    {"wide_resnet50_2", MakeResNet<Grouped(k50, 1, 128)>},
    {"wide_resnet101_2", MakeResNet<Grouped(k101, 1, 128)>},
};

}  // namespace

std::shared_ptr<ImageClassifier> MakeImageClassifier(const std::string& arch,
                                                     std::int64_t classes) {
  for (const auto& row : kArchs) {
    if (arch == row.name) return row.make(classes);
  }
  throw Error(ErrorKind::kFailed, "no network '" + arch + "'");
}

}  // namespace dtrain
