#include "models/imagenet.h"

#include <algorithm>
#include <string>
#include <utility>

#include "engine/base/error.h"
#include "engine/train/log_line.h"
#include "models/classification.h"
#include "models/image_archs.h"
#include "models/imagenet_files.h"
#include "models/optimizers.h"
#include "models/pretrained.h"

namespace dtrain {
namespace {

constexpr std::int64_t kImageNetClasses = 1000;  // of ImageNet
constexpr OptimizerDefaults kImageNetDefaults = {
    .optimizer = "sgd", .lr = 0.1, .momentum = 0.9, .weight_decay = 1e-4};

Metrics Measure(const torch::Tensor& logits, const torch::Tensor& target,
                const std::string& prefix) {
  return {{prefix + "top1", Accuracy(logits, target)},
          {prefix + "top5", TopKAccuracy(logits, target, 5)}};
}

// Smaller images have nothing left after the last pooling.
void CheckSide(const std::string& arch, std::int64_t side) {
  std::int64_t least = 1;
  if (arch == "alexnet") least = 63;
  if (arch.starts_with("vgg")) least = 32;
  if (side >= least) return;
  throw InvalidHyperparameters(
      arch + " needs images of at least " + std::to_string(least) +
      " pixels a side, and these have " + std::to_string(side) +
      "; take another 'arch' or a larger 'crop_size'");
}

}  // namespace

ImageNetTrial::ImageNetTrial(TrialContext& context)
    : context_(context), data_(OpenImageNetData(context)), net_(MakeNet()) {
  LogLine(LogLevel::kInfo, "data: " + data_->description());
  context.Add(net_);  // moves it to the device: before the optimizer
  optimizer_ = MakeOptimizer(context, net_->parameters(), kImageNetDefaults);
  context.Add(optimizer_);
  AddSchedule();
}

std::shared_ptr<ImageClassifier> ImageNetTrial::MakeNet() const {
  const auto arch = context_.Get<std::string>("arch", "resnet18");
  if (std::ranges::find(kImageArchs, arch) == kImageArchs.end()) {
    throw InvalidHyperparameters(UnknownArch(arch));
  }
  CheckSide(arch, data_->side());
  const auto classes =
      context_.Get<std::int64_t>("num_classes", kImageNetClasses);
  if (classes < data_->classes()) {
    throw InvalidHyperparameters(
        "hyperparameter 'num_classes' is " + std::to_string(classes) +
        ", and the data have " + std::to_string(data_->classes()) +
        " classes; set it to that or more");
  }
  const bool pretrained =
      context_.Get<bool>("pretrained", false) && !context_.continues();
  // The lines of the original script; a checkpoint has all weights itself.
  LogLine(LogLevel::kInfo, (pretrained ? "=> using pre-trained model '"
                                       : "=> creating model '") +
                               arch + "'");
  auto net = MakeImageClassifier(arch, classes);
  if (classes != kImageNetClasses) {
    LogLine(LogLevel::kInfo,
            "num_classes: " + arch + " has a head of its own, " + net->head() +
                ", with " + std::to_string(classes) + " classes");
  }
  if (!pretrained) return net;
  const ImageNetFiles files(context_.Get<std::string>("data", ""));
  const auto weights = files.Weights(arch);
  if (!weights) throw Error(ErrorKind::kFailed, files.MissingWeights(arch));
  LogLine(LogLevel::kInfo,
          LoadPretrained(*net, *weights,
                         classes == kImageNetClasses ? OtherHead::kError
                                                     : OtherHead::kKeepNew));
  return net;
}

// StepLR(step_size=2, gamma=0.1), stepped every epoch, unless `schedule` asks
// for another.
void ImageNetTrial::AddSchedule() {
  const auto start = context_.Get<std::int64_t>("start-epoch", 0);
  if (context_.Get<std::string>("schedule", "step") != "step") {
    if (start != 0) {
      throw InvalidHyperparameters(
          "hyperparameter 'start-epoch' is for 'schedule: step' only");
    }
    const auto source = data_->Training(TrainingSamples());
    if (auto schedule = MakeSchedule(context_, source->BatchesPerEpoch(),
                                     kImageNetDefaults)) {
      context_.Add(*std::move(schedule), *optimizer_, StepMode::kEveryBatch);
    }
    return;
  }
  const auto every = context_.Get<std::int64_t>("step_epochs", 2);
  const auto gamma = context_.Get<double>("gamma", 0.1);
  constexpr std::int64_t kMostEpochs = 1'000'000;
  if (start < 0 || start > kMostEpochs || every < 1 || !(gamma > 0)) {
    throw InvalidHyperparameters(
        "hyperparameters 'start-epoch', 'step_epochs' and 'gamma' must be from "
        "0 to 1000000, at least 1 and above 0");
  }
  LrSchedule schedule(StepLr{.step_size = every, .gamma = gamma});
  for (std::int64_t epoch = 0; epoch < start; ++epoch) schedule.Step();
  context_.Add(std::move(schedule), *optimizer_, StepMode::kEveryEpoch);
}

SamplerOptions ImageNetTrial::TrainingSamples() const {
  return {.batch_size = context_.batch_size(),
          .shuffle = true,
          .seed = context_.seed(),
          .drop_last = context_.Get<bool>("drop_last", false),
          .rank = context_.rank(),
          .ranks = context_.world_size()};
}

std::unique_ptr<DataSource> ImageNetTrial::TrainingData() {
  return data_->Training(TrainingSamples());
}

std::unique_ptr<DataSource> ImageNetTrial::ValidationData() {
  return data_->Validation({.batch_size = context_.batch_size(),
                            .wrap = false,
                            .rank = context_.rank(),
                            .ranks = context_.world_size()});
}

Metrics ImageNetTrial::TrainBatch(const Batch& batch, BatchIndex) {
  const torch::Tensor logits = net_->forward(batch.data);
  const torch::Tensor loss =
      torch::nn::functional::cross_entropy(logits, batch.target);
  Metrics metrics = Measure(logits.detach(), batch.target, "");
  context_.Backward(loss);
  context_.Step(*optimizer_);
  metrics["loss"] = loss.detach();
  return metrics;
}

Metrics ImageNetTrial::EvaluateBatch(const Batch& batch) {
  const torch::Tensor logits = net_->forward(batch.data);
  Metrics metrics = Measure(logits, batch.target, "val_");
  metrics["val_loss"] =
      torch::nn::functional::cross_entropy(logits, batch.target);
  return metrics;
}

torch::Tensor ImageNetTrial::Predict(const Batch& batch) {
  return net_->forward(batch.data).softmax(/*dim=*/1);
}

std::optional<ImageSteps> ImageNetTrial::ImagePreparation() {
  return data_->steps();
}

torch::Tensor ImageNetTrial::Features(const Batch& batch) {
  return net_->Features(batch.data);
}

void ImageNetTrial::OnValidationReport(const ReportPoint&, const MetricValues&,
                                       const MetricValues&) {
  if (data_->skipped() == skipped_) return;
  skipped_ = data_->skipped();
  LogLine(LogLevel::kWarning,
          std::to_string(skipped_) +
              " image files could not be read so far and were left out");
}

std::unique_ptr<Trial> MakeImageNetTrial(TrialContext& context) {
  return std::make_unique<ImageNetTrial>(context);
}

}  // namespace dtrain
