// CNNTrial: the classifier of PyBlaze's training guide, with its metrics and
// its log lines.
//
// The mean loss of an epoch is summed on the device and reported with the last
// batch of the epoch only; its sum is part of the trial's state, so that an
// epoch that is interrupted has the same mean. That last batch is not captured
// as a CUDA graph, because it issues other work (Capturable).

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <torch/types.h>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/data/batch_sampler.h"
#include "engine/data/dataset_readers.h"
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

// Mean of a metric of batches over each epoch, for trials that report both.
// Stays on the device. Part of the trial's state: use Save() and Load().
class EpochMean {
 public:
  // REQUIRES: batches_per_epoch ≥ 1.
  explicit EpochMean(std::int64_t batches_per_epoch)
      : batches_per_epoch_(batches_per_epoch) {}

  // Adds `value` of batch `index`. Returns the epoch's mean at its last batch,
  // otherwise an undefined tensor, which is not reported.
  torch::Tensor Add(const torch::Tensor& value, BatchIndex index);

  // True if Add returns a mean at this batch (and so issues more work than at
  // others).
  bool IsLast(BatchIndex index) const {
    return (index.batch + 1) % batches_per_epoch_ == 0;
  }

  // Sum so far; undefined at the beginning.
  const torch::Tensor& Save() const { return sum_; }
  void Load(const torch::Tensor& sum, torch::Device device);

 private:
  std::int64_t batches_per_epoch_;
  torch::Tensor sum_;  // double, at a fixed address
};

// The classifier of PyBlaze's training guide: a small convolutional network on
// CIFAR-10, with pixels divided by 255, and a random split into training and
// validation images. Metrics: micro_train_loss of each batch, train_loss of
// each epoch, val_loss, val_accuracy.
class CNNTrial final : public Trial, public NamedClasses {
 public:
  explicit CNNTrial(TrialContext& context);

  std::unique_ptr<DataSource> TrainingData() override;
  std::unique_ptr<DataSource> ValidationData() override;
  std::unique_ptr<DataSource> TestData() override;
  Metrics TrainBatch(const Batch& batch, BatchIndex index) override;
  bool Capturable(BatchIndex index) const override {
    return !epoch_loss_.IsLast(index);
  }
  Metrics EvaluateBatch(const Batch& batch) override;
  torch::Tensor Predict(const Batch& batch) override;
  std::optional<ImageSteps> ImagePreparation() override;
  std::vector<std::string> ClassNames() const override {
    return Cifar10ClassNames();
  }
  void OnValidationReport(const ReportPoint& point,
                          const MetricValues& training,
                          const MetricValues& validation) override;
  std::map<std::string, torch::Tensor> Save() override;
  void Load(const std::map<std::string, torch::Tensor>& state) override;

 private:
  // Training and validation set; the latter may be empty.
  struct Split {
    ImageSet training;
    ImageSet validation;
  };

  Split SplitTraining() const;
  SamplerOptions TrainingSamples() const;
  std::unique_ptr<DataSource> Held(const ImageSet& set) const;
  std::unique_ptr<DataSource> Source(const ImageSet& set,
                                     const SamplerOptions& samples,
                                     const Augmentation& augmentation) const;

  TrialContext& context_;
  Cifar10Sets data_;
  Split split_;
  std::shared_ptr<CifarCnn> net_;
  std::shared_ptr<torch::optim::Optimizer> optimizer_;
  EpochMean epoch_loss_;
  std::chrono::steady_clock::time_point epoch_began_ =
      std::chrono::steady_clock::now();
};

}  // namespace

torch::Tensor EpochMean::Add(const torch::Tensor& value, BatchIndex index) {
  const torch::NoGradGuard no_grad;
  const torch::Tensor number = value.detach().to(torch::kDouble);
  if (!sum_.defined()) sum_ = torch::zeros_like(number);
  sum_.add_(number);
  if (!IsLast(index)) return {};
  const torch::Tensor mean = sum_ / batches_per_epoch_;
  sum_.zero_();
  return mean;
}

