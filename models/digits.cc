// LeNetTrial: LeNet-5 on handwritten digits. It is written as a user's model
// would be: the constructor loads the data and adds the network, the optimizer
// and the schedule to the context, in this order, and the other functions only
// use them. The step has no branch and no value on the host, so that it can be
// captured as a CUDA graph (Capturable).

#include <memory>
#include <optional>
#include <string>
#include <utility>

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

// LeNet-5 on handwritten digits. Metrics: loss and accuracy in training,
// val_loss and val_accuracy in validation.
class LeNetTrial final : public Trial {
 public:
  explicit LeNetTrial(TrialContext& context);

  std::unique_ptr<DataSource> TrainingData() override;
  std::unique_ptr<DataSource> ValidationData() override;
  Metrics TrainBatch(const Batch& batch, BatchIndex index) override;
  bool Capturable(BatchIndex) const override { return true; }
  Metrics EvaluateBatch(const Batch& batch) override;
  torch::Tensor Predict(const Batch& batch) override;
  std::optional<ImageSteps> ImagePreparation() override;

 private:
  SamplerOptions TrainingSamples() const;
  std::unique_ptr<DataSource> Source(const ImageSet& set,
                                     const SamplerOptions& samples) const;

  TrialContext& context_;
  DigitSets digits_;
  std::shared_ptr<LeNet> net_;
  std::shared_ptr<torch::optim::Optimizer> optimizer_;
};

DigitOptions ReadDigitOptions(const TrialContext& context) {
  return {.dataset = context.Get<std::string>("dataset", "auto"),
          .data = context.Get<std::string>("data", ""),
          .seed = context.Get<std::uint32_t>("dataset_seed", 0),
          .threads = torch::get_num_threads()};
}

// The first `count` samples, or all: makes a search cheap.
ImageSet First(const ImageSet& set, std::int64_t count) {
  const std::int64_t size = set.labels.size(0);
  if (count < 0) {
    throw InvalidHyperparameters(
        "hyperparameter 'training_samples' is negative; set a number, or 0 for "
        "all");
  }
  if (count == 0 || count >= size) return set;
  return {.images = set.images.narrow(0, 0, count),
          .labels = set.labels.narrow(0, 0, count)};
}

}  // namespace

LeNetTrial::LeNetTrial(TrialContext& context)
    : context_(context),
      digits_(LoadDigits(ReadDigitOptions(context))),
      net_(std::make_shared<LeNet>(/*classes=*/10,
                                   context.Get<bool>("own_kernels", true))) {
  digits_.training =
      First(digits_.training, context.Get<std::int64_t>("training_samples", 0));
  LogLine(LogLevel::kInfo,
          "data: " + digits_.description + "; " +
              std::to_string(digits_.training.labels.size(0)) +
              " for training, " +
              std::to_string(digits_.validation.labels.size(0)) +
              " for validation");
  context.Add(net_);  // moves it to the device; before the optimizer
  optimizer_ = MakeOptimizer(context, net_->parameters());
  context.Add(optimizer_);
  const BatchSampler sampler(TrainingSamples());
  if (std::optional<LrSchedule> schedule =
          MakeSchedule(context, sampler.BatchesPerEpoch())) {
    context.Add(*std::move(schedule), *optimizer_, StepMode::kEveryBatch);
  }
}

std::unique_ptr<DataSource> LeNetTrial::TrainingData() {
  return Source(digits_.training, TrainingSamples());
}

std::unique_ptr<DataSource> LeNetTrial::ValidationData() {
  return Source(digits_.validation, {.batch_size = 1000,
                                     .wrap = false,
                                     .rank = context_.rank(),
                                     .ranks = context_.world_size()});
}

Metrics LeNetTrial::TrainBatch(const Batch& batch, BatchIndex) {
  const torch::Tensor logits = net_->forward(batch.data);
  const auto [loss, accuracy] = CrossEntropyAndAccuracy(logits, batch.target);
  context_.Backward(loss);
  context_.Step(*optimizer_);
  return {{"loss", loss.detach()}, {"accuracy", accuracy}};
}

Metrics LeNetTrial::EvaluateBatch(const Batch& batch) {
  const torch::Tensor logits = net_->forward(batch.data);
  const auto [loss, accuracy] = CrossEntropyAndAccuracy(logits, batch.target);
  return {{"val_loss", loss}, {"val_accuracy", accuracy}};
}

std::optional<ImageSteps> LeNetTrial::ImagePreparation() {
  const std::int64_t side = digits_.training.images.size(2);
  return ImageSteps{.crop = side,
                    .resize = side,
                    .channels = 1,
                    .normalization = digits_.normalization};
}

torch::Tensor LeNetTrial::Predict(const Batch& batch) {
  return net_->forward(batch.data).softmax(/*dim=*/1);
}

SamplerOptions LeNetTrial::TrainingSamples() const {
  return {.samples = digits_.training.labels.size(0),
          .batch_size = context_.batch_size(),
          .shuffle = true,
          .seed = context_.seed(),
          .drop_last = true,
          .rank = context_.rank(),
          .ranks = context_.world_size()};
}

std::unique_ptr<DataSource> LeNetTrial::Source(
    const ImageSet& set, const SamplerOptions& samples) const {
  return std::make_unique<MemorySource>(set, samples, digits_.normalization,
                                        context_.device());
}

// Declared in models/table.cc.
std::unique_ptr<Trial> MakeLeNetTrial(TrialContext& context) {
  return std::make_unique<LeNetTrial>(context);
}

}  // namespace dtrain
