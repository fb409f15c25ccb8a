// The trials of MindSpore's training guide: LeNet-5 on MNIST with data sinking,
// and a custom network on one synthetic batch. Their log lines are those of the
// guide, which users compare.
//
// The last loss is kept in a tensor that is written in place, because a
// captured step must write to the same address each time.

#include <array>
#include <charconv>
#include <memory>
#include <string>

#include <ATen/CPUGeneratorImpl.h>

#include "engine/data/tensor_source.h"
#include "engine/image/transforms.h"
#include "engine/train/log_line.h"
#include "engine/train/trial.h"
#include "models/building_blocks.h"
#include "models/data_sets.h"
#include "models/nets/conv_nets.h"
#include "models/ops/softmax_cross_entropy.h"
#include "models/optimizers.h"

namespace dtrain {
namespace {

// The model of MindSpore's training guide: LeNet-5 on MNIST, resized to 32×32,
// shuffled through a buffer of 10,000, for data sinking
// (`optimizations.sink_size`). Metrics: loss in training, val_loss and
// val_accuracy in validation.
class MNISTTrial final : public Trial {
 public:
  explicit MNISTTrial(TrialContext& context);

  std::unique_ptr<DataSource> TrainingData() override;
  std::unique_ptr<DataSource> ValidationData() override;
  Metrics TrainBatch(const Batch& batch, BatchIndex index) override;
  bool Capturable(BatchIndex) const override { return true; }
  Metrics EvaluateBatch(const Batch& batch) override;
  torch::Tensor Predict(const Batch& batch) override;
  std::optional<ImageSteps> ImagePreparation() override;
  void OnTrainingReport(const ReportPoint& point) override;

 private:
  std::unique_ptr<DataSource> Source(const ImageSet& set,
                                     const SamplerOptions& samples) const;

  TrialContext& context_;
  const bool custom_loop_;  // logs losses like the guide's custom loop
  DigitSets digits_;
  std::shared_ptr<LeNet5> net_;
  std::shared_ptr<torch::optim::Optimizer> optimizer_;
  std::unique_ptr<OneStepCell> cell_;
  torch::Tensor last_loss_;
};

// The custom network of that guide: ReLU, mean, dense layer of ones, trained
// on one synthetic batch with labels of zeros, so that each of the 32 losses
// is 0.
class ReluReduceMeanDenseTrial final : public Trial {
 public:
  explicit ReluReduceMeanDenseTrial(TrialContext& context);

  std::unique_ptr<DataSource> TrainingData() override;
  std::unique_ptr<DataSource> ValidationData() override { return nullptr; }
  Metrics TrainBatch(const Batch& batch, BatchIndex index) override;
  Metrics EvaluateBatch(const Batch& batch) override;

