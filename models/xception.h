#pragma once

#include <memory>

#include "engine/train/torch_modules.h"
#include "engine/train/trial.h"

namespace dtrain {

/// A depthwise convolution followed by a pointwise one (1×1), both without
/// bias.
class SeparableConv2d final : public torch::nn::Module {
 public:
  /// Stride 1; `padding` on every side.
  SeparableConv2d(std::int64_t in, std::int64_t out, std::int64_t kernel,
                  std::int64_t padding);

  torch::Tensor forward(const torch::Tensor& x);

 private:
  torch::nn::Conv2d depthwise_;
  torch::nn::Conv2d pointwise_;
};

/// Parameters of a block of Xception.
struct XceptionBlockOptions {
  std::int64_t in = 0;  // channels
  std::int64_t out = 0;
  std::int64_t reps = 1;    // separable convolutions
  std::int64_t stride = 1;  // of the pooling at its end; 1: none
  bool start_with_relu = true;
  bool grow_first = true;  // the first convolution gives `out`, else the last
};

/// (ReLU, separable convolution, batch-norm) `reps` times and max pooling, with
/// a skip connection: 1×1 convolution and batch-norm if the shape changes.
class XceptionBlock final : public torch::nn::Module {
 public:
  explicit XceptionBlock(const XceptionBlockOptions& options);

  torch::Tensor forward(const torch::Tensor& x);

 private:
  torch::nn::Sequential layers_;
  torch::nn::Conv2d skip_{nullptr};
  torch::nn::BatchNorm2d skip_norm_{nullptr};
};

/// Xception (Chollet, 2017) as in SINGA's autograd example: twelve blocks, and
/// a head with max pooling of 10×10; 22,855,952 parameters with 1,000 classes.
/// Create it with std::make_shared.
class Xception final : public torch::nn::Module {
 public:
  explicit Xception(std::int64_t classes);

  /// Feature maps [samples, 2048, 10, 10] of `images` [samples, 3, 299, 299].
  torch::Tensor Features(const torch::Tensor& images);
  /// Logits [samples, classes] of such feature maps.
  torch::Tensor Logits(const torch::Tensor& features);
  /// Logits [samples, classes] of images.
  torch::Tensor forward(const torch::Tensor& images);

 private:
  torch::nn::Conv2d conv1_;
  torch::nn::BatchNorm2d bn1_;
  torch::nn::Conv2d conv2_;
  torch::nn::BatchNorm2d bn2_;
  torch::nn::Sequential blocks_;
  std::shared_ptr<SeparableConv2d> conv3_;
  torch::nn::BatchNorm2d bn3_;
  std::shared_ptr<SeparableConv2d> conv4_;
  torch::nn::BatchNorm2d bn4_;
  torch::nn::Linear fc_;
};

/// SINGA's autograd example: Xception on one synthetic batch, drawn once and
/// used in every step; no validation. Metrics: loss, accuracy.
class XceptionTrial final : public Trial {
 public:
  explicit XceptionTrial(TrialContext& context);

  std::unique_ptr<DataSource> TrainingData() override;
  std::unique_ptr<DataSource> ValidationData() override { return nullptr; }
  Metrics TrainBatch(const Batch& batch, BatchIndex index) override;
  bool Capturable(BatchIndex) const override { return true; }
  Metrics EvaluateBatch(const Batch& batch) override;
  torch::Tensor Predict(const Batch& batch) override;
  std::optional<ImageSteps> ImagePreparation() override;
  torch::Tensor Features(const Batch& batch) override;

 private:
  TrialContext& context_;
  const std::int64_t classes_;
  std::shared_ptr<Xception> net_;
  std::shared_ptr<torch::optim::Optimizer> optimizer_;
};

/// Maker for models/table.cc.
std::unique_ptr<Trial> MakeXceptionTrial(TrialContext& context);

}  // namespace dtrain
