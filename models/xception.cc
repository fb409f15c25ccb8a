#include "models/xception.h"

#include <string>

#include <ATen/CPUGeneratorImpl.h>

#include "engine/data/tensor_source.h"
#include "models/classification.h"
#include "models/ops/softmax_cross_entropy.h"
#include "models/optimizers.h"

namespace dtrain {
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
  context.Add(net_);  // moves it to the device: before the optimizer
  optimizer_ = MakeOptimizer(context, net_->parameters(), kDefaults);
  context.Add(optimizer_);
}

// Of a generator of its own: the batch is the same wherever training goes on.
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

// As those who trained it on photographs: pixels from -1 to 1.
std::optional<ImageSteps> XceptionTrial::ImagePreparation() {
  return ImageSteps{
      .crop = kSide,
      .resize = kSide,
      .normalization = {.mean = {0.5F, 0.5F, 0.5F}, .std = {0.5F, 0.5F, 0.5F}}};
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
