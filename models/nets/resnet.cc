#include "models/nets/resnet.h"

#include <cstddef>
#include <string>

namespace dtrain {

namespace nn = torch::nn;

namespace {

constexpr int kFirstChannels = 64;
constexpr int kExpansion = 4;  // of a bottleneck

nn::Conv2d Conv(int from, int to, int size, int stride = 1, int groups = 1) {
  return nn::Conv2d(nn::Conv2dOptions(from, to, size)
                        .stride(stride)
                        .padding(size / 2)
                        .groups(groups)
                        .bias(false));
}

// Where a block changes the shape, what its input is added as.
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

}  // namespace

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

}  // namespace dtrain