void EpochMean::Load(const torch::Tensor& sum, torch::Device device) {
  sum_ = sum.defined() ? sum.to(device).clone() : sum;
}

namespace {

constexpr char kEpochLoss[] = "epoch_loss";
constexpr std::int64_t kHeldBatch = 2048;
// Adam's own defaults.
constexpr OptimizerDefaults kDefaults = {
    .optimizer = "adam", .lr = 1e-3, .momentum = 0.9};

std::vector<double> Fractions(const TrialContext& context) {
  const auto split =
      context.Get<nlohmann::json>("split", nlohmann::json::array({0.8, 0.2}));
  std::vector<double> fractions;
  const bool is_list = split.is_array() && !split.empty();
  for (const nlohmann::json& fraction : is_list ? split : nlohmann::json()) {
    if (fraction.is_number()) fractions.push_back(fraction.get<double>());
  }
  if (!is_list || fractions.size() != split.size()) {
    throw InvalidHyperparameters(
        "hyperparameter 'split': expected a list of fractions such as [0.8, "
        "0.2], for training and validation");
  }
  return fractions;
}

ImageSet Subset(const ImageSet& set, const std::vector<std::int64_t>& samples) {
  return {.images = set.images,
          .labels = set.labels,
          .samples = torch::tensor(samples, torch::kInt64)};
}

// Usual for CIFAR-10 (He et al., arXiv:1512.03385, 4.2).
constexpr Augmentation kAugmentation = {.padding = 4, .flip = true};

// Every source divides pixels by 255.
const Normalization kOnlyScaled = {.mean = {0, 0, 0}, .std = {1, 1, 1}};

}  // namespace

CNNTrial::CNNTrial(TrialContext& context)
    : context_(context),
      data_(LoadCifar10(context.Get<std::string>("data", ""))),
      split_(SplitTraining()),
      net_(std::make_shared<CifarCnn>(kCifar10Classes,
                                      context.Get<bool>("own_kernels", true))),
      epoch_loss_(BatchSampler(TrainingSamples()).BatchesPerEpoch()) {
  LogLine(LogLevel::kInfo,
          "data: " + data_.description + "; " +
              std::to_string(split_.training.size()) + " for training, " +
              std::to_string(split_.validation.size()) + " for validation");
  context.Add(net_);  // moves it to the device; before the optimizer
  optimizer_ = MakeOptimizer(context, net_->parameters(), kDefaults);
  context.Add(optimizer_);
  const BatchSampler sampler(TrainingSamples());
  if (std::optional<LrSchedule> schedule =
          MakeSchedule(context, sampler.BatchesPerEpoch(), kDefaults)) {
    context.Add(*std::move(schedule), *optimizer_, StepMode::kEveryBatch);
  }
}

CNNTrial::Split CNNTrial::SplitTraining() const try {
  const auto subsets =
      RandomSplit(data_.training.size(), Fractions(context_),
                  context_.Get<std::uint32_t>("split_seed", 0));
  Split split{.training = Subset(data_.training, subsets[0])};
  // Further sets of the split are ignored.
  if (subsets.size() > 1) {
    split.validation = Subset(data_.training, subsets[1]);
  }
  return split;
} catch (const Error& error) {
  throw InvalidHyperparameters(std::string("hyperparameter 'split': ") +
                               error.what());
}

std::unique_ptr<DataSource> CNNTrial::TrainingData() {
  const Augmentation augmentation =
      context_.Get<bool>("augment", false) ? kAugmentation : Augmentation{};
  return Source(split_.training, TrainingSamples(), augmentation);
}

std::unique_ptr<DataSource> CNNTrial::ValidationData() {
  return split_.validation.images.defined() ? Held(split_.validation) : nullptr;
}

