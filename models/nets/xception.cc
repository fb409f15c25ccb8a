#include "models/nets/xception.h"

#include <array>
#include <string>

namespace dtrain {

namespace nn = torch::nn;

namespace {

constexpr std::array<XceptionBlockOptions, 12> kBlocks = {{
    {.in = 64, .out = 128, .reps = 2, .stride = 2, .start_with_relu = false},
    {.in = 128, .out = 256, .reps = 2, .stride = 2},
    {.in = 256, .out = 728, .reps = 2, .stride = 2},
    {.in = 728, .out = 728, .reps = 3},
    {.in = 728, .out = 728, .reps = 3},
    {.in = 728, .out = 728, .reps = 3},
    {.in = 728, .out = 728, .reps = 3},
    {.in = 728, .out = 728, .reps = 3},
    {.in = 728, .out = 728, .reps = 3},
    {.in = 728, .out = 728, .reps = 3},
    {.in = 728, .out = 728, .reps = 3},
    {.in = 728, .out = 1024, .reps = 2, .stride = 2, .grow_first = false},
}};

nn::Conv2d Plain(std::int64_t in, std::int64_t out, std::int64_t kernel,
                 std::int64_t stride, std::int64_t padding) {
  return nn::Conv2d(nn::Conv2dOptions(in, out, kernel)
                        .stride(stride)
                        .padding(padding)
                        .bias(false));
}

std::shared_ptr<SeparableConv2d> Separable(std::int64_t in, std::int64_t out) {
  return std::make_shared<SeparableConv2d>(in, out, /*kernel=*/3,
                                           /*padding=*/1);
}

}  // namespace

SeparableConv2d::SeparableConv2d(std::int64_t in, std::int64_t out,
                                 std::int64_t kernel, std::int64_t padding)
    : depthwise_(register_module("depthwise",
                                 nn::Conv2d(nn::Conv2dOptions(in, in, kernel)
                                                .padding(padding)
                                                .groups(in)
                                                .bias(false)))),
      pointwise_(register_module("pointwise", Plain(in, out, 1, 1, 0))) {}

torch::Tensor SeparableConv2d::forward(const torch::Tensor& x) {
  return pointwise_(depthwise_(x));
}

XceptionBlock::XceptionBlock(const XceptionBlockOptions& options) {
  for (std::int64_t i = 0; i < options.reps; ++i) {
    const bool first = i == 0;
    const bool last = i == options.reps - 1;
    const bool grown = options.grow_first ? !first : false;
    const bool grows = options.grow_first || last;
    if (!first || options.start_with_relu) layers_->push_back(nn::ReLU());
    const std::int64_t out = grows ? options.out : options.in;
    layers_->push_back(Separable(grown ? options.out : options.in, out));
    layers_->push_back(nn::BatchNorm2d(out));
  }
  if (options.stride != 1) {
    layers_->push_back(nn::MaxPool2d(
        nn::MaxPool2dOptions(3).stride(options.stride).padding(1)));
  }
  register_module("layers", layers_);
  if (options.in == options.out && options.stride == 1) return;
  skip_ = register_module("skip",
                          Plain(options.in, options.out, 1, options.stride, 0));
  skip_norm_ = register_module("skipbn", nn::BatchNorm2d(options.out));
}

torch::Tensor XceptionBlock::forward(const torch::Tensor& x) {
  const torch::Tensor y = layers_->forward(x);
  return y + (skip_.is_empty() ? x : skip_norm_(skip_(x)));
}

Xception::Xception(std::int64_t classes)
    : conv1_(register_module("conv1", Plain(3, 32, 3, 2, 0))),
      bn1_(register_module("bn1", nn::BatchNorm2d(32))),
      conv2_(register_module("conv2", Plain(32, 64, 3, 1, 1))),
      bn2_(register_module("bn2", nn::BatchNorm2d(64))),
      conv3_(Separable(1024, 1536)),
      bn3_(nn::BatchNorm2d(1536)),
      conv4_(Separable(1536, 2048)),
      bn4_(nn::BatchNorm2d(2048)),
      fc_(nn::Linear(2048, classes)) {
  int number = 0;
  for (const XceptionBlockOptions& options : kBlocks) {
    blocks_->push_back(
        register_module("block" + std::to_string(++number),
                        std::make_shared<XceptionBlock>(options)));
  }
  register_module("conv3", conv3_);
  register_module("bn3", bn3_);
  register_module("conv4", conv4_);
  register_module("bn4", bn4_);
  register_module("fc", fc_);
}

torch::Tensor Xception::Features(const torch::Tensor& images) {
  torch::Tensor x = torch::relu(bn1_(conv1_(images)));
  x = torch::relu(bn2_(conv2_(x)));
  x = blocks_->forward(x);
  x = torch::relu(bn3_(conv3_->forward(x)));
  return bn4_(conv4_->forward(x));
}

torch::Tensor Xception::Logits(const torch::Tensor& features) {
  const torch::Tensor x =
      torch::max_pool2d(torch::relu(features), /*kernel_size=*/10,
                        /*stride=*/1);
  return fc_(x.flatten(/*start_dim=*/1));
}

torch::Tensor Xception::forward(const torch::Tensor& images) {
  return Logits(Features(images));
}

}  // namespace dtrain
