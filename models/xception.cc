// Xception (Chollet, arXiv:1610.02357) as in SINGA's autograd example, and
// XceptionTrial, which trains it on one synthetic batch.
//
// The twelve blocks are rows of kBlocks. The batch has a generator of its own,
// seeded by `dataset_seed` and the rank, so it is the same after a resume and
// different on each rank.

#include "models/xception.h"

#include <array>
#include <string>

#include <ATen/CPUGeneratorImpl.h>

#include "engine/data/tensor_source.h"
#include "engine/image/transforms.h"
#include "models/building_blocks.h"
#include "models/ops/softmax_cross_entropy.h"
#include "models/optimizers.h"

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

namespace {

constexpr std::int64_t kSide = 299;
constexpr OptimizerDefaults kDefaults = {
    .optimizer = "sgd", .lr = 0.1, .momentum = 0.9, .weight_decay = 1e-5};

std::int64_t Classes(const TrialContext& context) {
  const auto classes = context.Get<std::int64_t>("num_classes", 1000);
  if (classes >= 1) return classes;
  throw InvalidHyperparameters("hyperparameter 'num_classes' is " +
                               std::to_string(classes) +
                               "; a classifier has at least one class");
}

}  // namespace

XceptionTrial::XceptionTrial(TrialContext& context)
    : context_(context),
      classes_(Classes(context)),
      net_(std::make_shared<Xception>(classes_)) {
  context.Add(net_);  // moves it to the device; before the optimizer
  optimizer_ = MakeOptimizer(context, net_->parameters(), kDefaults);
  context.Add(optimizer_);
}

// Uses a generator of its own, so that the batch is the same after a resume.
std::unique_ptr<DataSource> XceptionTrial::TrainingData() {
  const auto seed = context_.Get<std::uint32_t>("dataset_seed", 0);
  const auto generator = at::detail::createCPUGenerator(
      std::uint64_t{seed} + static_cast<std::uint64_t>(context_.rank()));
  const std::int64_t samples = context_.batch_size();
  return std::make_unique<FixedSource>(Batch{
      .data = torch::randn({samples, 3, kSide, kSide}, generator),
      .target =
          torch::randint(0, classes_, {samples}, generator, torch::kInt64)}
                                           .To(context_.device()));
}

Metrics XceptionTrial::TrainBatch(const Batch& batch, BatchIndex) {
  const torch::Tensor logits = net_->forward(batch.data);
  const torch::Tensor loss = SoftmaxCrossEntropy(logits, batch.target);
  context_.Backward(loss);
  context_.Step(*optimizer_);
  return {{"loss", loss.detach()},
          {"accuracy", Accuracy(logits.detach(), batch.target)}};
}

Metrics XceptionTrial::EvaluateBatch(const Batch& batch) {
  const torch::Tensor logits = net_->forward(batch.data);
  return {
      {"val_loss", torch::nn::functional::cross_entropy(logits, batch.target)},
      {"val_accuracy", Accuracy(logits, batch.target)}};
}

// Pixels from -1 to 1, as in published weights for photographs.
std::optional<ImageSteps> XceptionTrial::ImagePreparation() {
  return ImageSteps{.crop = kSide,
                    .resize = kSide,
                    .normalization = Normalization{.mean = {0.5F, 0.5F, 0.5F},
                                                   .std = {0.5F, 0.5F, 0.5F}}};
}

torch::Tensor XceptionTrial::Predict(const Batch& batch) {
  return net_->forward(batch.data).softmax(/*dim=*/1);
}

torch::Tensor XceptionTrial::Features(const Batch& batch) {
  return net_->Features(batch.data);
}

std::unique_ptr<Trial> MakeXceptionTrial(TrialContext& context) {
  return std::make_unique<XceptionTrial>(context);
}

}  // namespace dtrain
