#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include <torch/types.h>

#include "engine/train/trial.h"
#include "models/data_sets.h"
#include "models/nets/conv_nets.h"

namespace dtrain {

/// Mean of a metric of batches over each epoch, for trials that report both.
/// Stays on the device. Part of the trial's state: use Save() and Load().
class EpochMean {
 public:
  /// REQUIRES: batches_per_epoch ≥ 1.
  explicit EpochMean(std::int64_t batches_per_epoch)
      : batches_per_epoch_(batches_per_epoch) {}

  /// Adds `value` of batch `index`. Returns the epoch's mean at its last batch,
  /// otherwise an undefined tensor, which is not reported.
  torch::Tensor Add(const torch::Tensor& value, BatchIndex index);

  /// True if Add returns a mean at this batch (and so issues more work than at
  /// others).
  bool IsLast(BatchIndex index) const {
    return (index.batch + 1) % batches_per_epoch_ == 0;
  }

  /// Sum so far; undefined at the beginning.
  const torch::Tensor& Save() const { return sum_; }
  void Load(const torch::Tensor& sum, torch::Device device);

 private:
  std::int64_t batches_per_epoch_;
  torch::Tensor sum_;  // double, at a fixed address
};

/// The classifier of PyBlaze's training guide: a small convolutional network on
/// CIFAR-10, with pixels divided by 255, and a random split into training and
/// validation images. Metrics: micro_train_loss of each batch, train_loss of
/// each epoch, val_loss, val_accuracy.
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

/// Maker for models/table.cc.
std::unique_ptr<Trial> MakeCNNTrial(TrialContext& context);

}  // namespace dtrain