std::unique_ptr<DataSource> CNNTrial::TestData() {
  if (data_.test.size() == 0) return nullptr;
  if (!data_.whole_test) {
    LogLine(LogLevel::kWarning,
            "the test set is incomplete: the first " +
                std::to_string(data_.test.size()) +
                " of its 10,000 images; the results are not a CIFAR-10 test "
                "result");
  }
  return Held(data_.test);
}

Metrics CNNTrial::TrainBatch(const Batch& batch, BatchIndex index) {
  const torch::Tensor loss =
      CrossEntropy(net_->forward(batch.data), batch.target);
  context_.Backward(loss);
  context_.Step(*optimizer_);
  return {{"micro_train_loss", loss.detach()},
          {"train_loss", epoch_loss_.Add(loss, index)}};
}

Metrics CNNTrial::EvaluateBatch(const Batch& batch) {
  const torch::Tensor logits = net_->forward(batch.data);
  const auto [loss, accuracy] = CrossEntropyAndAccuracy(logits, batch.target);
  return {{"val_loss", loss}, {"val_accuracy", accuracy}};
}

torch::Tensor CNNTrial::Predict(const Batch& batch) {
  return net_->forward(batch.data).softmax(/*dim=*/1);
}

// Log lines of the guide's BatchProgressLogger.
void CNNTrial::OnValidationReport(const ReportPoint& point,
                                  const MetricValues& training,
                                  const MetricValues& validation) {
  const auto now = std::chrono::steady_clock::now();
  std::string line = "  [Elapsed " + FormatElapsed(now - epoch_began_) + "]";
  epoch_began_ = now;
  const char* separator = " ";
  const auto add = [&](const std::string& name, double value) {
    std::array<char, 32> digits{};
    std::snprintf(digits.data(), digits.size(), "%.5f", value);
    line += separator + name + ": " + digits.data();
    separator = ", ";
  };
  for (const auto& [name, value] : training) {
    if (name == "train_loss") add(name, value);
  }
  for (const auto& [name, value] : validation) add(name, value);
  LogLine(LogLevel::kInfo, "Epoch " + std::to_string(point.epoch) + "/" +
                               std::to_string(point.epochs) + ":");
  LogLine(LogLevel::kInfo, line);
}

std::map<std::string, torch::Tensor> CNNTrial::Save() {
  return {{kEpochLoss, epoch_loss_.Save()}};
}

void CNNTrial::Load(const std::map<std::string, torch::Tensor>& state) {
  const auto found = state.find(kEpochLoss);
  if (found != state.end()) epoch_loss_.Load(found->second, context_.device());
}

std::optional<ImageSteps> CNNTrial::ImagePreparation() {
  return ImageSteps{.crop = kCifar10Side,
                    .resize = kCifar10Side,
                    .normalization = kOnlyScaled};
}

SamplerOptions CNNTrial::TrainingSamples() const {
  return {.samples = split_.training.size(),
          .batch_size = context_.batch_size(),
          .shuffle = true,
          .seed = context_.seed(),
          .rank = context_.rank(),
          .ranks = context_.world_size()};
}

std::unique_ptr<DataSource> CNNTrial::Held(const ImageSet& set) const {
  return Source(set,
                {.batch_size = kHeldBatch,
                 .wrap = false,
                 .rank = context_.rank(),
                 .ranks = context_.world_size()},
                /*augmentation=*/{});
}

std::unique_ptr<DataSource> CNNTrial::Source(
    const ImageSet& set, const SamplerOptions& samples,
    const Augmentation& augmentation) const {
  return std::make_unique<MemorySource>(set, samples, kOnlyScaled,
                                        context_.device(), augmentation);
}

// Declared in models/table.cc.
std::unique_ptr<Trial> MakeCNNTrial(TrialContext& context) {
  return std::make_unique<CNNTrial>(context);
}

}  // namespace dtrain
