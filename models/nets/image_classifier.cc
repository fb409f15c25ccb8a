// torchvision's AlexNet, VGG, ResNet, ResNeXt and Wide ResNet, by name.
//
// Names and order of parameters are torchvision's, so that its weights load
// without a map, and so are the initialisations. A network has two parts:
// Features, up to the last layer, and Classify, which is that layer; weights
// for another number of classes replace all but it.
//
// AverageToSquare exists because the backward pass of LibTorch's adaptive
// pooling is not deterministic on GPUs: with deterministic algorithms it is
// computed as two products of matrices, with the same result up to rounding.

#include "models/nets/image_classifier.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/train/tensor_file.h"

namespace dtrain {

namespace {

namespace nn = torch::nn;

// Matrix [side, size] whose row i averages the elements ⌊i·size/side⌋ to
// ⌈(i+1)·size/side⌉ − 1, as adaptive pooling does.
torch::Tensor AveragingMatrix(std::int64_t side, std::int64_t size,
                              const torch::TensorOptions& options) {
  torch::Tensor matrix = torch::zeros({side, size});
  for (std::int64_t i = 0; i < side; ++i) {
    const std::int64_t from = i * size / side;
    const std::int64_t until = ((i + 1) * size + side - 1) / side;
    matrix[i].slice(/*dim=*/0, from, until) =
        1.0 / static_cast<double>(until - from);
  }
  return matrix.to(options);
}

// Structure of AlexNet and VGG in torchvision: convolutions ("features"),
// average pooling to maps of one size, dense layers ("classifier").
class FeatureClassifier final : public ImageClassifier {
 public:
  // `side` of the pooled maps, in pixels. REQUIRES: the last layer of
  // `classifier`, its seventh, is a torch::nn::Linear.
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

FeatureClassifier::FeatureClassifier(nn::Sequential features, std::int64_t side,
                                     nn::Sequential classifier)
    : features_(register_module("features", std::move(features))),
      side_(side),
      classifier_(register_module("classifier", std::move(classifier))) {}

torch::Tensor FeatureClassifier::Features(const torch::Tensor& images) {
  torch::Tensor x = features_->forward(images);
  x = AverageToSquare(x, side_).flatten(/*start_dim=*/1);
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

// ReLU in place.
nn::ReLU InPlaceRelu() { return nn::ReLU(nn::ReLUOptions(/*inplace=*/true)); }

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

// AlexNet as in torchvision (Krizhevsky, arXiv:1404.5997): images of at least
// 63×63.
std::shared_ptr<ImageClassifier> MakeAlexNet(std::int64_t classes) {
  return std::make_shared<FeatureClassifier>(
      AlexNetFeatures(), /*side=*/6,
      nn::Sequential(nn::Dropout(0.5), nn::Linear(256 * 6 * 6, 4096),
                     InPlaceRelu(), nn::Dropout(0.5), nn::Linear(4096, 4096),
                     InPlaceRelu(), nn::Linear(4096, classes)));
}

constexpr std::array<int, 5> kStageChannels = {64, 128, 256, 512, 512};

// Number of convolutions before each pooling.
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

// VGG (Simonyan and Zisserman, arXiv:1409.1556) as in torchvision: images of at
// least 32×32. `layers` with weights: 11, 13, 16 or 19.
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

// Parameters of torchvision's residual networks.
struct ResNetShape {
  std::array<int, 4> blocks;  // in each of the four stages
  bool bottleneck = false;    // three convolutions per block instead of two
  int groups = 1;             // of the 3×3 convolution of a bottleneck
  int width = 64;             // its channels a group, in the first stage
};

// ResNet (He et al., arXiv:1512.03385), ResNeXt (Xie et al., arXiv:1611.05431)
// and Wide ResNet (Zagoruyko and Komodakis, arXiv:1605.07146) as in
// torchvision, with the stride in the 3×3 convolution. Images of any size.
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

constexpr int kFirstChannels = 64;
constexpr int kExpansion = 4;  // of a bottleneck

nn::Conv2d Conv(int from, int to, int size, int stride = 1, int groups = 1) {
  return nn::Conv2d(nn::Conv2dOptions(from, to, size)
                        .stride(stride)
                        .padding(size / 2)
                        .groups(groups)
                        .bias(false));
}

// Projection of the input of a block that changes the shape.
nn::Sequential Downsample(int from, int to, int stride) {
  if (stride == 1 && from == to) return nullptr;
  return nn::Sequential(Conv(from, to, 1, stride), nn::BatchNorm2d(to));
}

class BasicBlock final : public nn::Module {
 public:
  BasicBlock(int from, int channels, int stride)
      : conv1_(register_module("conv1", Conv(from, channels, 3, stride))),
        bn1_(register_module("bn1", nn::BatchNorm2d(channels))),
        conv2_(register_module("conv2", Conv(channels, channels, 3))),
        bn2_(register_module("bn2", nn::BatchNorm2d(channels))),
        downsample_(Downsample(from, channels, stride)) {
    if (downsample_) register_module("downsample", downsample_);
  }

  torch::Tensor forward(const torch::Tensor& input) {
    torch::Tensor x = bn1_(conv1_(input)).relu_();
    x = bn2_(conv2_(x));
    return x.add_(downsample_ ? downsample_->forward(input) : input).relu_();
  }

 private:
  nn::Conv2d conv1_;
  nn::BatchNorm2d bn1_;
  nn::Conv2d conv2_;
  nn::BatchNorm2d bn2_;
  nn::Sequential downsample_;
};

class Bottleneck final : public nn::Module {
 public:
  Bottleneck(int from, int channels, int stride, const ResNetShape& shape)
      : Bottleneck(from, channels * kExpansion,
                   channels * shape.width / kFirstChannels * shape.groups,
                   stride, shape.groups) {}

  torch::Tensor forward(const torch::Tensor& input) {
    torch::Tensor x = bn1_(conv1_(input)).relu_();
    x = bn2_(conv2_(x)).relu_();
    x = bn3_(conv3_(x));
    return x.add_(downsample_ ? downsample_->forward(input) : input).relu_();
  }

 private:
  Bottleneck(int from, int to, int width, int stride, int groups)
      : conv1_(register_module("conv1", Conv(from, width, 1))),
        bn1_(register_module("bn1", nn::BatchNorm2d(width))),
        conv2_(register_module("conv2", Conv(width, width, 3, stride, groups))),
        bn2_(register_module("bn2", nn::BatchNorm2d(width))),
        conv3_(register_module("conv3", Conv(width, to, 1))),
        bn3_(register_module("bn3", nn::BatchNorm2d(to))),
        downsample_(Downsample(from, to, stride)) {
    if (downsample_) register_module("downsample", downsample_);
  }

  nn::Conv2d conv1_;
  nn::BatchNorm2d bn1_;
  nn::Conv2d conv2_;
  nn::BatchNorm2d bn2_;
  nn::Conv2d conv3_;
  nn::BatchNorm2d bn3_;
  nn::Sequential downsample_;
};

int Channels(const ResNetShape& shape, std::size_t stage) {
  const int channels = kFirstChannels << stage;
  return shape.bottleneck ? channels * kExpansion : channels;
}

nn::Sequential Stage(const ResNetShape& shape, std::size_t stage) {
  nn::Sequential blocks;
  const int channels = kFirstChannels << stage;
  int from = stage == 0 ? kFirstChannels : Channels(shape, stage - 1);
  int stride = stage == 0 ? 1 : 2;
  for (int i = 0; i < shape.blocks[stage]; ++i) {
    if (shape.bottleneck) {
      blocks->push_back(
          std::make_shared<Bottleneck>(from, channels, stride, shape));
    } else {
      blocks->push_back(std::make_shared<BasicBlock>(from, channels, stride));
    }
    from = Channels(shape, stage);
    stride = 1;
  }
  return blocks;
}

ResNet::ResNet(const ResNetShape& shape, std::int64_t classes)
    : conv1_(register_module("conv1",
                             nn::Conv2d(nn::Conv2dOptions(3, kFirstChannels, 7)
                                            .stride(2)
                                            .padding(3)
                                            .bias(false)))),
      bn1_(register_module("bn1", nn::BatchNorm2d(kFirstChannels))),
      stages_{register_module("layer1", Stage(shape, 0)),
              register_module("layer2", Stage(shape, 1)),
              register_module("layer3", Stage(shape, 2)),
              register_module("layer4", Stage(shape, 3))},
      fc_(register_module("fc", nn::Linear(Channels(shape, 3), classes))) {
  for (const auto& module : modules(/*include_self=*/false)) {
    if (const auto* conv = module->as<nn::Conv2d>()) {
      nn::init::kaiming_normal_(conv->weight, /*a=*/0, torch::kFanOut,
                                torch::kReLU);
    }
  }
}

torch::Tensor ResNet::Features(const torch::Tensor& images) {
  torch::Tensor x = bn1_(conv1_(images)).relu_();
  x = torch::max_pool2d(x, /*kernel_size=*/3, /*stride=*/2, /*padding=*/1);
  for (nn::Sequential& stage : stages_) x = stage->forward(x);
  return torch::adaptive_avg_pool2d(x, {1, 1}).flatten(/*start_dim=*/1);
}

torch::Tensor ResNet::Classify(const torch::Tensor& features) {
  return fc_(features);
}

using Make = std::shared_ptr<ImageClassifier> (*)(std::int64_t classes);

template <ResNetShape shape>
std::shared_ptr<ImageClassifier> MakeResNet(std::int64_t classes) {
  return std::make_shared<ResNet>(shape, classes);
}

template <int layers, bool batch_norm>
std::shared_ptr<ImageClassifier> MakeVggVariant(std::int64_t classes) {
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
    {"vgg11", MakeVggVariant<11, false>},
    {"vgg11_bn", MakeVggVariant<11, true>},
    {"vgg13", MakeVggVariant<13, false>},
    {"vgg13_bn", MakeVggVariant<13, true>},
    {"vgg16", MakeVggVariant<16, false>},
    {"vgg16_bn", MakeVggVariant<16, true>},
    {"vgg19", MakeVggVariant<19, false>},
    {"vgg19_bn", MakeVggVariant<19, true>},
    {"wide_resnet50_2", MakeResNet<Grouped(k50, 1, 128)>},
    {"wide_resnet101_2", MakeResNet<Grouped(k101, 1, 128)>},
};

}  // namespace

torch::Tensor AverageByMatrices(const torch::Tensor& maps, std::int64_t side) {
  const torch::Tensor rows =
      AveragingMatrix(side, maps.size(2), maps.options());
  const torch::Tensor columns =
      AveragingMatrix(side, maps.size(3), maps.options());
  return torch::matmul(torch::matmul(rows, maps), columns.t());
}

torch::Tensor AverageToSquare(const torch::Tensor& maps, std::int64_t side) {
  if (maps.size(2) == side && maps.size(3) == side) return maps;
  if (maps.is_cuda() && at::globalContext().deterministicAlgorithms()) {
    return AverageByMatrices(maps, side);
  }
  return torch::adaptive_avg_pool2d(maps, {side, side});
}

std::shared_ptr<ImageClassifier> MakeImageClassifier(const std::string& arch,
                                                     std::int64_t classes) {
  for (const auto& row : kArchs) {
    if (arch == row.name) return row.make(classes);
  }
  throw Error(ErrorKind::kFailed, "no network '" + arch + "'");
}

namespace {

constexpr char kNotThese[] =
    "these are not the weights of this network: check 'arch', or remove the "
    "file";

// True if the tensor belongs to the last layer and differs only in the number
// of classes.
bool IsHeadOfOtherClasses(const ImageClassifier& net, const std::string& name,
                          const torch::Tensor& value,
                          const torch::Tensor& target) {
  const bool is_head =
      name == net.head() + ".weight" || name == net.head() + ".bias";
  return is_head && value.dim() == target.dim() && value.dim() > 0 &&
         value.sizes().slice(1) == target.sizes().slice(1);
}

}  // namespace

std::string LoadPretrained(ImageClassifier& net,
                           const std::filesystem::path& file,
                           OtherHead other_head) {
  const std::string name = EscapeForTerminal(file.string());
  bool new_head = false;
  const auto keeps_own = [&](const std::string& tensor,
                             const torch::Tensor& value,
                             const torch::Tensor& target) {
    if (!IsHeadOfOtherClasses(net, tensor, value, target)) return false;
    if (other_head == OtherHead::kError) {
      const std::string classes = std::to_string(value.size(0));
      throw Error(ErrorKind::kFailed, name + ": is for " + classes +
                                          " classes, and 'num_classes' is " +
                                          std::to_string(target.size(0)) +
                                          "; set num_classes to " + classes);
    }
    return new_head = true;
  };
  NamedTensors state;
  for (const auto& entry : net.named_parameters()) {
    state.emplace_back(entry.key(), entry.value());
  }
  for (const auto& entry : net.named_buffers()) {
    state.emplace_back(entry.key(), entry.value());
  }
  LoadWeights(state, file, {.advice = kNotThese, .keeps_own = keeps_own});
  return "pretrained: weights from " + name +
         (new_head ? ", but for " + net.head() +
                         ", which has another number of classes and is new"
                   : "");
}

}  // namespace dtrain