 private:
  TrialContext& context_;
  std::shared_ptr<ReluReduceMeanDense> net_;
  std::shared_ptr<torch::optim::Optimizer> optimizer_;
  std::unique_ptr<OneStepCell> cell_;
};

constexpr std::int64_t kSide = 32;
constexpr std::int64_t kShuffleBuffer = 10'000;
constexpr OptimizerDefaults kMomentum = {
    .optimizer = "sgd", .lr = 0.01, .momentum = 0.9};

constexpr std::int64_t kChannels = 2048;
constexpr std::int64_t kClasses = 1000;
constexpr OptimizerDefaults kDenseMomentum = {
    .optimizer = "sgd", .lr = 0.1, .momentum = 0.1};

// Shortest decimal representation of `value`, at most 9 digits.
std::string Number(float value) {
  std::array<char, 32> text{};
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}

// Like numpy prints floats, up to 24 a line.
void LogArray(const std::string& before, const torch::Tensor& values) {
  constexpr std::int64_t kPerLine = 24;
  const torch::Tensor host = values.to(torch::kCPU, torch::kFloat);
  std::string line = before + "[";
  for (std::int64_t i = 0; i < host.size(0); ++i) {
    if (i > 0 && i % kPerLine == 0) {
      LogLine(LogLevel::kInfo, line);
      line.clear();
    }
    const float value = host[i].item<float>();
    // Prints -0 as 0.
    std::string text = Number(value == 0 ? 0 : value);
    if (text.find_first_of(".en") == std::string::npos) text += '.';
    if (i > 0) line += ' ';
    line += text;
  }
  LogLine(LogLevel::kInfo, line + "]");
}

}  // namespace

MNISTTrial::MNISTTrial(TrialContext& context)
    : context_(context),
      custom_loop_(context.Get<bool>("custom_loop", false)),
      digits_(
          LoadDigits({.dataset = context.Get<std::string>("dataset", "mnist"),
                      .data = context.Get<std::string>("data", ""),
                      .seed = context.Get<std::uint32_t>("dataset_seed", 0),
                      .side = kSide,
                      .threads = torch::get_num_threads()})),
      net_(std::make_shared<LeNet5>(/*classes=*/10,
                                    context.Get<bool>("own_kernels", true))) {
  // The guide's normalisation, for any digits.
  digits_.normalization = {.mean = {0.1307F}, .std = {0.3081F}};
  LogLine(LogLevel::kInfo,
          "data: " + digits_.description + "; " +
              std::to_string(digits_.training.size()) + " for training, " +
              std::to_string(digits_.validation.size()) + " for validation");
  context.Add(net_);  // moves it to the device: before the optimizer
  optimizer_ = MakeOptimizer(context, net_->parameters(), kMomentum);
  context.Add(optimizer_);
  cell_ = std::make_unique<OneStepCell>(context, *optimizer_,
                                        context.Get<double>("sens", 1.0));
}

std::unique_ptr<DataSource> MNISTTrial::TrainingData() {
  // The guide's scripts say so before their loops.
  if (context_.rank() == 0) {
    LogLine(LogLevel::kInfo, "============== Starting Training ==============");
  }
  return Source(digits_.training, {.batch_size = context_.batch_size(),
                                   .shuffle = true,
                                   .seed = context_.seed(),
                                   .shuffle_buffer = context_.Get<std::int64_t>(
                                       "shuffle_buffer", kShuffleBuffer),
                                   .drop_last = true,
                                   .rank = context_.rank(),
                                   .ranks = context_.world_size()});
}

std::unique_ptr<DataSource> MNISTTrial::ValidationData() {
  return Source(digits_.validation, {.batch_size = 1000,
                                     .wrap = false,
                                     .rank = context_.rank(),
                                     .ranks = context_.world_size()});
}

Metrics MNISTTrial::TrainBatch(const Batch& batch, BatchIndex) {
  const torch::Tensor loss =
      CrossEntropy(net_->forward(batch.data), batch.target);
  const torch::Tensor value = cell_->Step(loss);
  // In place, for captured steps.
  if (!last_loss_.defined()) last_loss_ = torch::empty_like(value);
  last_loss_.copy_(value);
  return {{"loss", value}};
}

// Log lines of LossMonitor, or of the guide's custom loop.
void MNISTTrial::OnTrainingReport(const ReportPoint& point) {
  if (!last_loss_.defined()) return;
  const std::string loss = Number(last_loss_.item<float>());
  const std::string epoch = std::to_string(point.epoch);
  LogLine(LogLevel::kInfo,
          custom_loop_ ? "epoch: " + epoch + "/" +
                             std::to_string(point.epochs) + ", losses: " + loss
                       : "epoch: " + epoch + " step: " +
                             std::to_string(point.step) + ", loss is " + loss);
}

Metrics MNISTTrial::EvaluateBatch(const Batch& batch) {
  const torch::Tensor logits = net_->forward(batch.data);
  const auto [loss, accuracy] = CrossEntropyAndAccuracy(logits, batch.target);
  return {{"val_loss", loss}, {"val_accuracy", accuracy}};
}

std::optional<ImageSteps> MNISTTrial::ImagePreparation() {
  return ImageSteps{.crop = kSide,
                    .resize = kSide,
                    .channels = 1,
                    .normalization = digits_.normalization};
}

torch::Tensor MNISTTrial::Predict(const Batch& batch) {
  return net_->forward(batch.data).softmax(/*dim=*/1);
}

std::unique_ptr<DataSource> MNISTTrial::Source(
    const ImageSet& set, const SamplerOptions& samples) const {
  return std::make_unique<MemorySource>(set, samples, digits_.normalization,
                                        context_.device());
}

ReluReduceMeanDenseTrial::ReluReduceMeanDenseTrial(TrialContext& context)
    : context_(context),
      net_(std::make_shared<ReluReduceMeanDense>(kChannels, kClasses)) {
  context.Add(net_);  // moves it to the device: before the optimizer
  optimizer_ = MakeOptimizer(context, net_->parameters(), kDenseMomentum);
  context.Add(optimizer_);
  cell_ = std::make_unique<OneStepCell>(context, *optimizer_,
                                        context.Get<double>("sens", 1.0));
}

std::unique_ptr<DataSource> ReluReduceMeanDenseTrial::TrainingData() {
  const auto generator = at::detail::createCPUGenerator(
      context_.Get<std::uint32_t>("dataset_seed", 0));
  const std::int64_t samples = context_.batch_size();
  return std::make_unique<FixedSource>(
      Batch{.data = torch::randn({samples, kChannels, 7, 7}, generator),
            .target = torch::zeros({samples, kClasses})}
          .To(context_.device()));
}

Metrics ReluReduceMeanDenseTrial::TrainBatch(const Batch& batch, BatchIndex) {
  // Cross entropy of one-hot labels, one value per sample.
  const torch::Tensor losses =
      -(batch.target * net_->forward(batch.data).log_softmax(/*dim=*/1))
           .sum(/*dim=*/1);
  LogArray("-------loss------ ", cell_->Step(losses));
  return {{"loss", losses.detach().mean()}};
}

Metrics ReluReduceMeanDenseTrial::EvaluateBatch(const Batch&) { return {}; }

// Declared in models/table.cc.
std::unique_ptr<Trial> MakeMNISTTrial(TrialContext& context) {
  return std::make_unique<MNISTTrial>(context);
}

std::unique_ptr<Trial> MakeReluReduceMeanDenseTrial(TrialContext& context) {
  return std::make_unique<ReluReduceMeanDenseTrial>(context);
}

}  // namespace dtrain
